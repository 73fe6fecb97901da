#include "runtime/train/metrics/confusion_metrics.h"

#include "runtime/train/from_config.h"
#include "runtime/train/metrics/threshold_metric.h"

namespace meshwork {

template <class Options, class Visitor>
requires requires(Options options) {
  options.thresholds;
}
void describe(Options& options, Visitor& option) {
  option.about(Options::about);
  option("thresholds", options.thresholds, between(0, 1), "predictions above it are positive");
  option("name", options.name, "name in the logs");
}

namespace {

template <class Options, class Value>
SharedMetric of_confusion(const char* class_name, const Options& options, Better better,
                          Value value) {
  check_options(class_name, options);
  return make_threshold_metric(
      options.name, better, {static_cast<float>(options.thresholds)},
      [value](std::span<const Confusion> confusions) { return value(confusions.front()); });
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
