#include "runtime/device/cuda/product_layout.h"

#include <random>
#include <vector>

#include "tests/support/catch.h"

namespace meshwork::cuda {

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

}  // namespace meshwork::cuda
