#include "runtime/train/losses/mean_squared_error.h"

#include "runtime/device/kernels/losses.h"
#include "runtime/train/from_config.h"
#include "runtime/train/losses/value_comparison.h"

namespace meshwork {

SharedLoss MeanSquaredError(const MeanSquaredErrorOptions& options) {
  return make_value_loss(
      options.name, "mean_squared_error",
      {.sum =
           [](std::int64_t count, double scale, std::int64_t values_a_weight) {
             return SquaredErrorSpec{count, scale, values_a_weight};
           },
       .gradient =
           [](Lowering& lowering, std::int64_t count, double scale) {
             lowering.emit(SquaredErrorGradientSpec{count, static_cast<float>(scale)},
                           {lowering.input(0), lowering.input(1), lowering.input_gradient(0)});
           }});
}

void add_mean_squared_error(Catalog& catalog) {
  catalog.add<SharedLoss, MeanSquaredErrorOptions>(
      "MeanSquaredError", {"mean_squared_error", "mse", "MSE"}, MeanSquaredError);
}

}  // namespace meshwork
