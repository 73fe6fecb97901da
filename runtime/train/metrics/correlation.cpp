#include "runtime/train/metrics/correlation.h"

#include "runtime/train/from_config.h"
#include "runtime/train/losses/function_loss.h"

namespace meshwork {

SharedMetric PearsonCorrelation(const PearsonCorrelationOptions& options) {
  return make_row_metric(options.name, "pearson_correlation", CorrelationFunction<false>{});
}

SharedMetric ConcordanceCorrelation(const ConcordanceCorrelationOptions& options) {
  return make_row_metric(options.name, "concordance_correlation", CorrelationFunction<true>{});
}

void add_correlation(Catalog& catalog) {
  catalog.add<SharedMetric, PearsonCorrelationOptions>("PearsonCorrelation",
                                                       {"pearson_correlation"}, PearsonCorrelation);
  catalog.add<SharedMetric, ConcordanceCorrelationOptions>(
      "ConcordanceCorrelation", {"concordance_correlation"}, ConcordanceCorrelation);
}

}  // namespace meshwork
