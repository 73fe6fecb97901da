#include "runtime/train/metrics/metric.h"

#include <set>

#include "collectives/error.h"
#include "runtime/train/losses/comparison.h"

namespace meshwork {

double Metric::value_count(const Shape& prediction, const Shape&) const {
  return row_count(prediction);
}

std::int64_t Metric::target_classes(const Shape&, const Shape&) const {
  return 0;
}

void check_metric_names(std::span<const SharedMetric> metrics) {
  std::set<std::string> names{"loss"};
  for (const SharedMetric& metric : metrics) {
    const std::string name = metric->name();
    if (name.empty() || name.starts_with("val_")) {
      fail(
          "\"{}\" cannot be the name of a metric: names are not empty and do not begin with "
          "\"val_\", which marks values of validation",
          name);
    }
    if (!names.insert(name).second) {
      fail("two values are called \"{}\" in the logs; give the metric another name", name);
    }
  }
}

}  // namespace meshwork
