#include "runtime/shape/shape.h"

#include <fmt/format.h>

#include "collectives/error.h"

namespace meshwork {

std::int64_t element_count(std::span<const std::int64_t> shape) {
  // A zero anywhere makes the product zero, however large the others are.
  for (const std::int64_t length : shape) {
    if (length == 0) return 0;
  }
  std::int64_t count = 1;
  for (const std::int64_t length : shape) {
    if (__builtin_mul_overflow(count, length, &count) || count > most_elements) {
      fail("a tensor of shape {} has more than 2^48 elements",
           to_string(Shape(shape.begin(), shape.end())));
    }
  }
  return count;
}

std::string to_string(const Shape& shape) {
  std::string text = "(";
  for (std::size_t dimension = 0; dimension < shape.size(); ++dimension) {
    if (dimension > 0) text += ", ";
    text += shape[dimension] == -1 ? "batch" : fmt::format("{}", shape[dimension]);
  }
  return text + ")";
}

}  // namespace meshwork
