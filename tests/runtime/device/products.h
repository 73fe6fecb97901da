// What the tests of products share: factors, their product by the definition, and how far a result
// may be from it.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/device/cpu/bfloat16_rounding.h"
#include "runtime/device/kernels/products.h"
#include "runtime/device/narrowing.h"
#include "tests/runtime/device/support.h"

namespace meshwork::test {

struct Factors {
  std::vector<float> a, b;
};

inline Factors random_factors(const MatmulSpec& s) {
  return {random_values(s.m * s.k, 1), random_values(s.k * s.n, 2)};
}

/// op(a) * op(b) in three loops, of factors that are rounded where the specification says so.
inline std::vector<double> product_of(const MatmulSpec& s, Factors of) {
  if (s.precision == Precision::bfloat16) {
    for (float& x : of.a) x = rounded_to_bfloat16(x);
    for (float& x : of.b) x = rounded_to_bfloat16(x);
  }
  std::vector<double> c;
  for (std::int64_t i = 0; i < s.m; ++i) {
    for (std::int64_t j = 0; j < s.n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < s.k; ++l) {
        const std::int64_t a = s.transpose_a ? l * s.m + i : i * s.k + l;
        const std::int64_t b = s.transpose_b ? j * s.k + l : l * s.n + j;
        sum += static_cast<double>(of.a[static_cast<std::size_t>(a)]) *
               static_cast<double>(of.b[static_cast<std::size_t>(b)]);
      }
      c.push_back(sum);
    }
  }
  return c;
}

/// Of each rounding of a factor by tf32, which may cut off.
constexpr double tf32_rounding = 0x1p-10;

/// Relative to terms of up to 1.
inline double relative_error(const MatmulSpec& s) {
  return s.precision == Precision::tf32 ? 4 * tf32_rounding : 1e-6;
}
/// Of a sum of k terms of up to 1 and random signs: that stays near sqrt(k), and each addition
/// rounds it to 2^-24 of itself.
inline double absolute_error(const MatmulSpec& s) {
  return relative_error(s) * std::sqrt(static_cast<double>(s.k) + 1);
}

/// Values as NarrowSpec leaves them.
inline Array<std::uint16_t> stored_in_bfloat16(const std::vector<float>& values) {
  std::vector<std::uint16_t> narrow;
  for (const float value : values) narrow.push_back(narrowed(value));
  return {narrow};
}

}  // namespace meshwork::test
