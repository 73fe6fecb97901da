#include "runtime/train/optimizers/ftrl.h"

#include "runtime/device/kernels/ftrl.h"
#include "runtime/train/optimizers/make.h"

namespace meshwork {

template <class Visitor>
void describe(FtrlOptions& options, Visitor& option) {
  option.about("follow the regularized leader: weights that small gradients leave at 0");
  describe_common(options, option);
  option("learning_rate_power", options.learning_rate_power, at_least(-largest_float).up_to(0),
         "power of the sum of squares that divides the learning rate");
  option("initial_accumulator_value", options.initial_accumulator_value, float_not_negative,
         "initial sum of squares");
  option("l1_regularization_strength", options.l1_regularization_strength, float_not_negative,
         "bound of the sum of gradients below which a weight is 0");
  option("l2_regularization_strength", options.l2_regularization_strength, float_not_negative,
         "penalty on the square of a weight");
  option("l2_shrinkage_regularization_strength", options.l2_shrinkage_regularization_strength,
         float_not_negative, "share of a weight that joins its gradient, twice");
  option("beta", options.beta, float_not_negative, "added to the divisor of each learning rate");
}

Optimizer Ftrl(const FtrlOptions& options) {
  return make_optimizer(
      "Ftrl", options,
      {{"accumulator", static_cast<float>(options.initial_accumulator_value), true}, {"linear"}},
      FtrlSpec{.power = options.learning_rate_power,
               .l1 = options.l1_regularization_strength,
               .l2 = options.l2_regularization_strength,
               .shrinkage = options.l2_shrinkage_regularization_strength,
               .beta = options.beta});
}

void add_ftrl(Catalog& catalog) {
  catalog.add<Optimizer, FtrlOptions>("Ftrl", {"ftrl"}, Ftrl);
}

}  // namespace meshwork
