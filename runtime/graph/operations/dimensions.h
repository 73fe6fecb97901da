// Letters for rules, and shapes seen as rows and columns.
//
// Letters only have to differ within a rule. By custom the batch is 'b', the features that go into
// a product 'i', those that come out 'o', classes 'k'; the other dimensions are 't', 'u', ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/shape/shape.h"

namespace meshwork {

/// How many letters there are that have no fixed meaning.
inline constexpr std::size_t dimension_letters_count = 49;

/// The first `count` of the letters that have no fixed meaning, the batch's first: "b", "bt",
/// "btu". None is 'i', 'o' or 'k'. Throws `Error` if `count` exceeds their number.
[[nodiscard]] std::string dimension_letters(std::size_t count);

/// The same with `last` for the last of `count` dimensions. `count` is at least 1.
[[nodiscard]] std::string dimension_letters(std::size_t count, char last);

/// All dimensions but the last taken together; `shape` has one at least.
[[nodiscard]] std::int64_t rows_of(const Shape& shape);

/// The last dimension; `shape` has one at least.
[[nodiscard]] std::int64_t columns_of(const Shape& shape);

/// Throws `Error` unless there are `count` inputs.
void check_input_count(std::span<const Shape> inputs, std::size_t count);

/// Throws `Error` unless all have the shape of the first.
void check_equal_shapes(std::span<const Shape> inputs);

}  // namespace meshwork
