#include "runtime/train/metrics/categorical_accuracy.h"

#include <utility>

#include "runtime/device/kernels/classes.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/rows.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operations/dimensions.h"
#include "runtime/train/from_config.h"
#include "runtime/train/losses/comparison.h"

namespace meshwork {
namespace {

// Classes may be split over axes: the prediction for the right class is summed over them (all but
// one rank give 0), then the numbers of classes ahead. Where targets are weights, the right class
// is the lowest of those with the largest weight, found by a maximum and a minimum over the same
// axes. Where nothing splits classes, one kernel does all of it, and that of a loss too, if it
// stands before it (kernel_joins.h).
class ClassRankOperation final : public ComparisonOperation {
 public:
  ClassRankOperation(std::string kind, TargetForm targets, std::int64_t k)
      : ComparisonOperation(std::move(kind), targets), k_(k) {}

  std::vector<OwnReduction> own_reductions(const Rule& rule) const override {
    const int reductions = form() == TargetForm::classes ? 2 : 4;
    return std::vector<OwnReduction>(reductions, row_reduction(rule, 1, false));
  }

  double flops(std::span<const Shape> inputs, const Shape&) const override {
    return 2.0 * static_cast<double>(element_count(inputs[0]));
  }

  void forward(Lowering& lowering) const override {
    if (!lowering.splits(class_letter)) {
      lowering.emit(ClassComparisonSpec{.at = class_columns(lowering, form()), .within = {k_}},
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
    lowering.emit(CountBelowSpec{at.rows, k_}, {ahead, lowering.output()});
  }

  void backward(Lowering& lowering) const override { give_no_gradient(lowering); }

 private:
  // The right classes (rows), as numbers.
  Operand class_numbers(Lowering& lowering) const {
    if (form() == TargetForm::classes) {
      return lowering.input(1);
    }
    return largest_classes(lowering, 1, "weights");
  }

  std::int64_t k_;
};

// `kind` names the operation, and `options` the metric.
template <class Options>
SharedMetric class_rank(const char* kind, TargetForm targets, std::int64_t k,
                        const Options& options) {
  return make_metric(options.name, targets,
                     [=](bool) { return std::make_unique<ClassRankOperation>(kind, targets, k); });
}

}  // namespace

template <class Options, class Visitor>
requires requires(Options options) {
  options.k;
}
void describe(Options& options, Visitor& option) {
  option.about(Options::about);
  option("k", options.k, at_least(1), "number of classes");
  option("name", options.name, "name in the logs");
}

SharedMetric SparseCategoricalAccuracy(const SparseCategoricalAccuracyOptions& options) {
  return class_rank("sparse_categorical_accuracy", TargetForm::classes, 1, options);
}

SharedMetric CategoricalAccuracy(const CategoricalAccuracyOptions& options) {
  return class_rank("categorical_accuracy", TargetForm::weights, 1, options);
}

SharedMetric SparseTopKCategoricalAccuracy(const SparseTopKCategoricalAccuracyOptions& options) {
  check_options("SparseTopKCategoricalAccuracy", options);
  return class_rank("sparse_top_k_categorical_accuracy", TargetForm::classes, options.k, options);
}

SharedMetric TopKCategoricalAccuracy(const TopKCategoricalAccuracyOptions& options) {
  check_options("TopKCategoricalAccuracy", options);
  return class_rank("top_k_categorical_accuracy", TargetForm::weights, options.k, options);
}

void add_categorical_accuracy(Catalog& catalog) {
  catalog.add<SharedMetric, SparseCategoricalAccuracyOptions>(
      "SparseCategoricalAccuracy", {"sparse_categorical_accuracy"}, SparseCategoricalAccuracy);
  catalog.add<SharedMetric, CategoricalAccuracyOptions>(
      "CategoricalAccuracy", {"categorical_accuracy"}, CategoricalAccuracy);
  catalog.add<SharedMetric, SparseTopKCategoricalAccuracyOptions>(
      "SparseTopKCategoricalAccuracy", {"sparse_top_k_categorical_accuracy"},
      SparseTopKCategoricalAccuracy);
  catalog.add<SharedMetric, TopKCategoricalAccuracyOptions>(
      "TopKCategoricalAccuracy", {"top_k_categorical_accuracy"}, TopKCategoricalAccuracy);
}

}  // namespace meshwork
