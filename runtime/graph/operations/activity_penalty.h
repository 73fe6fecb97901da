// A penalty on activity: y = x, and the loss gets l1 * sum |x| + l2 * sum x^2 of each sample, as
// the mean over the batch.
//
// Rule "bt->bt". Forward moves nothing: the sums of the step add up what the value is
// (step/sums.h). Backward: dx = dy + (l1 sign(x) + 2 l2 x) / rows of the global batch.
#pragma once

#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/norms.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"

namespace meshwork {

class ActivityPenaltyOperation final : public Operation {
 public:
  explicit ActivityPenaltyOperation(const ActivityPenalty& penalty) : penalty_(penalty) {}

  std::string kind() const override { return "activity penalty"; }
  double flops(std::span<const Shape>, const Shape& output) const override {
    return 4.0 * static_cast<double>(element_count(output));
  }
  ActivityPenalty penalty() const override { return penalty_; }
  ValueKind output_values() const override { return ValueKind::as_input; }

  void forward(Lowering& lowering) const override { lowering.output_is_input(0); }
  void backward(Lowering& lowering) const override {
    if (!lowering.needs_gradient(0)) return;
    const std::int64_t count = element_count(lowering.local_output_shape());
    const Operand x = lowering.input(0), dy = lowering.output_gradient(),
                  dx = lowering.input_gradient(0);
    const auto rows = static_cast<double>(lowering.global_output_shape().front());
    const auto share = static_cast<float>(rows > 0 ? lowering.share_of_batch() / rows : 0);
    lowering.emit(SumSpec{count, 1}, {dy, dx});
    lowering.emit(PenaltyGradientSpec{count, penalty_.l1 * share, penalty_.l2 * share}, {x, dx});
  }

 private:
  ActivityPenalty penalty_;
};

}  // namespace meshwork
