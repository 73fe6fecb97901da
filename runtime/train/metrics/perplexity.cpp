#include "runtime/train/metrics/perplexity.h"

#include <cmath>
#include <numbers>

#include "runtime/train/from_config.h"
#include "runtime/train/losses/categorical_crossentropy.h"

namespace meshwork {

SharedMetric Perplexity(const PerplexityOptions& options) {
  return metric_of(options.name, Better::lower,
                   SparseCategoricalCrossentropy({.from_logits = options.from_logits}),
                   [](double mean) { return std::exp(mean); });
}

SharedMetric BitsPerByte(const BitsPerByteOptions& options) {
  return metric_of(options.name, Better::lower,
                   SparseCategoricalCrossentropy({.from_logits = options.from_logits}),
                   [](double mean) { return mean / std::numbers::ln2; });
}

void add_perplexity(Catalog& catalog) {
  catalog.add<SharedMetric, PerplexityOptions>("Perplexity", {"perplexity"}, Perplexity);
  catalog.add<SharedMetric, BitsPerByteOptions>("BitsPerByte", {"bits_per_byte"}, BitsPerByte);
}

}  // namespace meshwork
