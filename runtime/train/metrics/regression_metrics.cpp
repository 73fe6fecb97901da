#include "runtime/train/metrics/regression_metrics.h"

#include <cmath>
#include <memory>

#include "runtime/device/kernels/counts.h"
#include "runtime/graph/lowering.h"
#include "runtime/train/from_config.h"
#include "runtime/train/losses/comparison.h"
#include "runtime/train/losses/cosine_similarity.h"
#include "runtime/train/losses/log_cosh.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/metrics/column_sums.h"

namespace meshwork {

template <class Visitor>
void describe(R2ScoreOptions& options, Visitor& option) {
  option.about("1 - mean of (t - p)^2 / variance of t");
  option.choice("class_aggregation", options.class_aggregation,
                {{"uniform_average", OutputAverage::uniform},
                 {"variance_weighted_average", OutputAverage::by_variance}},
                "average of the outputs");
  option("name", options.name, "name in the logs");
}

namespace {

class R2Metric final : public Metric {
 public:
  explicit R2Metric(const R2ScoreOptions& options) : options_(options) {}
  std::string name() const override { return options_.name; }
  Better better() const override { return Better::higher; }
  std::unique_ptr<Operation> operation(const Shape& prediction,
                                       const Shape& target) const override {
    check_target(TargetForm::values, prediction, target);
    return std::make_unique<ColumnSumsOperation>(
        "column_squares", TargetForm::values, values_in_row(prediction),
        [](Lowering& lowering, const MiddleExtents& at, const Operand& sums) {
          lowering.emit(ColumnSquaresSpec{at}, {lowering.input(0), lowering.input(1), sums});
        });
  }
  double value(std::span<const double> sums, double rows, std::int64_t) const override {
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
