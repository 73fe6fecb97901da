#include "runtime/train/optimizers/rmsprop.h"

#include <limits>

namespace meshwork {

Optimizer RMSprop(const RMSpropOptions& options) {
  check_option("RMSprop", "rho", options.rho, 0, 1);
  check_option("RMSprop", "momentum", options.momentum, 0, 1);
  check_option("RMSprop", "epsilon", options.epsilon, 0, std::numeric_limits<float>::max());
  std::vector<std::string> slots{"velocity"};
  if (options.momentum != 0) {
    slots.emplace_back("momentum");
  }
  if (options.centered) {
    slots.emplace_back("average_gradient");
  }
  return {"RMSprop",
          options.learning_rate,
          {options.weight_decay, options.clipnorm, options.clipvalue, options.global_clipnorm},
          {setting("rho", options.rho), setting("momentum", options.momentum),
           setting("epsilon", options.epsilon), setting("centered", options.centered)},
          std::move(slots),
          RmspropSpec{.rho = options.rho,
                      .momentum = options.momentum,
                      .epsilon = options.epsilon,
                      .centered = options.centered}};
}

}  // namespace meshwork
