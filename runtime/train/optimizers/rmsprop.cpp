#include "runtime/train/optimizers/rmsprop.h"

#include "runtime/device/kernels/rmsprop.h"
#include "runtime/train/optimizers/make.h"

namespace meshwork {

template <class Visitor>
void describe(RMSpropOptions& options, Visitor& option) {
  option.about("gradients divided by their running root mean square");
  describe_common(options, option);
  option("rho", options.rho, between(0, 1), "share of the squares' mean kept per step");
  option("momentum", options.momentum, between(0, 1), "share of the last step added to the next");
  option("epsilon", options.epsilon, float_not_negative, "added to the squares' mean");
  option("centered", options.centered, "divide by the variance: subtract the squared mean");
}

Optimizer RMSprop(const RMSpropOptions& options) {
  std::vector<Slot> slots{{.name = "velocity", .not_negative = true}};
  if (options.momentum != 0) {
    slots.push_back({"momentum"});
  }
  if (options.centered) {
    slots.push_back({"average_gradient"});
  }
  return make_optimizer("RMSprop", options, std::move(slots),
                        RmspropSpec{.rho = options.rho,
                                    .momentum = options.momentum,
                                    .epsilon = options.epsilon,
                                    .centered = options.centered});
}

void add_rmsprop(Catalog& catalog) {
  catalog.add<Optimizer, RMSpropOptions>("RMSprop", {"rmsprop"}, RMSprop);
}

}  // namespace meshwork
