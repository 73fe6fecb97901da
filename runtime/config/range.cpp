#include "runtime/config/range.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace meshwork {

namespace {

std::string with_article(std::string_view noun) {
  const bool vowel = std::string_view("aeiou").find(noun.front()) != std::string_view::npos;
  return fmt::format("{} {}", vowel ? "an" : "a", noun);
}

// Whole numbers with all their digits.
std::string written(double bound) {
  if (bound == std::numeric_limits<float>::max()) return "the largest float32";
  const bool whole = std::abs(bound) < 1e15 && bound == std::trunc(bound);
  return whole ? fmt::format("{:.0f}", bound) : fmt::format("{:g}", bound);
}

}  // namespace

bool ValueRange::contains(double value) const {
  if (std::isinf(low) && std::isinf(high) && low_included && high_included) return true;
  const bool above_low = low_included ? value >= low : value > low;
  const bool below_high = high_included ? value <= high : value < high;
  return above_low && below_high;
}

std::string ValueRange::of(std::string_view noun) const {
  if (low == -std::numeric_limits<float>::max() && high == -low) {
    return fmt::format("{} that float32 can hold", with_article(noun));
  }
  const bool from = std::isfinite(low), to = std::isfinite(high);
  const bool without_infinity = (!from && !low_included) || (!to && !high_included);
  const std::string named = fmt::format("{}{}", without_infinity ? "finite " : "", noun);
  if (from && low == 0 && !low_included) {
    const std::string end =
        to ? fmt::format(" {} {}", high_included ? "of at most" : "below", written(high)) : "";
    return fmt::format("a positive {}{}", named, end);
  }
  const std::string what = with_article(named);
  if (from && to && low_included && high_included) {
    return fmt::format("{} between {} and {}", what, written(low), written(high));
  }
  std::string words = what;
  if (from) words += fmt::format(" {} {}", low_included ? "of at least" : "above", written(low));
  if (from && to) words += " and";
  if (to) {
    words += fmt::format(" {} {}", high_included ? (from ? "at most" : "of at most") : "below",
                         written(high));
  }
  return words;
}

}  // namespace meshwork
