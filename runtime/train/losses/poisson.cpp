#include "runtime/train/losses/poisson.h"

#include "runtime/train/from_config.h"
#include "runtime/train/losses/function_loss.h"

namespace meshwork {

SharedLoss Poisson(const PoissonOptions& options) {
  return make_function_loss(options.name, "poisson", PoissonFunction{});
}

void add_poisson(Catalog& catalog) {
  catalog.add<SharedLoss, PoissonOptions>("Poisson", {"poisson"}, Poisson);
}

}  // namespace meshwork
