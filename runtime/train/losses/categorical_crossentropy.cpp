// Classes are the last dimension, letter k, and may be split: no rank gathers them. Of a row with
// target weights t, and logits x with maximum m over all classes,
//
//     loss = log(z0) * z2 - z1,   z = sum over classes of { exp(x - m), t (x - m), t }
//
// so that the maxima and the three sums of the rows are all that is reduced over the axes that
// split classes. Of probabilities p with sum s over all classes
// (keras/src/backend/numpy/nn.py, categorical_crossentropy),
//
//     loss = sum over classes of -t log(clip(p / s))
//
// with s, then the loss of the batch, and for the gradient sum t [p / s not clipped] of the rows
// reduced. Either way the sum over the batch that comes out is complete over the axes of k.
//
// The loss is linear in a row's target weights: a weight of the row is multiplied with these.
//
// Where nothing splits classes, one kernel reads each row once and gives loss and gradient, and the
// builder lets metrics ride with it (kernel_joins.h).
#include "runtime/train/losses/categorical_crossentropy.h"

#include <initializer_list>
#include <utility>
#include <vector>

#include "runtime/device/kernels/classes.h"
#include "runtime/device/kernels/rows.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operations/dimensions.h"
#include "runtime/train/from_config.h"
#include "runtime/train/losses/comparison.h"

namespace meshwork {
namespace {

class ClassCrossentropyOperation final : public ComparisonOperation {
 public:
  ClassCrossentropyOperation(std::string kind, TargetForm targets, bool from_logits,
                             double smoothing, bool weighted)
      : ComparisonOperation(std::move(kind), targets, weighted),
        from_logits_(from_logits),
        smoothing_(smoothing) {}

  std::vector<OwnReduction> own_reductions(const Rule& rule) const override {
    if (from_logits_) {
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
    } else if (from_logits_) {
      logits_forward(lowering);
    } else {
      probabilities_forward(lowering);
    }
  }

  void backward(Lowering& lowering) const override {
    if (!lowering.needs_gradient(0) || !lowering.splits(class_letter)) {
      return;
    }
    if (from_logits_) {
      logits_backward(lowering);
    } else {
      probabilities_backward(lowering);
    }
  }

 private:
  ClassColumns columns(const Lowering& lowering) const {
    ClassColumns columns = class_columns(lowering, form(), smoothing_);
    columns.rows_a_weight = rows_a_weight(lowering);
    return columns;
  }

  // Prediction, target, [weights], then `others`.
  std::vector<Operand> compared_and(Lowering& lowering,
                                    std::initializer_list<Operand> others) const {
    std::vector<Operand> operands = compared(lowering);
    operands.insert(operands.end(), others);
    return operands;
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
    ClassComparisonSpec comparison{
        .at = columns(lowering),
        .crossentropy = from_logits_ ? Crossentropy::of_logits : Crossentropy::of_probabilities};
    std::vector<Operand> operands = compared_and(lowering, {lowering.output()});
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
    lowering.emit(LogitStatisticsSpec{at}, compared_and(lowering, {m, z}));
    reduce_over_classes(lowering, Reduction::sum, z, 3, "row statistics");
    lowering.emit(LogitLossSpec{at.rows}, {z, lowering.output()});
  }

  void logits_backward(Lowering& lowering) const {
    const ClassColumns at = columns(lowering);
    lowering.emit(LogitGradientSpec{at, static_cast<float>(mean_factor(lowering))},
                  compared_and(lowering, {maxima(lowering, at), statistics(lowering, at),
                                          lowering.input_gradient(0)}));
  }

  void probabilities_forward(Lowering& lowering) const {
    const ClassColumns at = columns(lowering);
    const Operand s = sums(lowering, at);
    lowering.emit(RowSumSpec{at.rows, at.columns}, {lowering.input(0), s});
    reduce_over_classes(lowering, Reduction::sum, s, 1, "row sums");
    lowering.emit(ProbabilityLossSpec{at},
                  compared_and(lowering, {s, lowering.output(), unclipped(lowering, at)}));
    lowering.all_reduce(class_letter, ElementType::float64, Reduction::sum, lowering.output(), 1, 1,
                        "loss");
  }

  void probabilities_backward(Lowering& lowering) const {
    const ClassColumns at = columns(lowering);
    const Operand u = unclipped(lowering, at);
    reduce_over_classes(lowering, Reduction::sum, u, 1, "unclipped targets");
    lowering.emit(ProbabilityGradientSpec{at, static_cast<float>(mean_factor(lowering))},
                  compared_and(lowering, {sums(lowering, at), u, lowering.input_gradient(0)}));
  }

  bool from_logits_;
  double smoothing_;
};

// `kind` names the operation, and `options` the loss.
template <class Options>
SharedLoss class_crossentropy(const char* kind, TargetForm targets, double smoothing,
                              const Options& options, std::optional<std::int64_t> ignored = {}) {
  return make_loss(
      options.name, targets,
      [=, from_logits = options.from_logits](bool weighted) {
        return std::make_unique<ClassCrossentropyOperation>(kind, targets, from_logits, smoothing,
                                                            weighted);
      },
      options.from_logits ? Predictions::logits : Predictions::probabilities, false, ignored);
}

}  // namespace

SharedLoss SparseCategoricalCrossentropy(const SparseCategoricalCrossentropyOptions& options) {
  check_options("SparseCategoricalCrossentropy", options);
  return class_crossentropy("sparse_categorical_crossentropy", TargetForm::classes, 0, options,
                            options.ignore_class);
}

SharedLoss CategoricalCrossentropy(const CategoricalCrossentropyOptions& options) {
  check_options("CategoricalCrossentropy", options);
  return class_crossentropy("categorical_crossentropy", TargetForm::weights,
                            options.label_smoothing, options);
}

void add_categorical_crossentropy(Catalog& catalog) {
  catalog.add<SharedLoss, SparseCategoricalCrossentropyOptions>("SparseCategoricalCrossentropy",
                                                                {"sparse_categorical_crossentropy"},
                                                                SparseCategoricalCrossentropy);
  catalog.add<SharedLoss, CategoricalCrossentropyOptions>(
      "CategoricalCrossentropy", {"categorical_crossentropy"}, CategoricalCrossentropy);
}

}  // namespace meshwork
