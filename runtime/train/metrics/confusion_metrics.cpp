#include "runtime/train/metrics/confusion_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "collectives/joined_text.h"
#include "runtime/train/from_config.h"
#include "runtime/train/metrics/threshold_metric.h"

namespace meshwork {

void from_config(const ConfigNode& node, Thresholds& thresholds) {
  const ValueRange range = between(0, 1);
  thresholds.values = node.is_sequence() ? node.as<std::vector<double>>(range)
                                         : std::vector<double>{node.as<double>(range)};
  if (thresholds.values.empty()) node.fail("expected {}, found none", Thresholds::expected);
}

std::string to_text(const Thresholds& thresholds) {
  return thresholds.values.size() == 1 ? fmt::format("{}", thresholds.values.front())
                                       : fmt::format("[{}]", joined_text(thresholds.values, ", "));
}

template <class Options, class Visitor>
requires requires(Options options) {
  options.thresholds;
}
void describe(Options& options, Visitor& option) {
  option.about(Options::about);
  if constexpr (requires { options.top_k; }) {
    option("thresholds", options.thresholds, between(0, 1),
           "predictions above it are positive; none: 0.5, or all of the top_k");
    option("top_k", options.top_k, at_least(1),
           "number of largest predictions of a row that can be positive");
    option("class_id", options.class_id, at_least(0), "column of predictions that counts");
  } else {
    option("thresholds", options.thresholds, between(0, 1), "predictions above it are positive");
  }
  option("name", options.name, "name in the logs");
}

namespace {

// `value` of the confusion of each threshold.
template <class Value>
SharedMetric at_thresholds(std::string name, Better better, const std::vector<double>& written,
                           Value value, const CountedValues& counted = {}) {
  std::vector<float> ascending(written.begin(), written.end());
  std::sort(ascending.begin(), ascending.end());
  std::vector<std::size_t> places;  // of those that were written
  for (const double one : written) {
    const auto found =
        std::lower_bound(ascending.begin(), ascending.end(), static_cast<float>(one));
    places.push_back(static_cast<std::size_t>(found - ascending.begin()));
  }
  return make_threshold_metric(
      std::move(name), better, std::move(ascending),
      [value, places](std::span<const Confusion> confusions, std::int64_t result) {
        return value(confusions[places[static_cast<std::size_t>(result)]]);
      },
      std::ssize(written), counted);
}

template <class Options, class Value>
SharedMetric of_confusion(const char* class_name, const Options& options, Better better,
                          Value value) {
  check_options(class_name, options);
  if constexpr (requires { options.top_k; }) {
    // What is not among the largest is not above the lowest number.
    const double none = options.top_k ? std::numeric_limits<float>::lowest() : 0.5;
    return at_thresholds(options.name, better, options.thresholds.value_or(Thresholds(none)).values,
                         value, {options.top_k, options.class_id});
  } else {
    return at_thresholds(options.name, better, options.thresholds.values, value);
  }
}

}  // namespace

SharedMetric TruePositives(const TruePositivesOptions& options) {
  return of_confusion("TruePositives", options, Better::higher,
                      [](const Confusion& confusion) { return confusion.true_positives; });
}

SharedMetric TrueNegatives(const TrueNegativesOptions& options) {
  return of_confusion("TrueNegatives", options, Better::higher,
                      [](const Confusion& confusion) { return confusion.true_negatives; });
}

SharedMetric FalsePositives(const FalsePositivesOptions& options) {
  return of_confusion("FalsePositives", options, Better::lower,
                      [](const Confusion& confusion) { return confusion.false_positives; });
}

SharedMetric FalseNegatives(const FalseNegativesOptions& options) {
  return of_confusion("FalseNegatives", options, Better::lower,
                      [](const Confusion& confusion) { return confusion.false_negatives; });
}

SharedMetric PrecisionMetric(const PrecisionMetricOptions& options) {
  return of_confusion("Precision", options, Better::higher,
                      [](const Confusion& confusion) { return confusion.precision(); });
}

SharedMetric Recall(const RecallOptions& options) {
  return of_confusion("Recall", options, Better::higher,
                      [](const Confusion& confusion) { return confusion.sensitivity(); });
}

void add_confusion_metrics(Catalog& catalog) {
  catalog.add<SharedMetric, TruePositivesOptions>("TruePositives", {"true_positives"},
                                                  TruePositives);
  catalog.add<SharedMetric, TrueNegativesOptions>("TrueNegatives", {"true_negatives"},
                                                  TrueNegatives);
  catalog.add<SharedMetric, FalsePositivesOptions>("FalsePositives", {"false_positives"},
                                                   FalsePositives);
  catalog.add<SharedMetric, FalseNegativesOptions>("FalseNegatives", {"false_negatives"},
                                                   FalseNegatives);
  catalog.add<SharedMetric, PrecisionMetricOptions>("Precision", {"precision"}, PrecisionMetric);
  catalog.add<SharedMetric, RecallOptions>("Recall", {"recall"}, Recall);
}

}  // namespace meshwork
