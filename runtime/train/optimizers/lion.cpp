#include "runtime/train/optimizers/lion.h"

#include "runtime/device/kernels/lion.h"
#include "runtime/train/optimizers/make.h"

namespace meshwork {

template <class Visitor>
void describe(LionOptions& options, Visitor& option) {
  option.about("steps by the sign of a running mean of gradients");
  describe_common(options, option);
  option("beta_1", options.beta_1, positive.up_to(1),
         "share of the mean in the sum whose sign counts");
  option("beta_2", options.beta_2, between(0, 1), "share of the gradients' mean kept per step");
}

Optimizer Lion(const LionOptions& options) {
  return make_optimizer("Lion", options, {{"momentum"}},
                        LionSpec{.beta_1 = options.beta_1, .beta_2 = options.beta_2});
}

void add_lion(Catalog& catalog) {
  catalog.add<Optimizer, LionOptions>("Lion", {"lion"}, Lion);
}

}  // namespace meshwork
