#include "runtime/train/optimizers/schedule_free_adamw.h"

#include "runtime/device/kernels/schedule_free.h"
#include "runtime/train/optimizers/make.h"

namespace meshwork {

template <class Visitor>
void describe(ScheduleFreeAdamWOptions& options, Visitor& option) {
  option.about("AdamW with a mean of its steps in place of a falling rate");
  describe_common(options, option);
  option("beta_1", options.beta_1, float_not_vanishing.below(1),
         "share of the mean in the weights");
  option("beta_2", options.beta_2, at_least(0).below(1),
         "share of the squares' mean kept per step");
  option("epsilon", options.epsilon, float_not_negative, "added to the root of the squares' mean");
  option("warmup_steps", options.warmup_steps, at_least(0), "steps over which the rate rises");
}

Optimizer ScheduleFreeAdamW(const ScheduleFreeAdamWOptions& options) {
  return make_optimizer("ScheduleFreeAdamW", options,
                        {{"momentum"}, {.name = "velocity", .not_negative = true}},
                        ScheduleFreeSpec{.beta_1 = options.beta_1,
                                         .beta_2 = options.beta_2,
                                         .epsilon = options.epsilon,
                                         .warmup = options.warmup_steps});
}

void add_schedule_free_adamw(Catalog& catalog) {
  catalog.add<Optimizer, ScheduleFreeAdamWOptions>("ScheduleFreeAdamW", {"schedulefreeadamw"},
                                                   ScheduleFreeAdamW);
}

}  // namespace meshwork
