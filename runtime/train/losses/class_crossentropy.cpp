#include "runtime/train/losses/class_crossentropy.h"

#include <utility>

#include "runtime/device/kernels/classes.h"
#include "runtime/device/kernels/rows.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operations/dimensions.h"

namespace meshwork {
namespace {

class ClassCrossentropyOperation final : public ComparisonOperation {
 public:
  ClassCrossentropyOperation(std::string kind, const ClassCrossentropy& crossentropy)
      : ComparisonOperation(std::move(kind), crossentropy.targets), crossentropy_(crossentropy) {}

  std::vector<OwnReduction> own_reductions(const Rule& rule) const override {
    if (crossentropy_.from_logits) {
      return {row_reduction(rule, 1, false), row_reduction(rule, 3, false)};
    }
    const OwnReduction loss{.over = std::string(class_letter), .of = "", .bytes_per_element = 8};
    return {row_reduction(rule, 1, false), loss, row_reduction(rule, 1, true)};
  }

  // Maximum, exponential, and the products with the target.
  double flops(std::span<const Shape> inputs, const Shape&) const override {
    return 5.0 * static_cast<double>(element_count(inputs[0]));
  }

  void forward(Lowering& lowering) const override {
    if (!lowering.splits(class_letter)) {
      whole_rows_forward(lowering);
    } else if (crossentropy_.from_logits) {
      logits_forward(lowering);
    } else {
      probabilities_forward(lowering);
    }
  }

  void backward(Lowering& lowering) const override {
    if (!lowering.needs_gradient(0) || !lowering.splits(class_letter)) {
      return;
    }
    if (crossentropy_.from_logits) {
      logits_backward(lowering);
    } else {
      probabilities_backward(lowering);
    }
  }

 private:
  ClassColumns columns(const Lowering& lowering) const {
    return class_columns(lowering, crossentropy_.targets, crossentropy_.smoothing);
  }

  static Operand maxima(Lowering& lowering, const ClassColumns& at) {
    return lowering.scratch("row maxima", at.rows);
  }
  static Operand statistics(Lowering& lowering, const ClassColumns& at) {
    return lowering.scratch("row statistics", at.rows * 3);
  }
  static Operand sums(Lowering& lowering, const ClassColumns& at) {
    return lowering.scratch("row sums", at.rows);
  }
  static Operand unclipped(Lowering& lowering, const ClassColumns& at) {
    return lowering.scratch("unclipped targets", at.rows);
  }

  // The gradient follows from prediction and target alone, so that it can come with the loss.
  void whole_rows_forward(Lowering& lowering) const {
    ClassComparisonSpec comparison{.at = columns(lowering),
                                   .crossentropy = crossentropy_.from_logits
                                                       ? Crossentropy::of_logits
                                                       : Crossentropy::of_probabilities};
    std::vector<Operand> operands{lowering.input(0), lowering.input(1), lowering.output()};
    if (lowering.needs_gradient(0)) {
      comparison.gradient = true;
      comparison.scale = static_cast<float>(mean_factor(lowering));
      operands.push_back(lowering.input_gradient(0));
    }
    lowering.emit(comparison, std::move(operands));
  }

  void logits_forward(Lowering& lowering) const {
    const ClassColumns at = columns(lowering);
    const Operand m = maxima(lowering, at);
    const Operand z = statistics(lowering, at);
    lowering.emit(RowMaximumSpec{at.rows, at.columns}, {lowering.input(0), m});
    reduce_over_classes(lowering, Reduction::maximum, m, 1, "row maxima");
    lowering.emit(LogitStatisticsSpec{at}, {lowering.input(0), lowering.input(1), m, z});
    reduce_over_classes(lowering, Reduction::sum, z, 3, "row statistics");
    lowering.emit(LogitLossSpec{at.rows}, {z, lowering.output()});
  }

  void logits_backward(Lowering& lowering) const {
    const ClassColumns at = columns(lowering);
    lowering.emit(LogitGradientSpec{at, static_cast<float>(mean_factor(lowering))},
                  {lowering.input(0), lowering.input(1), maxima(lowering, at),
                   statistics(lowering, at), lowering.input_gradient(0)});
  }

  void probabilities_forward(Lowering& lowering) const {
    const ClassColumns at = columns(lowering);
    const Operand s = sums(lowering, at);
    lowering.emit(RowSumSpec{at.rows, at.columns}, {lowering.input(0), s});
    reduce_over_classes(lowering, Reduction::sum, s, 1, "row sums");
    lowering.emit(ProbabilityLossSpec{at}, {lowering.input(0), lowering.input(1), s,
                                            lowering.output(), unclipped(lowering, at)});
    lowering.all_reduce(class_letter, ElementType::float64, Reduction::sum, lowering.output(), 1, 1,
                        "loss");
  }

  void probabilities_backward(Lowering& lowering) const {
    const ClassColumns at = columns(lowering);
    const Operand u = unclipped(lowering, at);
    reduce_over_classes(lowering, Reduction::sum, u, 1, "unclipped targets");
    lowering.emit(
        ProbabilityGradientSpec{at, static_cast<float>(mean_factor(lowering))},
        {lowering.input(0), lowering.input(1), sums(lowering, at), u, lowering.input_gradient(0)});
  }

  ClassCrossentropy crossentropy_;
};

}  // namespace

std::unique_ptr<Operation> make_class_crossentropy(std::string kind,
                                                   const ClassCrossentropy& crossentropy) {
  return std::make_unique<ClassCrossentropyOperation>(std::move(kind), crossentropy);
}

}  // namespace meshwork
