#include "runtime/train/optimizers/lamb.h"

#include "runtime/device/kernels/lamb.h"
#include "runtime/device/kernels/norms.h"
#include "runtime/device/kernels/sgd.h"
#include "runtime/train/optimizers/make.h"

namespace meshwork {

template <class Visitor>
void describe(LambOptions& options, Visitor& option) {
  option.about("Adam with steps as long as the variables that take them");
  describe_common(options, option);
  describe_moments(options, option);
}

Optimizer Lamb(const LambOptions& options) {
  Optimizer optimizer = make_optimizer(
      "Lamb", options, {{"momentum"}, {.name = "velocity", .not_negative = true}},
      LambSpec{.beta_1 = options.beta_1, .beta_2 = options.beta_2, .epsilon = options.epsilon});
  // A step times a factor is what plain SGD takes of a gradient.
  optimizer.scale_steps({.factor = [](std::int64_t) { return KernelSpec(NormRatioSpec{}); },
                         .kernel =
                             [](const UpdatedBlock& block) {
                               return KernelSpec(SgdSpec{.count = block.count,
                                                         .scaled = block.scaled,
                                                         .narrows = block.narrows});
                             }});
  return optimizer;
}

void add_lamb(Catalog& catalog) {
  catalog.add<Optimizer, LambOptions>("Lamb", {"lamb"}, Lamb);
}

}  // namespace meshwork
