// How a row-major product looks to cuBLASLt, which knows columns that lie together.
//
// A row-major matrix (r, c) is the column-major matrix (c, r), its transpose, at the same
// addresses. So c (m, n) = op(a) (m, k) op(b) (k, n) is, column-major,
//   transpose(c) (n, m) = transpose(op(b)) (n, k) transpose(op(a)) (k, m):
// b comes first, and is transposed exactly where MatmulSpec says so. The bias (n) lies along the
// rows of the column-major result, which is where cuBLASLt adds one.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/device/kernels/products.h"

namespace meshwork::cuda {

/// A column-major matrix as it is stored.
struct StoredMatrix {
  std::int64_t rows, columns, leading;  // leading: elements from one column to the next
  bool transposed;                      // before it is multiplied
};

struct ProductLayout {
  StoredMatrix first, second, result;  // first: operand b, second: operand a
};

[[nodiscard]] inline ProductLayout product_layout(const MatmulSpec& spec) {
  const auto [m, n, k] = std::array{spec.m, spec.n, spec.k};
  const std::int64_t a = spec.a_stride(), b = spec.b_stride();
  return {spec.transpose_b ? StoredMatrix{k, n, b, true} : StoredMatrix{n, k, b, false},
          spec.transpose_a ? StoredMatrix{m, k, a, true} : StoredMatrix{k, m, a, false},
          StoredMatrix{n, m, spec.c_stride(), false}};
}

}  // namespace meshwork::cuda
