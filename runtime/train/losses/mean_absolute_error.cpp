#include "runtime/train/losses/mean_absolute_error.h"

#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/losses.h"
#include "runtime/device/kernels/norms.h"
#include "runtime/train/from_config.h"
#include "runtime/train/losses/value_comparison.h"

namespace meshwork {
namespace {

// dp = scale * sign(p - t): the difference, then the gradient of an L1 penalty on it.
void book_gradient(Lowering& lowering, std::int64_t count, double scale) {
  const Operand difference = lowering.scratch("difference", count);
  const Operand gradient = lowering.input_gradient(0);
  lowering.emit(AffineSpec{.count = count, .scale = -1}, {lowering.input(1), difference});
  lowering.emit(SumSpec{count, 2}, {difference, lowering.input(0), difference});
  lowering.zero(count, gradient);
  lowering.emit(PenaltyGradientSpec{.count = count, .l1 = static_cast<float>(scale)},
                {difference, gradient});
}

}  // namespace

SharedLoss MeanAbsoluteError(const MeanAbsoluteErrorOptions& options) {
  return make_value_loss(options.name, "mean_absolute_error",
                         {.sum =
                              [](std::int64_t count, double scale, std::int64_t values_a_weight) {
                                return AbsoluteErrorSpec{count, scale, values_a_weight};
                              },
                          .gradient = book_gradient});
}

void add_mean_absolute_error(Catalog& catalog) {
  catalog.add<SharedLoss, MeanAbsoluteErrorOptions>(
      "MeanAbsoluteError", {"mean_absolute_error", "mae", "MAE"}, MeanAbsoluteError);
}

}  // namespace meshwork
