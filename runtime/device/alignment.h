// Where operands of kernels begin.
//
// Parameters are packed, each behind the other, so that an operand may begin at any multiple of its
// element's size. A *large* one, and any in a program's arena, begins where a cache line does, on
// every rank: kernels may take another way for those, as long as the shape alone decides which.
#pragma once

#include <cstdint>

namespace meshwork {

constexpr std::int64_t line_bytes = 64;
/// Variables, and gradients of variables, of as many elements are large.
constexpr std::int64_t large_elements = 4096;

}  // namespace meshwork
