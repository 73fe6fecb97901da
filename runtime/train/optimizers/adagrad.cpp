#include "runtime/train/optimizers/adagrad.h"

#include "runtime/device/kernels/adagrad.h"
#include "runtime/train/optimizers/make.h"

namespace meshwork {

template <class Visitor>
void describe(AdagradOptions& options, Visitor& option) {
  option.about("gradients divided by the root of the sum of their squares");
  describe_common(options, option);
  option("initial_accumulator_value", options.initial_accumulator_value, float_not_negative,
         "initial sum of squares");
  option("epsilon", options.epsilon, float_not_negative, "added to the sum of squares");
}

Optimizer Adagrad(const AdagradOptions& options) {
  return make_optimizer(
      "Adagrad", options,
      {{"accumulator", static_cast<float>(options.initial_accumulator_value), true}},
      AdagradSpec{.epsilon = options.epsilon});
}

void add_adagrad(Catalog& catalog) {
  catalog.add<Optimizer, AdagradOptions>("Adagrad", {"adagrad"}, Adagrad);
}

}  // namespace meshwork
