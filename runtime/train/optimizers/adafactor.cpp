#include "runtime/train/optimizers/adafactor.h"

#include "runtime/device/kernels/adafactor.h"
#include "runtime/train/optimizers/make.h"

namespace meshwork {

template <class Visitor>
void describe(AdafactorOptions& options, Visitor& option) {
  option.about("steps scaled by the size of variables, with mean squares of rows and columns");
  describe_common(options, option);
  option("beta_2_decay", options.beta_2_decay, ValueRange{.high = 0, .low_included = false},
         "t to this power is the share of a step's squares in their mean");
  option("epsilon_1", options.epsilon_1, float_not_vanishing, "added to each square");
  option("epsilon_2", options.epsilon_2, float_not_negative,
         "smallest size of a variable that scales its steps");
  option("clip_threshold", options.clip_threshold, float_positive,
         "largest root of a step's mean square, before the rate");
}

Optimizer Adafactor(const AdafactorOptions& options) {
  Optimizer optimizer = make_optimizer(
      "Adafactor", options, {{.name = "factored_velocity", .not_negative = true}},
      AdafactorSpec{.beta_decay = options.beta_2_decay, .epsilon = options.epsilon_1});
  optimizer.factor_slot({.slot = 0, .kernel = [](std::int64_t count) {
                           return KernelSpec(RootQuotientSpec{count});
                         }});
  optimizer.scale_steps(
      {.factor =
           [least = options.epsilon_2, most = options.clip_threshold](std::int64_t count) {
             return KernelSpec(RelativeSizeSpec{count, least, most});
           },
       .kernel =
           [](const UpdatedBlock& block) {
             return KernelSpec(SlowingSpec{
                 .count = block.count, .scaled = block.scaled, .narrows = block.narrows});
           }});
  return optimizer;
}

void add_adafactor(Catalog& catalog) {
  catalog.add<Optimizer, AdafactorOptions>("Adafactor", {"adafactor"}, Adafactor);
}

}  // namespace meshwork
