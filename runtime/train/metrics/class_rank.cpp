#include "runtime/train/metrics/class_rank.h"

#include <utility>

#include "runtime/device/kernels/classes.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/rows.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operations/dimensions.h"

namespace meshwork {
namespace {

class ClassRankOperation final : public ComparisonOperation {
 public:
  ClassRankOperation(std::string kind, const ClassRank& rank)
      : ComparisonOperation(std::move(kind), rank.targets), rank_(rank) {}

  std::vector<OwnReduction> own_reductions(const Rule& rule) const override {
    const int reductions = rank_.targets == TargetForm::classes ? 2 : 4;
    return std::vector<OwnReduction>(reductions, row_reduction(rule, 1, false));
  }

  double flops(std::span<const Shape> inputs, const Shape&) const override {
    return 2.0 * static_cast<double>(element_count(inputs[0]));
  }

  void forward(Lowering& lowering) const override {
    if (!lowering.splits(class_letter)) {
      lowering.emit(
          ClassComparisonSpec{.at = class_columns(lowering, rank_.targets), .within = {rank_.k}},
          {lowering.input(0), lowering.input(1), lowering.output()});
      return;
    }
    const Operand target = class_numbers(lowering);
    const ClassColumns at = class_columns(lowering, TargetForm::classes);
    const Operand prediction = lowering.input(0);
    const Operand value = lowering.scratch("prediction for the right class", at.rows);
    const Operand ahead = lowering.scratch("classes ahead", at.rows, ElementType::int32);
    lowering.emit(TargetValueSpec{at}, {prediction, target, value});
    reduce_over_classes(lowering, Reduction::sum, value, 1, "predictions for the right classes");
    lowering.emit(CountAheadSpec{at}, {prediction, target, value, ahead});
    reduce_over_classes(lowering, Reduction::sum, ahead, 1, "classes ahead", ElementType::int32);
    lowering.emit(CountBelowSpec{at.rows, rank_.k}, {ahead, lowering.output()});
  }

  void backward(Lowering& lowering) const override { give_no_gradient(lowering); }

 private:
  // The right classes (rows), as numbers.
  Operand class_numbers(Lowering& lowering) const {
    if (rank_.targets == TargetForm::classes) {
      return lowering.input(1);
    }
    const ClassColumns at = class_columns(lowering, TargetForm::weights);
    const Operand weights = lowering.input(1);
    const Operand maxima = lowering.scratch("largest weights", at.rows);
    const Operand numbers = lowering.scratch("right classes", at.rows, ElementType::int32);
    lowering.emit(RowMaximumSpec{at.rows, at.columns}, {weights, maxima});
    reduce_over_classes(lowering, Reduction::maximum, maxima, 1, "largest weights");
    lowering.emit(FirstMaximumSpec{at}, {weights, maxima, numbers});
    reduce_over_classes(lowering, Reduction::minimum, numbers, 1, "right classes",
                        ElementType::int32);
    return numbers;
  }

  ClassRank rank_;
};

}  // namespace

SharedMetric make_class_rank(std::string name, std::string kind, const ClassRank& rank) {
  return make_metric(std::move(name), rank.targets, [kind = std::move(kind), rank] {
    return std::make_unique<ClassRankOperation>(kind, rank);
  });
}

}  // namespace meshwork
