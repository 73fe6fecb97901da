// Comparison: which targets go with a prediction, and by which rule the two are compared.
//
// A *prediction* is the output of a model, (batch, ..., last), and a *target* what it is compared
// with. Targets come in four forms:
//
//   values    a number for each predicted value: the prediction's shape. Where the last dimension
//             is 1 it may be left out.
//   classes   the number of the right class, classes being the prediction's last dimension: its
//             shape without that dimension, or with 1 in its place.
//   labels    any whole number, the same for samples that belong together: shapes as of classes.
//   weights   a weight for each class (one-hot, or probabilities): the prediction's shape.
//
// Nothing is broadcast: a target of another shape is an error. A *row* is everything but the last
// dimension; losses and metrics give one value a row and are sums over rows, together with the
// number of rows. A prediction of one dimension, the batch, has one value a row.
//
// Whatever their type in the data, class numbers and labels are int32 here, the others float32.
//
// *Weights* are float32, one for each row (the prediction's shape without its last dimension), or
// one for each sample, which all rows of the sample share: (batch).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/device/kernels/classes.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"
#include "runtime/train/losses/loss.h"

namespace meshwork {

enum class TargetForm : std::uint8_t { values, classes, labels, weights };

/// The letter of the classes in the rule of a comparison by classes or weights.
inline constexpr std::string_view class_letter = "k";

/// The target's shape for predictions of this one; an open batch stays open. Throws `Error` for a
/// prediction that has no rows of classes where the form needs them.
[[nodiscard]] Shape target_shape_of(TargetForm form, const Shape& prediction);

/// The shape of a prediction's rows: without its last dimension, if it has two or more.
[[nodiscard]] Shape shape_of_rows(const Shape& prediction);

/// Throws `Error`, with what was expected and found, unless `weights` are of rows or samples, or of
/// other first dimensions of rows, which have the shape `rows`.
void check_weights_of_rows(const Shape& rows, const Shape& weights);

/// The operation of a loss or a metric: the sum over all rows of what compares a prediction with a
/// target, a float64 scalar. Rule "bk,bk->" for values, "bk,bk,b->" with weights; the letter k is
/// `own` where it stands for classes.
class ComparisonOperation : public Operation {
 public:
  /// `kind` as in Operation::kind.
  ComparisonOperation(std::string kind, TargetForm form, bool weighted = false)
      : form_(form), weighted_(weighted), kind_(std::move(kind)) {}

  std::string kind() const final { return kind_; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  ElementType output_type(std::span<const ElementType> inputs) const final;
  Rule rule(std::span<const Shape> inputs) const final;

 protected:
  /// The letters of a prediction: "k", that of the last dimension, may stand for classes.
  [[nodiscard]] static std::string letters_of(const Shape& prediction);
  /// Of these letters those that the rule has for its own: unless an operation says otherwise, that
  /// of the classes.
  [[nodiscard]] virtual std::string own_letters(const std::string& letters) const;
  /// Of these letters those that no axis may split: unless an operation says otherwise, none.
  [[nodiscard]] virtual std::string whole_letters(const std::string& letters) const {
    static_cast<void>(letters);
    return "";
  }
  [[nodiscard]] TargetForm form() const { return form_; }
  [[nodiscard]] bool weighted() const { return weighted_; }
  /// Prediction, target and, if there are any, weights: what kernels read first.
  [[nodiscard]] std::vector<Operand> compared(Lowering& lowering) const;
  /// Rows of this rank's block that share a weight; 0 without weights.
  [[nodiscard]] std::int64_t rows_a_weight(const Lowering& lowering) const;

 private:
  TargetForm form_;
  bool weighted_;
  std::string kind_;
};

/// Throws `Error`, with what was expected and found, unless `target` goes with `prediction`.
void check_target(TargetForm form, const Shape& prediction, const Shape& target);

/// How many classes the last dimension of the prediction stands for.
[[nodiscard]] std::int64_t class_count(const Shape& prediction);

/// The reduction of one value (or `values`) a row of that rule over the classes.
[[nodiscard]] OwnReduction row_reduction(const Rule& rule, std::int64_t values, bool backward);

/// Reduces `buffer`, one value (or `values`) a row of this rank, over the classes.
void reduce_over_classes(Lowering& lowering, Reduction reduction, Operand buffer,
                         std::int64_t values, const std::string& what,
                         ElementType type = ElementType::float32);

/// The class (rows, int32) of the largest value of each row of an input (rows, classes), the lowest
/// of several: two reductions over the classes. `what` names the values.
[[nodiscard]] Operand largest_classes(Lowering& lowering, int input, const std::string& what);

/// The gradient of a count, of which nothing learns: zeros.
void give_no_gradient(Lowering& lowering);

/// Number of rows in a batch.
[[nodiscard]] double row_count(const Shape& prediction);

/// Values in a row of `prediction`, over which its value is a mean.
[[nodiscard]] std::int64_t values_in_row(const Shape& prediction);

/// The loss's weight / rows of the global batch, by which the gradient of a sum becomes that of the
/// weighted mean; 0 for an empty batch.
[[nodiscard]] double mean_factor(const Lowering& lowering);

/// What of rows and columns this rank has of the prediction; one of one dimension is a column.
struct LocalColumns {
  std::int64_t rows = 0, first = 0, count = 0;
};
[[nodiscard]] LocalColumns local_columns(const Lowering& lowering);

/// What a kernel has to know of this rank's classes. Input 0 is the prediction.
[[nodiscard]] ClassColumns class_columns(const Lowering& lowering, TargetForm form,
                                         double smoothing = 0);

/// A loss, or a metric of which more is better, called `name`: it compares with targets of `form`,
/// by the operation that `make` makes, with weights of rows or without; a metric without, unless it
/// `weighs`.
using MakeOperation = std::function<std::unique_ptr<Operation>(bool weighted)>;
/// `binary`: values, if a row has one, stand for two classes. `ignored`: a class that does not count.
[[nodiscard]] SharedLoss make_loss(std::string name, TargetForm form, MakeOperation make,
                                   Predictions predictions = Predictions::any, bool binary = false,
                                   std::optional<std::int64_t> ignored = {});
[[nodiscard]] SharedMetric make_metric(std::string name, TargetForm form, MakeOperation make);

/// What a metric is of several sums.
struct Closing {
  Better better;
  /// As Metric::value and Metric::results.
  std::function<double(std::span<const double> sums, double rows, std::int64_t result)> value;
  std::function<std::int64_t(const Shape& prediction)> results = {};  // null: one
  Predictions predictions = Predictions::any;
  bool weighs = false;  // rows can have weights
};
[[nodiscard]] SharedMetric make_metric(std::string name, TargetForm form, MakeOperation make,
                                       Closing closing);

}  // namespace meshwork
