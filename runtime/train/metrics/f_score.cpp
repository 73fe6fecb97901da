#include "runtime/train/metrics/f_score.h"

#include <memory>

#include "runtime/config/float_range.h"
#include "runtime/device/kernels/counts.h"
#include "runtime/device/kernels/rows.h"
#include "runtime/graph/lowering.h"
#include "runtime/train/from_config.h"
#include "runtime/train/losses/comparison.h"
#include "runtime/train/metrics/column_sums.h"
#include "runtime/train/metrics/threshold_metric.h"

namespace meshwork {
namespace {

template <class Options, class Visitor>
void describe_classes(Options& options, Visitor& option) {
  option.choice("average", options.average,
                {{"none", ClassAverage::none},
                 {"micro", ClassAverage::micro},
                 {"macro", ClassAverage::macro},
                 {"weighted", ClassAverage::weighted}},
                "average of the scores of classes");
  option("threshold", options.threshold, positive.up_to(1),
         "predictions above it are positive; none: the largest of each row");
  option("name", options.name, "name in the logs");
}

// The sums of a column (ColumnChoicesSpec), or of several together.
struct Choices {
  double both = 0, chosen = 0, right = 0;
  [[nodiscard]] double score(double beta) const {
    constexpr double epsilon = 1e-7;  // Keras's
    const double precision = both / (chosen + epsilon), recall = both / (right + epsilon);
    return (1 + beta * beta) * precision * recall / (beta * beta * precision + recall + epsilon);
  }
};

class FScore final : public Metric {
 public:
  explicit FScore(FBetaScoreOptions options) : options_(std::move(options)) {}

  std::string name() const override { return options_.name; }
  Better better() const override { return Better::higher; }
  std::unique_ptr<Operation> operation(const Shape& prediction,
                                       const Shape& target) const override {
    check_target(TargetForm::weights, prediction, target);
    return std::make_unique<ColumnSumsOperation>(
        "column_choices", options_.threshold ? TargetForm::values : TargetForm::weights,
        class_count(prediction),
        [threshold = options_.threshold](Lowering& lowering, const MiddleExtents& at,
                                         const Operand& sums) {
          const Operand p = lowering.input(0), t = lowering.input(1);
          if (threshold) {
            lowering.emit(ColumnChoicesSpec{.at = at, .threshold = static_cast<float>(*threshold)},
                          {p, t, sums});
            return;
          }
          const Operand maxima = lowering.scratch("row maxima", at.middle);
          lowering.emit(RowMaximumSpec{at.middle, at.inner}, {p, maxima});
          reduce_over_classes(lowering, Reduction::maximum, maxima, 1, "row maxima");
          lowering.emit(ColumnChoicesSpec{.at = at, .of_maxima = true}, {p, t, maxima, sums});
        });
  }
  Predictions predictions(const Shape&) const override {
    if (!options_.threshold) return Predictions::any;
    return predictions_for({{static_cast<float>(*options_.threshold)}});
  }
  std::int64_t results(const Shape& prediction) const override {
    return options_.average == ClassAverage::none ? class_count(prediction) : 1;
  }
  double value(std::span<const double> sums, double, std::int64_t result) const override {
    const auto of_class = [&](std::size_t c) {
      return Choices{sums[3 * c], sums[3 * c + 1], sums[3 * c + 2]};
    };
    if (options_.average == ClassAverage::none) {
      return of_class(static_cast<std::size_t>(result)).score(options_.beta);
    }
    const std::size_t classes = sums.size() / 3;
    Choices all;
    double scores = 0, weighted = 0;
    for (std::size_t c = 0; c < classes; ++c) {
      const Choices one = of_class(c);
      all.both += one.both;
      all.chosen += one.chosen;
      all.right += one.right;
      scores += one.score(options_.beta);
      weighted += one.score(options_.beta) * one.right;
    }
    switch (options_.average) {
      case ClassAverage::micro:
        return all.score(options_.beta);
      case ClassAverage::weighted:
        return all.right > 0 ? weighted / all.right : 0;
      default:
        return scores / static_cast<double>(classes);
    }
  }

 private:
  FBetaScoreOptions options_;
};

}  // namespace

template <class Visitor>
void describe(F1ScoreOptions& options, Visitor& option) {
  option.about("harmonic mean of precision and recall, by class or averaged");
  describe_classes(options, option);
}
template <class Visitor>
void describe(FBetaScoreOptions& options, Visitor& option) {
  option.about("weighted harmonic mean of precision and recall, by class or averaged");
  option("beta", options.beta, float_positive, "weight of recall relative to precision");
  describe_classes(options, option);
}

SharedMetric FBetaScore(const FBetaScoreOptions& options) {
  check_options("FBetaScore", options);
  return std::make_shared<FScore>(options);
}

SharedMetric F1Score(const F1ScoreOptions& options) {
  check_options("F1Score", options);
  return std::make_shared<FScore>(FBetaScoreOptions{
      .average = options.average, .threshold = options.threshold, .name = options.name});
}

void add_f_score(Catalog& catalog) {
  catalog.add<SharedMetric, F1ScoreOptions>("F1Score", {"f1_score"}, F1Score);
  catalog.add<SharedMetric, FBetaScoreOptions>("FBetaScore", {"fbeta_score"}, FBetaScore);
}

}  // namespace meshwork
