#include "runtime/train/losses/mean_absolute_percentage_error.h"

#include "runtime/train/from_config.h"
#include "runtime/train/losses/function_loss.h"

namespace meshwork {

SharedLoss MeanAbsolutePercentageError(const MeanAbsolutePercentageErrorOptions& options) {
  return make_function_loss(options.name, "mean_absolute_percentage_error", PercentageFunction{});
}

void add_mean_absolute_percentage_error(Catalog& catalog) {
  catalog.add<SharedLoss, MeanAbsolutePercentageErrorOptions>(
      "MeanAbsolutePercentageError", {"mean_absolute_percentage_error", "mape", "MAPE"},
      MeanAbsolutePercentageError);
}

}  // namespace meshwork
