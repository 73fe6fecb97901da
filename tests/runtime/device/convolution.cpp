#include <algorithm>
#include <array>

#include "runtime/device/kernels/convolution.h"
#include "runtime/device/narrowing.h"
#include "tests/runtime/device/support.h"

namespace meshwork::test::convolution_test {

namespace {

struct Counts {
  std::int64_t input, kernel, output;
};

Counts counts_of(const ConvolutionShape& at) {
  return {
      at.batch * at.planes.input * at.rows.input * at.columns.input * at.channels,
      at.planes.window * at.rows.window * at.columns.window * at.channels / at.groups * at.filters,
      at.batch * at.planes.output * at.rows.output * at.columns.output * at.filters};
}

/// visit(input, kernel, output): the offsets of every product that a convolution adds up.
template <class Visit>
void for_terms(const ConvolutionShape& at, const Visit& visit) {
  const std::int64_t channels = at.channels / at.groups, filters = at.filters / at.groups;
  const WindowDimension &d = at.planes, &h = at.rows, &w = at.columns;
  for (std::int64_t position = 0; position < at.batch * d.output * h.output * w.output;
       ++position) {
    const std::int64_t n = position / w.output / h.output / d.output;
    for (std::int64_t place = 0; place < d.window * h.window * w.window; ++place) {
      const auto input_along = [](const WindowDimension& along, std::int64_t o, std::int64_t k) {
        return o % along.output * along.stride - along.padding + k % along.window * along.dilation;
      };
      const std::int64_t z =
          input_along(d, position / w.output / h.output, place / w.window / h.window);
      const std::int64_t y = input_along(h, position / w.output, place / w.window);
      const std::int64_t x = input_along(w, position, place);
      if (z < 0 || z >= d.input || y < 0 || y >= h.input || x < 0 || x >= w.input) continue;
      for (std::int64_t f = 0; f < at.filters; ++f) {
        for (std::int64_t c = 0; c < channels; ++c) {
          visit((((n * d.input + z) * h.input + y) * w.input + x) * at.channels +
                    f / filters * channels + c,
                (place * channels + c) * at.filters + f, position * at.filters + f);
        }
      }
    }
  }
}

/// sums[to] += left[a] * right[b] over all terms, each an index into (input, kernel, output).
template <class Pick>
std::vector<double> add_up(const ConvolutionShape& at, std::int64_t count,
                           const std::vector<float>& left, const std::vector<float>& right,
                           const Pick& pick) {
  std::vector<double> sums(static_cast<std::size_t>(count));
  for_terms(at, [&](std::int64_t input, std::int64_t kernel, std::int64_t output) {
    const auto [a, b, to] = pick(input, kernel, output);
    sums[static_cast<std::size_t>(to)] += static_cast<double>(left[static_cast<std::size_t>(a)]) *
                                          static_cast<double>(right[static_cast<std::size_t>(b)]);
  });
  return sums;
}

/// Forward in all forms and both gradients, each against the sum of its terms.
void check_as_placed(const ConvolutionShape& at, Precision precision) {
  const auto [inputs, kernels, outputs] = counts_of(at);
  std::vector<float> x_values = random_values(inputs, 1);
  std::vector<float> kernel_values = random_values(kernels, 2);
  const std::vector<float> bias_values = random_values(at.filters, 3);
  std::vector<float> dy_values = random_values(outputs, 4);
  Array<> x(x_values), kernel(kernel_values), bias(bias_values), dy(dy_values);
  const std::array before{x.values(), kernel.values(), dy.values()};
  if (precision == Precision::bfloat16) {
    for (std::vector<float>* factor : {&x_values, &kernel_values, &dy_values}) {
      for (float& value : *factor) value = rounded_to_bfloat16(value);
    }
  }
  // Terms of up to 1, each addition rounded to 2^-24 of a sum that random signs keep near the root
  // of their number.
  // In tf32 each factor is rounded to 2^-10 of itself.
  // Units that multiply narrow numbers may cut off where they add.
  const bool cut_off = precision == Precision::bfloat16 && kernel_device().traits().kind == "cuda";
  const double error = precision == Precision::tf32 ? 4e-3 : (cut_off ? 4e-6 : 1e-6);
  const auto tolerance = [error](std::int64_t terms) {
    return error * std::sqrt(static_cast<double>(terms) + 1);
  };
  const std::int64_t places = at.planes.window * at.rows.window * at.columns.window;

  std::vector<double> expected =
      add_up(at, outputs, x_values, kernel_values, [](auto input, auto weight, auto output) {
        return std::array{input, weight, output};
      });
  const double forward = tolerance(places * at.channels / at.groups);
  {
    Array<> y(outputs);
    run(ConvolutionSpec{.at = at, .precision = precision}, x, kernel, y);
    check_close(y, expected, error, forward);
    Array<> again(outputs);
    run(ConvolutionSpec{.at = at, .precision = precision}, x, kernel, again);
    CHECK(y.values() == again.values());
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    expected[i] += static_cast<double>(bias_values[i % bias_values.size()]);
  }
  {
    Array<> y(outputs);
    run(ConvolutionSpec{.at = at, .bias = true, .precision = precision}, x, kernel, bias, y);
    check_close(y, expected, error, forward);
  }
  for (double& value : expected) value = std::max(value, 0.0);
  {
    Array<> y(outputs);
    run(
        ConvolutionSpec{
            .at = at, .bias = true, .activation = Activation::relu, .precision = precision},
        x, kernel, bias, y);
    check_close(y, expected, error, forward);
  }
  {
    Array<> dx(inputs);
    run(ConvolutionInputGradientSpec{at, precision}, dy, kernel, dx);
    check_close(dx,
                add_up(at, inputs, dy_values, kernel_values,
                       [](auto input, auto weight, auto output) {
                         return std::array{output, weight, input};
                       }),
                error, tolerance(places * at.filters / at.groups));
  }
  {
    Array<> dkernel(kernels);
    run(ConvolutionKernelGradientSpec{at, precision}, x, dy, dkernel);
    check_close(dkernel,
                add_up(at, kernels, x_values, dy_values,
                       [](auto input, auto weight, auto output) {
                         return std::array{input, output, weight};
                       }),
                error, tolerance(outputs / std::max<std::int64_t>(at.filters, 1)));
    Array<> again(kernels);
    run(ConvolutionKernelGradientSpec{at, precision}, x, dy, again);
    CHECK(dkernel.values() == again.values());
  }
  CHECK(std::array{x.values(), kernel.values(), dy.values()} == before);
}

/// cuDNN computes those of a GPU only where they are aligned.
void check_convolution(const ConvolutionShape& at) {
  for (const Precision precision : precisions()) check_as_placed(at, precision);
  if (kernel_device().traits().kind != "cuda") return;
  operands_are_aligned = true;
  for (const Precision precision : precisions()) check_as_placed(at, precision);
  operands_are_aligned = false;
}

/// One dimension under Keras's `same` padding.
WindowDimension same(std::int64_t input, std::int64_t window, std::int64_t stride,
                     std::int64_t dilation = 1) {
  const std::int64_t output = (input + stride - 1) / stride;
  const std::int64_t total =
      std::max<std::int64_t>((output - 1) * stride + dilation * (window - 1) + 1 - input, 0);
  return {input, output, window, stride, dilation, total / 2};
}

/// One dimension under `valid` padding.
WindowDimension valid(std::int64_t input, std::int64_t window, std::int64_t stride = 1,
                      std::int64_t dilation = 1) {
  const std::int64_t reach = dilation * (window - 1) + 1;
  return {input,    std::max<std::int64_t>(input - reach + stride, 0) / stride,
          window,   stride,
          dilation, 0};
}

}  // namespace

TEST_CASE("a convolution of one window is the product by hand") {
  // 1 x 2 places: y = 1*10 + 2*100, 2*10 + 3*100 along a row, and the second row likewise.
  const ConvolutionShape at{
      .batch = 1, .rows = valid(2, 1), .columns = valid(3, 2), .channels = 1, .filters = 1};
  Array<> x{1, 2, 3, 4, 5, 6}, kernel{10, 100}, y(4), dy{1, 2, 3, 4}, dx(6), dkernel(2);
  run(ConvolutionSpec{at}, x, kernel, y);
  CHECK(y.values() == std::vector<float>{210, 320, 540, 650});
  run(ConvolutionInputGradientSpec{at}, dy, kernel, dx);
  CHECK(dx.values() == std::vector<float>{10, 120, 200, 30, 340, 400});
  run(ConvolutionKernelGradientSpec{at}, x, dy, dkernel);
  CHECK(dkernel.values() == std::vector<float>{1 + 4 + 12 + 20, 2 + 6 + 15 + 24});
}

TEST_CASE("convolutions are right for 1 to 17 channels and filters") {
  for (std::int64_t channels = 1; channels <= 17; ++channels) {
    check_convolution({.batch = 2,
                       .rows = same(5, 3, 1),
                       .columns = same(4, 3, 1),
                       .channels = channels,
                       .filters = 18 - channels});
  }
}

TEST_CASE("the convolutions of a convolutional network are right") {
  check_convolution({.batch = 2,
                     .rows = same(28, 3, 1),
                     .columns = same(28, 3, 1),
                     .channels = 1,
                     .filters = 12});
  check_convolution({.batch = 2,
                     .rows = same(14, 6, 2),
                     .columns = same(14, 6, 2),
                     .channels = 12,
                     .filters = 24});
  check_convolution({.batch = 2,
                     .rows = same(14, 6, 2),
                     .columns = same(14, 6, 2),
                     .channels = 24,
                     .filters = 32});
  check_convolution(
      {.batch = 1, .rows = same(7, 3, 1), .columns = same(7, 3, 1), .channels = 64, .filters = 64});
  check_convolution(
      {.batch = 3, .rows = same(6, 1, 1), .columns = same(5, 1, 1), .channels = 16, .filters = 33});
}

TEST_CASE("windows of one place are right for odd numbers of channels and filters") {
  for (const std::int64_t channels : {1, 2, 15, 17}) {
    for (const std::int64_t filters : {1, 15, 32, 33}) {
      check_convolution({.batch = 3,
                         .rows = same(6, 1, 1),
                         .columns = same(5, 1, 1),
                         .channels = channels,
                         .filters = filters});
    }
  }
}

TEST_CASE("strides that do not divide and dilation are right") {
  for (const std::int64_t stride : {1, 2, 3, 5}) {
    for (const std::int64_t dilation : {1, 2, 3}) {
      check_convolution({.batch = 2,
                         .rows = same(7, 3, stride, dilation),
                         .columns = same(10, 2, 1, dilation),
                         .channels = 3,
                         .filters = 4});
      check_convolution({.batch = 1,
                         .rows = valid(9, 3, stride, dilation),
                         .columns = valid(8, 2, stride, 1),
                         .channels = 5,
                         .filters = 2});
    }
  }
}

TEST_CASE("grouped and depthwise convolutions are right") {
  for (const std::int64_t groups : {1, 2, 3, 8}) {
    for (const std::int64_t channels : {1, 3}) {
      for (const std::int64_t filters : {1, 2, 5}) {
        check_convolution({.batch = 2,
                           .rows = same(5, 3, 1),
                           .columns = same(6, 3, 2),
                           .channels = groups * channels,
                           .filters = groups * filters,
                           .groups = groups});
      }
    }
  }
  check_convolution({.batch = 2,
                     .rows = same(5, 3, 1),
                     .columns = same(6, 3, 1),
                     .channels = 17,
                     .filters = 17,
                     .groups = 17});
  check_convolution({.batch = 2,
                     .rows = same(7, 5, 1, 2),
                     .columns = same(6, 5, 1, 2),
                     .channels = 32,
                     .filters = 32,
                     .groups = 32});
}

TEST_CASE("sequences are images of one row") {
  for (const std::int64_t window : {1, 2, 5}) {
    for (const std::int64_t stride : {1, 2}) {
      check_convolution({.batch = 3,
                         .rows = valid(1, 1),
                         .columns = same(11, window, stride),
                         .channels = 4,
                         .filters = 6});
    }
  }
}

TEST_CASE("convolutions of volumes are right") {
  const auto cube = [](std::int64_t batch, const WindowDimension& along, std::int64_t channels,
                       std::int64_t filters, std::int64_t groups = 1) {
    check_convolution({.batch = batch,
                       .planes = along,
                       .rows = along,
                       .columns = along,
                       .channels = channels,
                       .filters = filters,
                       .groups = groups});
  };
  cube(2, same(6, 2, 1), 4, 32);
  cube(1, same(5, 2, 1), 32, 64);
  cube(2, same(5, 3, 1), 16, 16);
  cube(2, same(6, 2, 2), 16, 48);
  cube(1, same(3, 1, 1), 33, 17);
  cube(1, valid(7, 3, 2), 3, 5);
  cube(1, same(6, 3, 1, 2), 16, 16);
  cube(1, same(4, 3, 1), 16, 32, 2);
  cube(2, same(4, 3, 1), 16, 16, 16);
  for (std::int64_t channels = 1; channels <= 17; ++channels) {
    check_convolution({.batch = 1,
                       .planes = same(3, 2, 1),
                       .rows = same(4, 3, 1),
                       .columns = same(5, 3, 2),
                       .channels = channels,
                       .filters = 18 - channels});
  }
}

TEST_CASE("a block of an image may be padded in any way") {
  // Kernels larger than the input, windows in padding altogether, inputs that no window looks at
  // (negative padding), and inputs of no rows at all.
  for (const std::int64_t padding : {-2, -1, 0, 1, 4, 7}) {
    for (const std::int64_t input : {0, 1, 3, 6}) {
      for (const std::int64_t stride : {1, 2, 3}) {
        check_convolution({.batch = 1,
                           .rows = {input, 3, 4, stride, 1, padding},
                           .columns = {4, 2, 3, 1, 1, 1},
                           .channels = 2,
                           .filters = 3});
        check_convolution({.batch = 2,
                           .rows = {3, 2, 2, 1, 1, 0},
                           .columns = {input, 4, 2, stride, 2, padding},
                           .channels = 3,
                           .filters = 2});
        check_convolution({.batch = 1,
                           .planes = {input, 3, 4, stride, 1, padding},
                           .rows = {3, 2, 2, 1, 1, 0},
                           .columns = {4, 2, 3, 1, 1, 1},
                           .channels = 2,
                           .filters = 3});
      }
    }
  }
}

TEST_CASE("blocks that are empty leave outputs alone and sums zero") {
  const ConvolutionShape whole{
      .batch = 2, .rows = same(4, 3, 1), .columns = same(4, 3, 1), .channels = 3, .filters = 2};
  for (const auto empty : {0, 1, 2, 3, 4, 5, 6}) {
    ConvolutionShape at = whole;
    if (empty == 0) at.batch = 0;
    if (empty == 1) at.rows.input = 0;
    if (empty == 2) at.columns.input = 0;
    if (empty == 3) at.rows.output = 0;
    if (empty == 4) at.columns.output = 0;
    if (empty == 5) at.channels = 0;
    if (empty == 6) at.filters = 0;
    check_convolution(at);
  }
}

TEST_CASE("convolutions of random shapes are right") {
  std::mt19937 engine(11);
  const auto between = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine() % static_cast<unsigned>(high - low + 1));
  };
  const auto dimension = [&] {
    return WindowDimension{between(0, 9), between(0, 6), between(1, 5),
                           between(1, 3), between(1, 2), between(-3, 6)};
  };
  for (int i = 0; i < 350; ++i) {
    const std::int64_t groups = std::max<std::int64_t>(1, between(-2, 4));
    check_convolution({.batch = between(1, 3),
                       .planes = i < 250 ? WindowDimension{} : dimension(),
                       .rows = dimension(),
                       .columns = dimension(),
                       .channels = groups * between(1, 9),
                       .filters = groups * between(1, 9),
                       .groups = groups});
  }
}

TEST_CASE("relu behind a convolution lets a NaN through") {
  const ConvolutionShape at{
      .batch = 1, .rows = valid(4, 1), .columns = valid(4, 1), .channels = 16, .filters = 16};
  std::vector<float> image(4 * 4 * 16, 1.0f);
  image[5] = std::numeric_limits<float>::quiet_NaN();
  Array<> x(image), kernel(std::vector<float>(16 * 16, -1.0f)), y(4 * 4 * 16);
  run(ConvolutionSpec{.at = at, .activation = Activation::relu}, x, kernel, y);
  for (std::size_t i = 0; i < y.values().size(); ++i)
    CHECK((i < 16 ? std::isnan(y[i]) : y[i] == 0));
}

TEST_CASE("a convolution that cannot be is refused with its description") {
  ConvolutionShape at{
      .batch = 1, .rows = valid(3, 2), .columns = valid(3, 2), .channels = 3, .filters = 4};
  at.groups = 2;
  CHECK_THROWS_WITH(run_kernel(ConvolutionSpec{at}, {}),
                    Catch::Contains("convolution 1x3x3x3 to 2x2x4 by 2x2 in 2 groups"));
  at.groups = 1;
  CHECK_THROWS_WITH(run_kernel(ConvolutionSpec{.at = at, .activation = Activation::tanh}, {}),
                    Catch::Contains("neither linear nor relu"));
}

}  // namespace meshwork::test::convolution_test
