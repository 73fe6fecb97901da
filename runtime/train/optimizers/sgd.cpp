#include "runtime/train/optimizers/sgd.h"

#include "runtime/device/kernels/sgd.h"
#include "runtime/train/optimizers/make.h"

namespace meshwork {

template <class Visitor>
void describe(SGDOptions& options, Visitor& option) {
  option.about("steps along the gradient, with momentum if given");
  describe_common(options, option);
  option("momentum", options.momentum, between(0, 1), "share of the last step added to the next");
  option("nesterov", options.nesterov, "apply the momentum ahead (Nesterov)");
}

Optimizer SGD(const SGDOptions& options) {
  std::vector<Slot> slots;
  if (options.momentum != 0) {
    slots.push_back({"momentum"});
  }
  return make_optimizer(
      "SGD", options, std::move(slots),
      SgdSpec{.momentum = static_cast<float>(options.momentum), .nesterov = options.nesterov});
}

void add_sgd(Catalog& catalog) {
  catalog.add<Optimizer, SGDOptions>("SGD", {"sgd"}, SGD);
}

}  // namespace meshwork
