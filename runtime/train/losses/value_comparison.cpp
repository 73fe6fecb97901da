#include "runtime/train/losses/value_comparison.h"

#include <utility>

#include "runtime/graph/operations/dimensions.h"
#include "runtime/train/losses/comparison.h"

namespace meshwork {
namespace {

class ValueOperation final : public ComparisonOperation {
 public:
  ValueOperation(std::string kind, ValueKernels kernels)
      : ComparisonOperation(std::move(kind), TargetForm::values), kernels_(std::move(kernels)) {}

  double flops(std::span<const Shape> inputs, const Shape&) const override {
    return kernels_.flops * static_cast<double>(element_count(inputs[0]));
  }

  void forward(Lowering& lowering) const override {
    lowering.emit(kernels_.sum(element_count(lowering.local_shape(0)), mean_over_row(lowering)),
                  {lowering.input(0), lowering.input(1), lowering.output()});
  }

  void backward(Lowering& lowering) const override {
    if (!kernels_.gradient) {
      give_no_gradient(lowering);
    } else if (lowering.needs_gradient(0)) {
      kernels_.gradient(lowering, element_count(lowering.local_shape(0)),
                        mean_over_row(lowering) * mean_factor(lowering));
    }
  }

 private:
  static double mean_over_row(const Lowering& lowering) {
    const std::int64_t values = values_in_row(lowering.global_shape(0));
    return values > 0 ? 1 / static_cast<double>(values) : 0;
  }

  ValueKernels kernels_;
};

MakeOperation operation_of(std::string kind, ValueKernels kernels) {
  return [kind = std::move(kind), kernels = std::move(kernels)] {
    return std::make_unique<ValueOperation>(kind, kernels);
  };
}

}  // namespace

SharedLoss make_value_loss(std::string name, std::string kind, ValueKernels kernels,
                           Predictions predictions) {
  return make_loss(std::move(name), TargetForm::values,
                   operation_of(std::move(kind), std::move(kernels)), predictions);
}

SharedMetric make_value_metric(std::string name, std::string kind, ValueKernels kernels) {
  return make_metric(std::move(name), TargetForm::values,
                     operation_of(std::move(kind), std::move(kernels)));
}

}  // namespace meshwork
