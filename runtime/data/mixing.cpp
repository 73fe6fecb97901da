#include "runtime/data/mixing.h"

#include <algorithm>
#include <cmath>

#include "runtime/device/philox.h"

namespace meshwork {

double RowDraws::uniform() {
  // Batches have fewer than 2^40 rows: what is above counts the draws of a row.
  const std::uint64_t block = static_cast<std::uint64_t>(row_) + (drawn_++ << 40);
  const auto words = philox(key_, block, static_cast<std::uint64_t>(batch_));
  const std::uint64_t bits = (std::uint64_t{words[0]} << 32 | words[1]) >> 11;
  return (static_cast<double>(bits) + 0.5) * 0x1p-53;
}

// Jöhnk's method ("Erzeugung von betaverteilten und gammaverteilten Zufallszahlen", Metrika 8,
// 1964): with x = u^(1 / alpha) and y = v^(1 / alpha), x / (x + y) where x + y <= 1. Logarithms
// keep apart what would both be 0 for a small alpha.
double RowDraws::beta(double alpha) {
  for (;;) {
    const double log_x = std::log(uniform()) / alpha;
    const double log_y = std::log(uniform()) / alpha;
    const double larger = std::max(log_x, log_y);
    const double apart = std::abs(log_x - log_y);
    if (larger + std::log1p(std::exp(-apart)) <= 0) return 1 / (1 + std::exp(log_y - log_x));
  }
}

std::string to_text(const SharedMixing& mixing) {
  return mixing->class_name() + " of " + mixing->options();
}

}  // namespace meshwork
