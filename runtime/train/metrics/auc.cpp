#include "runtime/train/metrics/auc.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/train/from_config.h"
#include "runtime/train/metrics/threshold_metric.h"

namespace meshwork {

template <class Visitor>
void describe(AUCOptions& options, Visitor& option) {
  option.about("area under the ROC or precision-recall curve");
  option("num_thresholds", options.num_thresholds, between(2, 100000),
         "number of thresholds of the curve");
  option.choice("curve", options.curve, {{"ROC", AucCurve::roc}, {"PR", AucCurve::pr}},
                "sensitivity over 1 - specificity, or precision over recall");
  option.choice("summation_method", options.summation_method,
                {{"interpolation", AucSummation::interpolation},
                 {"minoring", AucSummation::minoring},
                 {"majoring", AucSummation::majoring}},
                "summation between two thresholds");
  option("from_logits", options.from_logits, "predictions are logits, not probabilities");
  option("name", options.name, "name in the logs");
}

namespace {

// Precision times recall's growth, where both positives grow evenly from b to a.
double interpolated_precision(const Confusion& a, const Confusion& b) {
  const double of_a = a.true_positives + a.false_positives;
  const double of_b = b.true_positives + b.false_positives;
  const double growth = a.true_positives - b.true_positives;
  const double slope = ratio(growth, of_a - of_b);
  const double intercept = b.true_positives - slope * of_b;
  const double logarithm = of_a > 0 && of_b > 0 ? std::log(of_a / of_b) : 0;
  return ratio(slope * (growth + intercept * logarithm), b.true_positives + b.false_negatives);
}

// Of thresholds of which b is the higher.
double area_between(const Confusion& a, const Confusion& b, AucCurve curve,
                    AucSummation summation) {
  const bool roc = curve == AucCurve::roc;
  if (!roc && summation == AucSummation::interpolation) return interpolated_precision(a, b);
  const auto x = [roc](const Confusion& of) {
    return roc ? ratio(of.false_positives, of.false_positives + of.true_negatives)
               : of.sensitivity();
  };
  const double of_a = roc ? a.sensitivity() : a.precision();
  const double of_b = roc ? b.sensitivity() : b.precision();
  const double height = summation == AucSummation::interpolation ? (of_a + of_b) / 2
                        : summation == AucSummation::minoring    ? std::min(of_a, of_b)
                                                                 : std::max(of_a, of_b);
  return (x(a) - x(b)) * height;
}

}  // namespace

SharedMetric AUC(const AUCOptions& options) {
  check_options("AUC", options);
  std::vector<float> thresholds = even_thresholds(options.num_thresholds, 1e-7);
  if (options.from_logits) {
    // sigmoid(x) is above a threshold where x is above the threshold's logit.
    for (float& threshold : thresholds) {
      const double p = std::clamp(static_cast<double>(threshold), 0.0, 1.0);
      threshold = static_cast<float>(std::log(p) - std::log1p(-p));
    }
  }
  return make_threshold_metric(options.name, Better::higher, std::move(thresholds),
                               [curve = options.curve, summation = options.summation_method](
                                   std::span<const Confusion> confusions, std::int64_t) {
                                 double area = 0;
                                 for (std::size_t i = 0; i + 1 < confusions.size(); ++i) {
                                   area += area_between(confusions[i], confusions[i + 1], curve,
                                                        summation);
                                 }
                                 return area;
                               });
}

void add_auc(Catalog& catalog) {
  catalog.add<SharedMetric, AUCOptions>("AUC", {"auc"}, AUC);
}

}  // namespace meshwork
