// Plain tensors for tests: row-major values in double precision, and blocks of them.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "runtime/mesh/layout.h"
#include "tests/support/catch.h"

namespace meshwork::test {

struct Tensor {
  Shape shape;
  std::vector<double> values;

  Tensor() = default;
  explicit Tensor(Shape s) : shape(std::move(s)), values(element_count(shape), 0.0) {}
  Tensor(Shape s, std::vector<double> v) : shape(std::move(s)), values(std::move(v)) {}
};

/// Numbers from `low` to `high`, exact in float32, the same for the same seed.
inline Tensor random_tensor(const Shape& shape, unsigned seed, double low = -1, double high = 1) {
  std::mt19937 words(seed);
  Tensor tensor(shape);
  for (double& value : tensor.values) {
    const double unit = static_cast<double>(words()) / 4294967296.0;
    value = static_cast<float>(low + (high - low) * unit);
  }
  return tensor;
}

/// Calls `visit` with the index in a tensor of `shape` of each element of `block`, in order.
inline void for_each_in_block(const Shape& shape, const Block& block,
                              const std::function<void(std::int64_t)>& visit) {
  const std::int64_t count = element_count(shape_of(block));
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i;
    std::int64_t index = 0;
    std::int64_t stride = 1;
    for (std::size_t d = shape.size(); d-- > 0;) {
      index += (block[d].begin + rest % block[d].length()) * stride;
      rest /= block[d].length();
      stride *= shape[d];
    }
    visit(index);
  }
}

/// The largest magnitude, or 0.
inline double magnitude(const Tensor& tensor) {
  double largest = 0;
  for (const double value : tensor.values) {
    largest = std::max(largest, std::abs(value));
  }
  return largest;
}

/// Whether every element of `found` is within `tolerance`, times the larger of 1 and the largest
/// expected magnitude, of the expected one. Both NaN, or the same infinity, are equal. Says which
/// is not.
inline std::string difference(const Tensor& found, const Tensor& expected, double tolerance) {
  if (found.shape != expected.shape) {
    return "shape " + to_string(found.shape) + " instead of " + to_string(expected.shape);
  }
  const double bound = tolerance * std::max(1.0, magnitude(expected));
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    const double a = found.values[i];
    const double b = expected.values[i];
    if (a != b && !(std::isnan(a) && std::isnan(b)) && !(std::abs(a - b) <= bound)) {
      return fmt::format("element {} of {} is {}, expected {} (allowed difference {})", i,
                         expected.values.size(), a, b, bound);
    }
  }
  return "";
}

}  // namespace meshwork::test
