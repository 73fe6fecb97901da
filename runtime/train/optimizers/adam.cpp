#include "runtime/train/optimizers/adam.h"

#include <cmath>
#include <limits>

namespace meshwork {
namespace {

Optimizer make_adam(const std::string& class_name, const AdamOptions& options) {
  const double below_one = std::nextafter(1.0, 0.0);
  check_option(class_name, "beta_1", options.beta_1, 0, below_one);
  check_option(class_name, "beta_2", options.beta_2, 0, below_one);
  check_option(class_name, "epsilon", options.epsilon, 0, std::numeric_limits<float>::max());
  std::vector<std::string> slots{"m", "v"};
  if (options.amsgrad) {
    slots.emplace_back("v_max");
  }
  return {class_name,
          options.learning_rate,
          {options.weight_decay, options.clipnorm, options.clipvalue, options.global_clipnorm},
          {setting("beta_1", options.beta_1), setting("beta_2", options.beta_2),
           setting("epsilon", options.epsilon), setting("amsgrad", options.amsgrad)},
          std::move(slots),
          AdamSpec{.beta_1 = options.beta_1,
                   .beta_2 = options.beta_2,
                   .epsilon = options.epsilon,
                   .amsgrad = options.amsgrad}};
}

}  // namespace

Optimizer Adam(const AdamOptions& options) {
  return make_adam("Adam", options);
}

Optimizer AdamW(const AdamWOptions& options) {
  return make_adam("AdamW", {.learning_rate = options.learning_rate,
                             .beta_1 = options.beta_1,
                             .beta_2 = options.beta_2,
                             .epsilon = options.epsilon,
                             .amsgrad = options.amsgrad,
                             .weight_decay = options.weight_decay,
                             .clipnorm = options.clipnorm,
                             .clipvalue = options.clipvalue,
                             .global_clipnorm = options.global_clipnorm});
}

}  // namespace meshwork
