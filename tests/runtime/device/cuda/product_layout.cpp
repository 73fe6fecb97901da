#include "runtime/device/cuda/product_layout.h"
#include "runtime/device/kernels/products.h"

#include <random>
#include <vector>

#include "tests/support/catch.h"

namespace meshwork::cuda::product_layout_test {

namespace {

std::vector<double> numbers(std::int64_t count) {
  std::mt19937 engine(5);
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = static_cast<double>(engine() % 19) - 9;
  return values;
}

/// Element (row, column) of a column-major matrix, after its transposition.
double element(const StoredMatrix& of, const std::vector<double>& values, std::int64_t row,
               std::int64_t column) {
  if (of.transposed) std::swap(row, column);
  CHECK(row < of.rows);
  CHECK(column < of.columns);
  return values[static_cast<std::size_t>(column * of.leading + row)];
}

}  // namespace

TEST_CASE("a column-major product with operands swapped is the row-major one") {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      for (const std::int64_t m : {1, 2, 5}) {
        for (const std::int64_t n : {1, 3, 4}) {
          for (const std::int64_t k : {1, 2, 7}) {
            const std::vector<double> a = numbers(m * k), b = numbers(k * n);
            const ProductLayout layout = product_layout(
                {.m = m, .n = n, .k = k, .transpose_a = transpose_a, .transpose_b = transpose_b});
            CHECK(layout.result.rows == n);  // where the bias lies
            CHECK(layout.result.columns == m);
            std::vector<double> c(static_cast<std::size_t>(m * n));
            for (std::int64_t row = 0; row < layout.result.rows; ++row) {
              for (std::int64_t column = 0; column < layout.result.columns; ++column) {
                double sum = 0;
                for (std::int64_t l = 0; l < k; ++l) {
                  sum += element(layout.first, b, row, l) * element(layout.second, a, l, column);
                }
                c[static_cast<std::size_t>(column * layout.result.leading + row)] = sum;
              }
            }
            for (std::int64_t i = 0; i < m; ++i) {
              for (std::int64_t j = 0; j < n; ++j) {
                double sum = 0;
                for (std::int64_t l = 0; l < k; ++l) {
                  sum += a[static_cast<std::size_t>(transpose_a ? l * m + i : i * k + l)] *
                         b[static_cast<std::size_t>(transpose_b ? j * k + l : l * n + j)];
                }
                CHECK(c[static_cast<std::size_t>(i * n + j)] == sum);
              }
            }
          }
        }
      }
    }
  }
}

// What BGRADA adds up (product.h): over the inner dimension of the library's first matrix, as many
// sums as the result has rows.
TEST_CASE("the sums over the library's first matrix are those over the columns of the second") {
  const MatmulSpec spec{.m = 5, .n = 4, .k = 7, .transpose_a = true, .column_sums = true};
  const std::vector<double> b = numbers(spec.k * spec.n);
  const ProductLayout layout = product_layout(spec);
  REQUIRE(layout.result.rows == spec.n);
  for (std::int64_t j = 0; j < spec.n; ++j) {
    double of_first = 0, of_columns = 0;
    for (std::int64_t l = 0; l < spec.k; ++l) {
      of_first += element(layout.first, b, j, l);
      of_columns += b[static_cast<std::size_t>(l * spec.n + j)];
    }
    CHECK(of_first == of_columns);
  }
}

// A relu mask has a leading dimension in bits (product.h).
TEST_CASE("a row of a relu mask holds a row of the result and is a multiple of 128 bits") {
  for (const std::int64_t columns : {1, 10, 127, 128, 129, 256, 4097}) {
    const std::int64_t bits = relu_mask_row_bytes(columns) * 8;
    CHECK(bits % 128 == 0);
    CHECK(bits >= columns);
    CHECK(bits - columns < 128);
  }
}

}  // namespace meshwork::cuda::product_layout_test
