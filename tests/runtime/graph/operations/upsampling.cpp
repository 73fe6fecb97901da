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

// Resizing of Keras 3.15, on JAX, of 3 x 5 pixels, and dx by jax.vjp.
TEST_CASE("images of another size are those of Keras") {
  Tensor x({1, 3, 5, 1});
  for (std::size_t i = 0; i < 15; ++i) x.values[i] = static_cast<double>(i * 7 % 15);
  Tensor dy({1, 2, 3, 1});
  for (std::size_t i = 0; i < 6; ++i) dy.values[i] = static_cast<double>(i + 1);
  const OperationCase smaller{.inputs = {x}, .output_gradient = dy};
  const auto resized = [](const OperationCase& what, std::vector<std::int64_t> lengths,
                          Interpolation interpolation) {
    return run_whole(
        UpsamplingOperation(std::move(lengths), interpolation, UpsamplingOperation::Sizes::lengths),
        what);
  };
  OperationResult found = resized(smaller, {2, 3}, Interpolation::bilinear);
  CHECK(difference(found.output,
                   Tensor({1, 2, 3, 1}, {3.5833333, 11.5, 9.4166660, 7.3333330, 7.75, 5.6666660}),
                   1e-6) == "");
  CHECK(difference(*found.gradients[0],
                   Tensor(x.shape, {0.5, 0.25, 1.5, 0.75, 1.5, 0.8333333, 0.4166667, 1.75, 0.75,
                                    1.5, 2, 1, 3.75, 1.5, 3}),
                   1e-6) == "");
  found = resized(smaller, {2, 3}, Interpolation::nearest);
  CHECK(found.output.values == std::vector<double>{0, 14, 13, 10, 9, 8});
  CHECK(found.gradients[0]->values ==
        std::vector<double>{1, 0, 2, 0, 3, 0, 0, 0, 0, 0, 4, 0, 5, 0, 6});
  const OperationCase larger{.inputs = {x}};
  CHECK(difference(
            resized(larger, {4, 7}, Interpolation::bilinear).output,
            Tensor({1, 4, 7, 1}, {0,     4,         9,         14,    8.2857132, 9,         13,
                                  3.125, 7.125,     9.4464283, 7.75,  8.7321434, 8.1071424, 6.75,
                                  6.875, 7.6607141, 7.5714288, 5.875, 6.8571429, 6.2321424, 4.875,
                                  10,    5.4285717, 4.000001,  9,     3.2857132, 4,         8}),
            1e-6) == "");
  CHECK(resized(larger, {4, 7}, Interpolation::nearest).output.values ==
        std::vector<double>{0, 7,  7,  14, 6,  6,  13, 5,  12, 12, 4, 11, 11, 3,
                            5, 12, 12, 4,  11, 11, 3,  10, 2,  2,  9, 1,  1,  8});
}

TEST_CASE("resizing agrees with differences and with the truth") {
  for (const Interpolation interpolation : {Interpolation::nearest, Interpolation::bilinear}) {
    for (const std::vector<std::int64_t>& lengths :
         {std::vector<std::int64_t>{5, 3}, {2, 9}, {3, 2}, {7, 5}}) {
      const UpsamplingOperation operation(lengths, interpolation,
                                          UpsamplingOperation::Sizes::lengths);
      check_gradients(operation, case_of(operation, {2, 3, 2, 2}));
      check_strategies(operation, case_of(operation, {2, 7, 5, 2}));
    }
  }
}

}  // namespace meshwork::upsampling_test
