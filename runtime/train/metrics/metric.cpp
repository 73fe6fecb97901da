#include "runtime/train/metrics/metric.h"

#include <set>
#include <utility>

#include "collectives/error.h"
#include "collectives/printable.h"
#include "runtime/train/losses/comparison.h"

namespace meshwork {

namespace {

class MetricByShapes final : public Metric {
 public:
  MetricByShapes(std::string name, Better better,
                 std::function<SharedMetric(const Shape&, const Shape&)> choose)
      : name_(std::move(name)), better_(better), choose_(std::move(choose)) {}

  std::string name() const override { return name_; }
  Better better() const override { return better_; }
  std::unique_ptr<Operation> operation(const Shape& prediction,
                                       const Shape& target) const override {
    return choose_(prediction, target)->operation(prediction, target);
  }
  std::unique_ptr<Operation> weighted_operation(const Shape& prediction, const Shape& target,
                                                const Shape& weights) const override {
    return choose_(prediction, target)->weighted_operation(prediction, target, weights);
  }
  // Targets of the same shape: what they are of does not change which values are meant.
  Predictions predictions(const Shape& prediction) const override {
    return choose_(prediction, prediction)->predictions(prediction);
  }
  std::int64_t target_classes(const Shape& prediction, const Shape& target) const override {
    return choose_(prediction, target)->target_classes(prediction, target);
  }

 private:
  std::string name_;
  Better better_;
  std::function<SharedMetric(const Shape&, const Shape&)> choose_;
};

class MetricOf final : public Metric {
 public:
  MetricOf(std::string name, Better better, SharedMetric metric,
           std::function<double(double)> of_value)
      : name_(std::move(name)),
        better_(better),
        metric_(std::move(metric)),
        of_value_(std::move(of_value)) {}

  std::string name() const override { return name_; }
  Better better() const override { return better_; }
  std::unique_ptr<Operation> operation(const Shape& prediction,
                                       const Shape& target) const override {
    return metric_->operation(prediction, target);
  }
  std::unique_ptr<Operation> weighted_operation(const Shape& prediction, const Shape& target,
                                                const Shape& weights) const override {
    return metric_->weighted_operation(prediction, target, weights);
  }
  Predictions predictions(const Shape& prediction) const override {
    return metric_->predictions(prediction);
  }
  ElementType target_type() const override { return metric_->target_type(); }
  std::int64_t target_classes(const Shape& prediction, const Shape& target) const override {
    return metric_->target_classes(prediction, target);
  }
  std::optional<std::int64_t> ignored_class() const override { return metric_->ignored_class(); }
  std::int64_t results(const Shape& prediction) const override {
    return metric_->results(prediction);
  }
  double value(std::span<const double> sums, double values, std::int64_t result) const override {
    return of_value_(metric_->value(sums, values, result));
  }

 private:
  std::string name_;
  Better better_;
  SharedMetric metric_;
  std::function<double(double)> of_value_;
};

}  // namespace

SharedMetric metric_of(std::string name, Better better, SharedMetric metric,
                       std::function<double(double)> of_value) {
  return std::make_shared<MetricOf>(std::move(name), better, std::move(metric),
                                    std::move(of_value));
}

SharedMetric metric_by_shapes(std::string name, Better better,
                              std::function<SharedMetric(const Shape&, const Shape&)> choose) {
  return std::make_shared<MetricByShapes>(std::move(name), better, std::move(choose));
}

double Metric::value_count(const Shape& prediction) {
  return row_count(prediction);
}

void check_log_name(const std::string& name) {
  const auto refuse = [&](const char* why) {
    fail("\"{}\" cannot be the name of a value in the logs: {}", in_one_line(name), why);
  };
  if (name.empty()) refuse("it is empty");
  if (name.starts_with("val_")) refuse("\"val_\" marks values of validation");
  if (!is_one_line_of_letters(name)) refuse("it has a control character");
  for (const char* const added :
       {"epoch", "step", "learning_rate", "samples_per_second", "seconds"}) {
    if (name == added) refuse("logs have such a value already");
  }
}

void check_metric_names(std::span<const SharedMetric> metrics) {
  std::set<std::string> names{"loss", gradient_norm_name};
  for (const SharedMetric& metric : metrics) {
    const std::string name = metric->name();
    check_log_name(name);
    if (!names.insert(name).second) {
      fail("two values in the logs have the name \"{}\"; give the metric another name", name);
    }
  }
}

}  // namespace meshwork
