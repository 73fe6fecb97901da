#include "runtime/train/optimizers/sgd.h"

namespace meshwork {

Optimizer SGD(const SGDOptions& options) {
  check_option("SGD", "momentum", options.momentum, 0, 1);
  std::vector<std::string> slots;
  if (options.momentum != 0) {
    slots.emplace_back("momentum");
  }
  return {"SGD",
          options.learning_rate,
          {options.weight_decay, options.clipnorm, options.clipvalue, options.global_clipnorm},
          {setting("momentum", options.momentum), setting("nesterov", options.nesterov)},
          std::move(slots),
          SgdSpec{.momentum = static_cast<float>(options.momentum), .nesterov = options.nesterov}};
}

}  // namespace meshwork
