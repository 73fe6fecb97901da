// Upsampling, over every split.
#include "runtime/device/kernels/upsampling.h"
#include "runtime/graph/operations/upsampling.h"

#include <algorithm>
#include <tuple>

#include "tests/support/image_reference.h"
#include "tests/support/strategy_validator.h"

namespace meshwork::upsampling_test {

using namespace meshwork::test;

TEST_CASE("nearest upsampling repeats pixels") {
  const UpsamplingOperation operation({2, 3}, Interpolation::nearest);
  const OperationCase what = case_of(operation, {2, 3, 2, 2});
  Tensor expected({2, 6, 6, 2});
  for (std::int64_t n = 0; n < 2; ++n) {
    for (std::int64_t h = 0; h < 6; ++h) {
      for (std::int64_t w = 0; w < 6; ++w) {
        for (std::int64_t c = 0; c < 2; ++c) {
          expected.values[place(expected.shape, n, h, w, c)] =
              what.inputs[0].values[place(what.inputs[0].shape, n, h / 2, w / 3, c)];
        }
      }
    }
  }
  CHECK(difference(run_whole(operation, what).output, expected, 0) == "");
}

TEST_CASE("bilinear upsampling interpolates between the centres of pixels") {
  // Two pixels of 0 and 4, doubled: their centres are at 1/2 and 3/2 of a row of 4 halves.
  const OperationCase two{.inputs = {Tensor({1, 1, 2, 1}, {0, 4})},
                          .output_gradient = Tensor({1, 1, 4, 1}, {1, 1, 1, 1})};
  const OperationResult found =
      run_whole(UpsamplingOperation({1, 2}, Interpolation::bilinear), two);
  CHECK(found.output.values == std::vector<double>{0, 1, 3, 4});
  CHECK(found.gradients[0]->values == std::vector<double>{2, 2});

  const UpsamplingOperation operation({3, 2}, Interpolation::bilinear);
  const OperationCase what = case_of(operation, {2, 4, 3, 2});
  Tensor expected({2, 12, 6, 2});
  const auto around = [](std::int64_t o, double factor, std::int64_t length) {
    const double s = std::min(std::max((static_cast<double>(o) + 0.5) / factor - 0.5, 0.0),
                              static_cast<double>(length - 1));
    const auto low = static_cast<std::int64_t>(s);
    return std::tuple(low, std::min(low + 1, length - 1), s - static_cast<double>(low));
  };
  for (std::int64_t n = 0; n < 2; ++n) {
    for (std::int64_t h = 0; h < 12; ++h) {
      for (std::int64_t w = 0; w < 6; ++w) {
        for (std::int64_t c = 0; c < 2; ++c) {
          const auto [above, below, down] = around(h, 3, 4);
          const auto [left, right, across] = around(w, 2, 3);
          const auto at = [&](std::int64_t row, std::int64_t column) {
            return what.inputs[0].values[place(what.inputs[0].shape, n, row, column, c)];
          };
          expected.values[place(expected.shape, n, h, w, c)] =
              (1 - down) * ((1 - across) * at(above, left) + across * at(above, right)) +
              down * ((1 - across) * at(below, left) + across * at(below, right));
        }
      }
    }
  }
  CHECK(difference(run_whole(operation, what).output, expected, 1e-6) == "");
}

TEST_CASE("upsampling agrees with differences and with the truth") {
  for (const Interpolation interpolation : {Interpolation::nearest, Interpolation::bilinear}) {
    for (const std::int64_t factor : {1, 2, 3}) {
      const UpsamplingOperation operation({factor, 2}, interpolation);
      check_gradients(operation, case_of(operation, {2, 3, 2, 2}));
      check_strategies(operation, case_of(operation, {2, 7, 5, 2}));
    }
    const UpsamplingOperation wide({5, 4}, interpolation);
    check_strategies(wide, case_of(wide, {1, 2, 1, 2}));
  }
}

}  // namespace meshwork::upsampling_test
