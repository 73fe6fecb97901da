#include "runtime/train/losses/mean_squared_logarithmic_error.h"

#include "runtime/train/from_config.h"
#include "runtime/train/losses/function_loss.h"

namespace meshwork {

SharedLoss MeanSquaredLogarithmicError(const MeanSquaredLogarithmicErrorOptions& options) {
  return make_function_loss(options.name, "mean_squared_logarithmic_error",
                            SquaredLogarithmicFunction{});
}

void add_mean_squared_logarithmic_error(Catalog& catalog) {
  catalog.add<SharedLoss, MeanSquaredLogarithmicErrorOptions>(
      "MeanSquaredLogarithmicError", {"mean_squared_logarithmic_error", "msle", "MSLE"},
      MeanSquaredLogarithmicError);
}

}  // namespace meshwork
