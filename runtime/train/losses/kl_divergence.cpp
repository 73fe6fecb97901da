#include "runtime/train/losses/kl_divergence.h"

#include "runtime/train/from_config.h"
#include "runtime/train/losses/function_loss.h"

namespace meshwork {

SharedLoss KLDivergence(const KLDivergenceOptions& options) {
  return make_function_loss(options.name, "kl_divergence", DivergenceFunction{},
                            {.sums_row = true});
}

void add_kl_divergence(Catalog& catalog) {
  catalog.add<SharedLoss, KLDivergenceOptions>("KLDivergence", {"kl_divergence", "kld", "KLD"},
                                               KLDivergence);
}

}  // namespace meshwork
