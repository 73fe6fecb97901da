#include "runtime/graph/operations/dimensions.h"

#include <string_view>

#include "collectives/error.h"

namespace meshwork {

std::string dimension_letters(std::size_t count) {
  constexpr std::string_view letters = "btuvwxyzacdefghjlmnpqrsABCDEFGHIJKLMNOPQRSTUVWXYZ";
  static_assert(letters.size() == dimension_letters_count);
  if (count > letters.size()) {
    fail("a tensor of {} dimensions: at most {} are possible", count, letters.size());
  }
  return std::string(letters.substr(0, count));
}

std::string dimension_letters(std::size_t count, char last) {
  return dimension_letters(count - 1) + last;
}

std::int64_t rows_of(const Shape& shape) {
  return element_count(std::span(shape).first(shape.size() - 1));
}

std::int64_t columns_of(const Shape& shape) {
  return shape.back();
}

void check_input_count(std::span<const Shape> inputs, std::size_t count) {
  if (inputs.size() != count) {
    fail("expected {} input{}, found {}", count, count == 1 ? "" : "s", inputs.size());
  }
}

void check_equal_shapes(std::span<const Shape> inputs) {
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    if (inputs[i] != inputs[0]) {
      fail("expected inputs of equal shapes, found {} for input 0 and {} for input {}",
           to_string(inputs[0]), to_string(inputs[i]), i);
    }
  }
}

}  // namespace meshwork
