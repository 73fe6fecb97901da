#include "runtime/train/losses/value_loss.h"

#include <utility>

#include "runtime/graph/operations/dimensions.h"
#include "runtime/train/comparison.h"

namespace meshwork {
namespace {

class ValueLossOperation final : public Operation {
 public:
  ValueLossOperation(std::string kind, ValueLossKernels kernels)
      : kind_(std::move(kind)), kernels_(std::move(kernels)) {}

  std::string kind() const override { return kind_; }

  Shape output_shape(std::span<const Shape> inputs) const override {
    check_input_count(inputs, 2);
    check_target(TargetForm::values, inputs[0], inputs[1]);
    return {};
  }

  Rule rule(std::span<const Shape> inputs) const override {
    return comparison_rule(TargetForm::values, inputs[0], inputs[1]);
  }

  double flops(std::span<const Shape> inputs, const Shape&) const override {
    return 3.0 * static_cast<double>(element_count(inputs[0]));
  }

  void forward(Lowering& lowering) const override {
    lowering.emit(kernels_.sum(element_count(lowering.local_shape(0)), mean_over_row(lowering)),
                  {lowering.input(0), lowering.input(1), lowering.output()});
  }

  void backward(Lowering& lowering) const override {
    if (lowering.needs_gradient(0)) {
      kernels_.gradient(lowering, element_count(lowering.local_shape(0)),
                        mean_over_row(lowering) * mean_factor(lowering));
    }
  }

 private:
  static double mean_over_row(const Lowering& lowering) {
    const std::int64_t values = values_in_row(lowering.global_shape(0));
    return values > 0 ? 1 / static_cast<double>(values) : 0;
  }

  std::string kind_;
  ValueLossKernels kernels_;
};

class ValueLoss final : public Loss {
 public:
  ValueLoss(std::string name, std::string kind, ValueLossKernels kernels)
      : name_(std::move(name)), kind_(std::move(kind)), kernels_(std::move(kernels)) {}

  std::string name() const override { return name_; }
  Shape target_shape(const Shape& prediction) const override {
    return target_shape_of(TargetForm::values, prediction);
  }
  std::unique_ptr<Operation> operation(const Shape& prediction,
                                       const Shape& target) const override {
    check_target(TargetForm::values, prediction, target);
    return std::make_unique<ValueLossOperation>(kind_, kernels_);
  }

 private:
  std::string name_;
  std::string kind_;
  ValueLossKernels kernels_;
};

}  // namespace

SharedLoss make_value_loss(std::string name, std::string kind, ValueLossKernels kernels) {
  return std::make_shared<ValueLoss>(std::move(name), std::move(kind), std::move(kernels));
}

}  // namespace meshwork
