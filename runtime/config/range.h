// ValueRange: which numbers an option may have, and how a message says it.
//
//     option.required("units", options.units, positive, "number of outputs");
//     option("rate", options.rate, at_least(0).below(1), "the fraction that is dropped");
//     option("label_smoothing", options.label_smoothing, between(0, 1), "part of each target");
//
// A range holds for each element where the option is a list. Not-a-number lies in no range but the
// unlimited one.
#pragma once

#include <limits>
#include <string>
#include <string_view>

namespace meshwork {

struct ValueRange {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_included = true;
  bool high_included = true;

  [[nodiscard]] bool contains(double value) const;
  /// The words for `noun` in this range: "an integer", "a positive integer", "an integer of at
  /// least 2", "a number between 0 and 1", "a number of at least 0 and below 1", "a finite number
  /// of at least 0".
  [[nodiscard]] std::string of(std::string_view noun) const;

  /// The same range, with another upper end.
  [[nodiscard]] constexpr ValueRange below(double bound) const {
    return {low, bound, low_included, false};
  }
  [[nodiscard]] constexpr ValueRange up_to(double bound) const {
    return {low, bound, low_included, true};
  }
};

/// Greater than zero.
inline constexpr ValueRange positive{.low = 0, .low_included = false};
/// Any number but infinity and not-a-number.
inline constexpr ValueRange any_finite{.low_included = false, .high_included = false};

[[nodiscard]] constexpr ValueRange at_least(double low) {
  return {.low = low};
}
/// Without infinity.
inline constexpr ValueRange finite_positive =
    positive.below(std::numeric_limits<double>::infinity());
inline constexpr ValueRange finite_not_negative =
    at_least(0).below(std::numeric_limits<double>::infinity());
/// Both ends included.
[[nodiscard]] constexpr ValueRange between(double low, double high) {
  return {.low = low, .high = high};
}

}  // namespace meshwork
