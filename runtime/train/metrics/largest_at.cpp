#include "runtime/train/metrics/largest_at.h"

#include <algorithm>

#include "runtime/train/from_config.h"
#include "runtime/train/metrics/threshold_metric.h"

namespace meshwork {

namespace {

template <class Options, class Visitor>
void describe_thresholds(Options& options, Visitor& option) {
  option("num_thresholds", options.num_thresholds, between(1, 100000),
         "number of thresholds between 0 and 1");
  option("name", options.name, "name in the logs");
}

}  // namespace

template <class Visitor>
void describe(SensitivityAtSpecificityOptions& options, Visitor& option) {
  option.about("largest sensitivity among thresholds with at least this specificity");
  option.required("specificity", options.specificity, between(0, 1), "the least specificity");
  describe_thresholds(options, option);
}
template <class Visitor>
void describe(SpecificityAtSensitivityOptions& options, Visitor& option) {
  option.about("largest specificity among thresholds with at least this sensitivity");
  option.required("sensitivity", options.sensitivity, between(0, 1), "the least sensitivity");
  describe_thresholds(options, option);
}
template <class Visitor>
void describe(PrecisionAtRecallOptions& options, Visitor& option) {
  option.about("largest precision among thresholds with at least this recall");
  option.required("recall", options.recall, between(0, 1), "the least recall");
  describe_thresholds(options, option);
}
template <class Visitor>
void describe(RecallAtPrecisionOptions& options, Visitor& option) {
  option.about("largest recall among thresholds with at least this precision");
  option.required("precision", options.precision, between(0, 1), "the least precision");
  describe_thresholds(options, option);
}

namespace {

using Share = double (Confusion::*)() const;

// The largest `wanted` of the thresholds at which `kept` is no less than `least`; 0 for none.
template <class Options>
SharedMetric largest_at(const char* class_name, const Options& options, double least, Share kept,
                        Share wanted) {
  check_options(class_name, options);
  return make_threshold_metric(options.name, Better::higher,
                               even_thresholds(options.num_thresholds, 0),
                               [=](std::span<const Confusion> confusions, std::int64_t) {
                                 double largest = 0;
                                 for (const Confusion& confusion : confusions) {
                                   if ((confusion.*kept)() >= least) {
                                     largest = std::max(largest, (confusion.*wanted)());
                                   }
                                 }
                                 return largest;
                               });
}

}  // namespace

SharedMetric SensitivityAtSpecificity(const SensitivityAtSpecificityOptions& options) {
  return largest_at("SensitivityAtSpecificity", options, options.specificity,
                    &Confusion::specificity, &Confusion::sensitivity);
}

SharedMetric SpecificityAtSensitivity(const SpecificityAtSensitivityOptions& options) {
  return largest_at("SpecificityAtSensitivity", options, options.sensitivity,
                    &Confusion::sensitivity, &Confusion::specificity);
}

SharedMetric PrecisionAtRecall(const PrecisionAtRecallOptions& options) {
  return largest_at("PrecisionAtRecall", options, options.recall, &Confusion::sensitivity,
                    &Confusion::precision);
}

SharedMetric RecallAtPrecision(const RecallAtPrecisionOptions& options) {
  return largest_at("RecallAtPrecision", options, options.precision, &Confusion::precision,
                    &Confusion::sensitivity);
}

void add_largest_at(Catalog& catalog) {
  catalog.add<SharedMetric, SensitivityAtSpecificityOptions>(
      "SensitivityAtSpecificity", {"sensitivity_at_specificity"}, SensitivityAtSpecificity);
  catalog.add<SharedMetric, SpecificityAtSensitivityOptions>(
      "SpecificityAtSensitivity", {"specificity_at_sensitivity"}, SpecificityAtSensitivity);
  catalog.add<SharedMetric, PrecisionAtRecallOptions>("PrecisionAtRecall", {"precision_at_recall"},
                                                      PrecisionAtRecall);
  catalog.add<SharedMetric, RecallAtPrecisionOptions>("RecallAtPrecision", {"recall_at_precision"},
                                                      RecallAtPrecision);
}

}  // namespace meshwork
