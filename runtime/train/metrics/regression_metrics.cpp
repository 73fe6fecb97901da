#include "runtime/train/metrics/regression_metrics.h"

#include <cmath>
#include <memory>

#include "runtime/device/kernels/counts.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operations/dimensions.h"
#include "runtime/train/from_config.h"
#include "runtime/train/losses/comparison.h"
#include "runtime/train/losses/cosine_similarity.h"
#include "runtime/train/losses/log_cosh.h"
#include "runtime/train/losses/mean_squared_error.h"

namespace meshwork {

template <class Visitor>
void describe(R2ScoreOptions& options, Visitor& option) {
  option.about("1 - mean of (t - p)^2 / variance of t");
  option.choice("class_aggregation", options.class_aggregation,
                {{"uniform_average", OutputAverage::uniform},
                 {"variance_weighted_average", OutputAverage::by_variance}},
                "how outputs are averaged");
  option("name", options.name, "name in the logs");
}

namespace {

// Three sums an output (ColumnSquaresSpec).
class ColumnSquaresOperation final : public ComparisonOperation {
 public:
  explicit ColumnSquaresOperation(std::int64_t columns)
      : ComparisonOperation("column_squares", TargetForm::values), columns_(columns) {}

  std::int64_t sum_count() const override { return 3 * columns_; }
  double flops(std::span<const Shape> inputs, const Shape&) const override {
    return 6.0 * static_cast<double>(element_count(inputs[0]));
  }
  // A rank gives the sums of its columns, and zeros for others.
  void forward(Lowering& lowering) const override {
    const std::int64_t bytes = element_bytes(ElementType::float64);
    const Shape local = lowering.local_shape(0);
    const bool flat = local.size() == 1;
    const std::int64_t first = flat ? 0 : lowering.block(0).back().begin;
    const std::int64_t columns = flat ? 1 : columns_of(local);
    const std::int64_t rows = flat ? local[0] : rows_of(local);
    const Operand output = lowering.output();
    lowering.emit(ZeroSpec{sum_count() * bytes}, {output});
    lowering.emit(ColumnSquaresSpec{{.outer = 1, .middle = rows, .inner = columns}},
                  {lowering.input(0), lowering.input(1),
                   Operand{output.buffer, output.offset + 3 * first * bytes}});
  }
  void backward(Lowering& lowering) const override { give_no_gradient(lowering); }

 private:
  std::int64_t columns_;
};

class R2Metric final : public Metric {
 public:
  explicit R2Metric(const R2ScoreOptions& options) : options_(options) {}
  std::string name() const override { return options_.name; }
  Better better() const override { return Better::higher; }
  std::unique_ptr<Operation> operation(const Shape& prediction,
                                       const Shape& target) const override {
    check_target(TargetForm::values, prediction, target);
    return std::make_unique<ColumnSquaresOperation>(values_in_row(prediction));
  }
  double value(std::span<const double> sums, double rows) const override {
    double scores = 0, weights = 0;
    for (std::size_t column = 0; column < sums.size(); column += 3) {
      const double total = sums[column + 1] - sums[column] * sums[column] / rows;
      const double score = 1 - sums[column + 2] / total;
      const double weight = options_.class_aggregation == OutputAverage::uniform ? 1 : total;
      scores += weight * (std::isinf(score) ? 0 : score);
      weights += weight;
    }
    return scores / weights;
  }

 private:
  R2ScoreOptions options_;
};

}  // namespace

SharedMetric RootMeanSquaredError(const RootMeanSquaredErrorOptions& options) {
  return metric_of(options.name, Better::lower, MeanSquaredError(),
                   [](double mean) { return std::sqrt(mean); });
}

SharedMetric LogCoshError(const LogCoshErrorOptions& options) {
  return LogCosh({.name = options.name});
}

SharedMetric CosineSimilarityMetric(const CosineSimilarityMetricOptions& options) {
  return metric_of(options.name, Better::higher, CosineSimilarity(),
                   [](double mean) { return -mean; });
}

SharedMetric R2Score(const R2ScoreOptions& options) {
  return std::make_shared<R2Metric>(options);
}

void add_regression_metrics(Catalog& catalog) {
  catalog.add<SharedMetric, RootMeanSquaredErrorOptions>(
      "RootMeanSquaredError", {"root_mean_squared_error"}, RootMeanSquaredError);
  catalog.add<SharedMetric, LogCoshErrorOptions>("LogCoshError", {"log_cosh_error"}, LogCoshError);
  catalog.add<SharedMetric, CosineSimilarityMetricOptions>(
      "CosineSimilarity", {"cosine_similarity"}, CosineSimilarityMetric);
  catalog.add<SharedMetric, R2ScoreOptions>("R2Score", {"r2_score"}, R2Score);
}

}  // namespace meshwork
