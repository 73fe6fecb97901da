// Rows normalized, rows of length 1, and factors of channels, over every split.
#include "runtime/graph/operations/row_normalization.h"

#include <cmath>

#include "collectives/error.h"
#include "runtime/graph/operations/scale.h"
#include "runtime/graph/operations/unit_rows.h"
#include "tests/support/strategy_validator.h"

namespace meshwork::row_normalization_test {

using namespace meshwork::test;

TEST_CASE("rows get mean 0 and variance 1, however many dimensions they have") {
  for (const std::size_t first : {1u, 2u, 3u}) {
    const RowNormalizationOperation operation(
        {.row_dimensions = first, .scale = false, .center = false, .epsilon = 0.25});
    const OperationCase what = case_of(operation, {2, 3, 5, 4});
    const Tensor& x = what.inputs[0];
    const std::int64_t rows = element_count(std::span(x.shape).first(first));
    const std::int64_t columns = element_count(x.shape) / rows;
    Tensor expected(x.shape);
    for (std::int64_t row = 0; row < rows; ++row) {
      const double* from = x.values.data() + row * columns;
      double mean = 0, variance = 0;
      for (std::int64_t j = 0; j < columns; ++j) mean += from[j] / static_cast<double>(columns);
      for (std::int64_t j = 0; j < columns; ++j) {
        variance += std::pow(from[j] - mean, 2) / static_cast<double>(columns);
      }
      for (std::int64_t j = 0; j < columns; ++j) {
        expected.values[row * columns + j] = (from[j] - mean) / std::sqrt(variance + 0.25);
      }
    }
    CHECK(difference(run_whole(operation, what).output, expected, 1e-6) == "");
    check_gradients(operation, what);
    check_strategies(operation, what);
  }
}

TEST_CASE("a mean far from 0 costs no digits of the deviations") {
  const RowNormalizationOperation operation({.scale = false, .center = false, .epsilon = 1e-6});
  const OperationCase what{.inputs = {Tensor({1, 4}, {4097, 4099, 4097, 4099})},
                           .output_gradient = Tensor({1, 4}, {0, 0, 0, 0})};
  CHECK(difference(run_whole(operation, what).output, Tensor({1, 4}, {-1, 1, -1, 1}), 1e-6) == "");
  check_strategies(operation, what);
}

TEST_CASE("rows become as long as 1 on every split") {
  const UnitRowsOperation operation;
  for (const Shape& shape : {Shape{3, 7}, Shape{2, 3, 5}}) {
    check_gradients(operation, case_of(operation, shape));
    check_strategies(operation, case_of(operation, shape));
  }
}

TEST_CASE("factors of the last dimension agree with differences and with the truth") {
  const ScaleOperation operation;
  const OperationCase what{.inputs = {random_tensor({3, 2, 5}, 1), random_tensor({5}, 2)},
                           .output_gradient = random_tensor({3, 2, 5}, 3)};
  const Tensor y = run_whole(operation, what).output;
  CHECK(y.values[7] == Approx(what.inputs[0].values[7] * what.inputs[1].values[2]));
  check_gradients(operation, what);
  check_strategies(operation, what);
  CHECK_THROWS_WITH(operation.output_shape(std::vector<Shape>{{3, 5}, {4}}),
                    Catch::Contains("needs as many factors as its last dimension is long"));
}

}  // namespace meshwork::row_normalization_test
