// Metric: a number that says how good predictions are.
//
// A metric compares a prediction with a target, row by row (comparison.h), and is the mean of the
// rows' values over all samples that were seen. Means never travel: an operation of the graph gives
// the *sum* over a batch, and the number of rows is known from the shapes. So a short last batch,
// unequal blocks and ranks without rows need no care.
//
// Some metrics are no mean but follow from several sums: a precision from two counts, an area under
// a curve from hundreds. Their operation gives these (Operation::sum_count), and `value` closes
// them.
//
// Some rows may not count: those that the mask of an output leaves out (operations/mask.h), and,
// where targets are class numbers, those of a class that is ignored. What the loss of an output
// leaves out, its metrics do as well. Metrics of class numbers find class -1 there, which is none;
// other means weigh the row by 0. Means are over the rows that count, whose number is a sum of the
// graph too, and 0 where there are none. A metric of several sums of values, such as a precision,
// counts all rows, as in Keras.
//
// A masked output takes -1 for a class number, as which padding may be labelled; it counts nowhere.
//
// The operation has the inputs (prediction, target) and a float64 scalar as its output. It is
// planned like any other: its sum is partial over every axis that splits rows, and complete over
// axes that split classes, whose rows' statistics it completes by collectives of its own.
//
// A `Loss` is a metric whose operation has a gradient: that of the *mean*, the sum divided by the
// rows of the global batch. So every loss serves as a metric as well.
//
// Users hold shared pointers, which functions with Keras's names make:
//
//     .loss = SparseCategoricalCrossentropy({.from_logits = true}),
//     .metrics = {SparseCategoricalAccuracy(), MeanSquaredError()}
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/graph/operation.h"

namespace meshwork {

/// Which of two values of a metric is the better one.
enum class Better : std::uint8_t { lower, higher };

/// What predictions are to a metric. It computes a number from others too, but not the one meant.
enum class Predictions : std::uint8_t { any, probabilities, logits };

class Metric {
 public:
  virtual ~Metric() = default;

  /// The name in logs: "accuracy".
  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual Better better() const = 0;
  /// The operation for these global shapes; the batch may be open (-1). Throws `Error`, with what
  /// was expected and found, if they do not go together.
  [[nodiscard]] virtual std::unique_ptr<Operation> operation(const Shape& prediction,
                                                             const Shape& target) const = 0;
  /// As `operation`, with a third input: a weight of each row, or of each sample. Throws `Error` as
  /// that does, and for weights of another shape. Null if it takes none.
  [[nodiscard]] virtual std::unique_ptr<Operation> weighted_operation(const Shape&, const Shape&,
                                                                      const Shape&) const {
    return nullptr;
  }
  /// What it takes predictions of this shape for.
  [[nodiscard]] virtual Predictions predictions(const Shape&) const { return Predictions::any; }
  /// The element type in which it takes targets.
  [[nodiscard]] virtual ElementType target_type() const { return ElementType::float32; }
  /// How many results it has for predictions of this shape. Of several, each is in the logs under
  /// the name and its number: "f1_score_0".
  [[nodiscard]] virtual std::int64_t results(const Shape&) const { return 1; }
  /// Result `result` of the operation's sums over all that was seen, and of how many values they
  /// are sums. The mean, unless a metric says otherwise.
  [[nodiscard]] virtual double value(std::span<const double> sums, double values,
                                     std::int64_t result) const {
    static_cast<void>(result);
    return values > 0 ? sums.front() / values : 0;
  }
  /// How many values the operation's sum is a sum of: the rows of the prediction.
  [[nodiscard]] static double value_count(const Shape& prediction);
  /// For shapes of prediction and target: if targets are class numbers, how many classes there are:
  /// others are errors of the data. Else 0.
  [[nodiscard]] virtual std::int64_t target_classes(const Shape&, const Shape&) const { return 0; }
  /// The class, or any other number that targets can have, whose rows do not count.
  [[nodiscard]] virtual std::optional<std::int64_t> ignored_class() const { return std::nullopt; }
};

using SharedMetric = std::shared_ptr<const Metric>;

/// A metric called `name` that compares as the one which `choose` gives for shapes of prediction
/// and target does.
[[nodiscard]] SharedMetric metric_by_shapes(
    std::string name, Better better,
    std::function<SharedMetric(const Shape& prediction, const Shape& target)> choose);

/// A metric called `name` that is `of_value` of what `metric` is.
[[nodiscard]] SharedMetric metric_of(std::string name, Better better, SharedMetric metric,
                                     std::function<double(double value)> of_value);

/// The log of the norm of all gradients (CompileOptions::gradient_norm), which no metric is called.
inline constexpr const char* gradient_norm_name = "gradient_norm";

/// Throws `Error` for what no log of a loss or a metric can be called: a name that is empty or has
/// control characters, one that marks values of validation, and those of what loggers add.
void check_log_name(const std::string& name);

/// Throws `Error` as that does, and if two metrics, or a metric and the loss, would have one name
/// in the logs.
void check_metric_names(std::span<const SharedMetric> metrics);

}  // namespace meshwork
