#include "runtime/train/optimizers/adadelta.h"

#include "runtime/device/kernels/adadelta.h"
#include "runtime/train/optimizers/make.h"

namespace meshwork {

template <class Visitor>
void describe(AdadeltaOptions& options, Visitor& option) {
  option.about("gradients scaled by running root mean squares of steps and of gradients");
  describe_common(options, option);
  option("rho", options.rho, between(0, 1), "share of both means kept per step");
  option("epsilon", options.epsilon, float_not_negative, "added to both means");
}

Optimizer Adadelta(const AdadeltaOptions& options) {
  return make_optimizer("Adadelta", options,
                        {{.name = "accumulated_grad", .not_negative = true},
                         {.name = "accumulated_delta_var", .not_negative = true}},
                        AdadeltaSpec{.rho = options.rho, .epsilon = options.epsilon});
}

void add_adadelta(Catalog& catalog) {
  catalog.add<Optimizer, AdadeltaOptions>("Adadelta", {"adadelta"}, Adadelta);
}

}  // namespace meshwork
