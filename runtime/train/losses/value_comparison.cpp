#include "runtime/train/losses/value_comparison.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/device/kernels/losses.h"
#include "runtime/graph/operations/dimensions.h"
#include "runtime/train/losses/comparison.h"

namespace meshwork {
namespace {

class ValueOperation final : public ComparisonOperation {
 public:
  ValueOperation(std::string kind, ValueKernels kernels, bool weighted)
      : ComparisonOperation(std::move(kind), TargetForm::values, weighted),
        kernels_(std::move(kernels)) {}

  double flops(std::span<const Shape> inputs, const Shape&) const override {
    return kernels_.flops * static_cast<double>(element_count(inputs[0]));
  }

  void forward(Lowering& lowering) const override {
    std::vector<Operand> operands = compared(lowering);
    operands.push_back(lowering.output());
    lowering.emit(kernels_.sum(element_count(lowering.local_shape(0)), of_row(lowering),
                               values_a_weight(lowering)),
                  std::move(operands));
  }

  void backward(Lowering& lowering) const override {
    if (!kernels_.gradient) {
      give_no_gradient(lowering);
    } else if (lowering.needs_gradient(0)) {
      const std::int64_t count = element_count(lowering.local_shape(0));
      kernels_.gradient(lowering, count, of_row(lowering) * mean_factor(lowering));
      if (weighted()) {
        lowering.emit(WeightGradientSpec{count, values_a_weight(lowering)},
                      {lowering.input(2), lowering.input_gradient(0)});
      }
    }
  }

 private:
  // By which what values give becomes what rows give.
  [[nodiscard]] double of_row(const Lowering& lowering) const {
    if (kernels_.sums_row) return 1;
    const std::int64_t values = values_in_row(lowering.global_shape(0));
    return values > 0 ? 1 / static_cast<double>(values) : 0;
  }

  // Of this rank's block.
  std::int64_t values_a_weight(const Lowering& lowering) const {
    if (!weighted()) return 0;
    const Shape values = lowering.local_shape(0);
    const std::int64_t columns = values.size() == 1 ? 1 : values.back();
    return rows_a_weight(lowering) * std::max<std::int64_t>(columns, 1);
  }

  ValueKernels kernels_;
};

MakeOperation operation_of(std::string kind, ValueKernels kernels) {
  return [kind = std::move(kind), kernels = std::move(kernels)](bool weighted) {
    return std::make_unique<ValueOperation>(kind, kernels, weighted);
  };
}

}  // namespace

SharedLoss make_value_loss(std::string name, std::string kind, ValueKernels kernels,
                           Predictions predictions, bool binary) {
  return make_loss(std::move(name), TargetForm::values,
                   operation_of(std::move(kind), std::move(kernels)), predictions, binary);
}

SharedMetric make_value_metric(std::string name, std::string kind, ValueKernels kernels,
                               Predictions predictions) {
  return make_metric(
      std::move(name), TargetForm::values, operation_of(std::move(kind), std::move(kernels)),
      {.better = Better::higher, .value = {}, .predictions = predictions, .weighs = true});
}

}  // namespace meshwork
