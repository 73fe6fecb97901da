#include "runtime/train/optimizers/adam.h"

#include "runtime/device/kernels/adam.h"
#include "runtime/train/optimizers/make.h"

namespace meshwork {

template <class Options, class Visitor>
requires std::same_as<Options, AdamOptions> || std::same_as<Options, AdamWOptions>
void describe(Options& options, Visitor& option) {
  option.about("steps by running means of gradients and of their squares");
  describe_common(options, option);
  describe_moments(options, option);
  option("amsgrad", options.amsgrad, "divide by the largest mean of squares so far");
}

namespace {

template <class Options>
Optimizer make_adam(const std::string& class_name, const Options& options) {
  std::vector<Slot> slots{{"m"}, {.name = "v", .not_negative = true}};
  if (options.amsgrad) {
    slots.push_back({.name = "v_max", .not_negative = true});
  }
  return make_optimizer(class_name, options, std::move(slots),
                        AdamSpec{.beta_1 = options.beta_1,
                                 .beta_2 = options.beta_2,
                                 .epsilon = options.epsilon,
                                 .amsgrad = options.amsgrad});
}

}  // namespace

Optimizer Adam(const AdamOptions& options) {
  return make_adam("Adam", options);
}

Optimizer AdamW(const AdamWOptions& options) {
  return make_adam("AdamW", options);
}

void add_adam(Catalog& catalog) {
  catalog.add<Optimizer, AdamOptions>("Adam", {"adam"}, Adam);
  catalog.add<Optimizer, AdamWOptions>("AdamW", {"adamw"}, AdamW);
}

}  // namespace meshwork
