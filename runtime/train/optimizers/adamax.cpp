#include "runtime/train/optimizers/adamax.h"

#include "runtime/device/kernels/adamax.h"
#include "runtime/train/optimizers/make.h"

namespace meshwork {

template <class Visitor>
void describe(AdamaxOptions& options, Visitor& option) {
  option.about("steps by a running mean of gradients and a fading maximum of their sizes");
  describe_common(options, option);
  option("beta_1", options.beta_1, at_least(0).below(1),
         "share of the gradients' mean kept per step");
  option("beta_2", options.beta_2, at_least(0).below(1), "share of the maximum kept a step");
  option("epsilon", options.epsilon, float_not_negative, "added to the maximum");
}

Optimizer Adamax(const AdamaxOptions& options) {
  return make_optimizer(
      "Adamax", options, {{"m"}, {.name = "u", .not_negative = true}},
      AdamaxSpec{.beta_1 = options.beta_1, .beta_2 = options.beta_2, .epsilon = options.epsilon});
}

void add_adamax(Catalog& catalog) {
  catalog.add<Optimizer, AdamaxOptions>("Adamax", {"adamax"}, Adamax);
}

}  // namespace meshwork
