#include "runtime/train/losses/hinge.h"

#include "runtime/train/from_config.h"
#include "runtime/train/losses/function_loss.h"

namespace meshwork {

SharedLoss Hinge(const HingeOptions& options) {
  return make_function_loss(options.name, "hinge", HingeFunction<false>{});
}

SharedLoss SquaredHinge(const SquaredHingeOptions& options) {
  return make_function_loss(options.name, "squared_hinge", HingeFunction<true>{});
}

SharedLoss CategoricalHinge(const CategoricalHingeOptions& options) {
  return make_row_loss(options.name, "categorical_hinge", CategoricalHingeFunction{});
}

void add_hinge(Catalog& catalog) {
  catalog.add<SharedLoss, HingeOptions>("Hinge", {"hinge"}, Hinge);
  catalog.add<SharedLoss, SquaredHingeOptions>("SquaredHinge", {"squared_hinge"}, SquaredHinge);
  catalog.add<SharedLoss, CategoricalHingeOptions>("CategoricalHinge", {"categorical_hinge"},
                                                   CategoricalHinge);
}

}  // namespace meshwork
