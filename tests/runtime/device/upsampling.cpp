#include <algorithm>

#include "runtime/device/kernels/upsampling.h"
#include "tests/runtime/device/support.h"

namespace meshwork::test::upsampling_test {

namespace {

UpsamplingDimension whole(std::int64_t length, std::int64_t factor) {
  return {length, length * factor, 0, length, 0, length * factor};
}

/// The weight with which global output `o` looks at global input `i`, from the definition: the
/// triangle around the output's place, cut to the image.
double weight(Interpolation interpolation, std::int64_t length, std::int64_t made, std::int64_t o,
              std::int64_t i) {
  const double middle =
      (static_cast<double>(o) + 0.5) * static_cast<double>(length) / static_cast<double>(made);
  // Shares of small lengths are off by less than 1e-9.
  if (interpolation == Interpolation::nearest) {
    return std::floor(middle + 1e-9) == static_cast<double>(i) ? 1 : 0;
  }
  const double place = std::clamp(middle - 0.5, 0.0, static_cast<double>(length - 1));
  return std::max(0.0, 1 - std::fabs(place - static_cast<double>(i)));
}

/// Forward and gradient, as sums over all inputs and outputs that the rank holds.
void check_upsampling(const UpsamplingShape& at) {
  const std::int64_t inputs = at.batch * at.rows.input * at.columns.input * at.channels;
  const std::int64_t outputs = at.batch * at.rows.output * at.columns.output * at.channels;
  const std::vector<float> values = random_values(inputs, 1), gradient = random_values(outputs, 2);
  std::vector<double> y_expected, dx_expected;
  y_expected.resize(static_cast<std::size_t>(outputs));
  dx_expected.resize(static_cast<std::size_t>(inputs));
  std::size_t output = 0;
  for (std::int64_t n = 0; n < at.batch; ++n) {
    for (std::int64_t row = 0; row < at.rows.output; ++row) {
      for (std::int64_t column = 0; column < at.columns.output; ++column) {
        for (std::int64_t c = 0; c < at.channels; ++c, ++output) {
          for (std::int64_t y = 0; y < at.rows.input; ++y) {
            for (std::int64_t x = 0; x < at.columns.input; ++x) {
              const double share =
                  weight(at.interpolation, at.rows.length, at.rows.made, at.rows.first_output + row,
                         at.rows.first_input + y) *
                  weight(at.interpolation, at.columns.length, at.columns.made,
                         at.columns.first_output + column, at.columns.first_input + x);
              const auto input = static_cast<std::size_t>(
                  ((n * at.rows.input + y) * at.columns.input + x) * at.channels + c);
              y_expected[output] += share * static_cast<double>(values[input]);
              dx_expected[input] += share * static_cast<double>(gradient[output]);
            }
          }
        }
      }
    }
  }
  Array<> x(values), y(outputs), dy(gradient), dx(inputs);
  run(UpsamplingSpec{at}, x, y);
  check_close(y, y_expected, 1e-6, 1e-6);
  run(UpsamplingGradientSpec{at}, dy, dx);
  check_close(dx, dx_expected, 1e-6, 2e-6);
}

}  // namespace

TEST_CASE("upsampling by two gives the values known from Keras") {
  // tf.image.resize([1, 2], half-pixel centres): 1, 1.25, 1.75, 2.
  const UpsamplingShape at{.batch = 1,
                           .rows = whole(1, 1),
                           .columns = whole(2, 2),
                           .channels = 1,
                           .interpolation = Interpolation::bilinear};
  Array<> x{1, 2}, y(4), repeated(4);
  run(UpsamplingSpec{at}, x, y);
  CHECK(y.values() == std::vector<float>{1, 1.25f, 1.75f, 2});
  UpsamplingShape nearest = at;
  nearest.interpolation = Interpolation::nearest;
  run(UpsamplingSpec{nearest}, x, repeated);
  CHECK(repeated.values() == std::vector<float>{1, 1, 2, 2});
}

TEST_CASE("upsampling and its gradient are right for odd sizes and factors") {
  for (const Interpolation interpolation : {Interpolation::nearest, Interpolation::bilinear}) {
    for (const std::int64_t factor : {1, 2, 3, 4}) {
      for (const std::int64_t length : {1, 2, 5}) {
        for (const std::int64_t channels : {0, 1, 3, 17}) {
          check_upsampling({.batch = 2,
                            .rows = whole(length, factor),
                            .columns = whole(3, 2),
                            .channels = channels,
                            .interpolation = interpolation});
        }
      }
    }
  }
}

TEST_CASE("images of any size are right, larger and smaller") {
  for (const Interpolation interpolation : {Interpolation::nearest, Interpolation::bilinear}) {
    for (const std::int64_t length : {1, 3, 8}) {
      for (const std::int64_t made : {1, 2, 5, 7, 11}) {
        check_upsampling({.batch = 2,
                          .rows = {length, made, 0, length, 0, made},
                          .columns = {made, length, 0, made, 0, length},
                          .channels = 3,
                          .interpolation = interpolation});
      }
    }
  }
}

TEST_CASE("a block of the result gives the bits of the whole") {
  for (const Interpolation interpolation : {Interpolation::nearest, Interpolation::bilinear}) {
    const std::int64_t length = 5, factor = 3, columns = 8, channels = 2;
    UpsamplingShape at{.batch = 1,
                       .rows = whole(length, factor),
                       .columns = whole(4, 2),
                       .channels = channels,
                       .interpolation = interpolation};
    const std::vector<float> values = random_values(length * 4 * channels, 3);
    Array<> x(values), all(length * factor * columns * channels);
    run(UpsamplingSpec{at}, x, all);
    for (std::int64_t first = 0; first < length * factor; ++first) {
      for (std::int64_t end = first; end <= length * factor; ++end) {
        // One more input on either side than any of these outputs can need, where there is one.
        const std::int64_t low = std::max<std::int64_t>(first / factor - 1, 0);
        const std::int64_t high = std::min<std::int64_t>((end - 1) / factor + 2, length);
        at.rows = {length, length * factor, low, high - low, first, end - first};
        check_upsampling(at);
        const auto row = static_cast<std::size_t>(4 * channels);
        Array<> part(std::vector<float>(values.begin() + low * static_cast<std::int64_t>(row),
                                        values.begin() + high * static_cast<std::int64_t>(row)));
        Array<> y((end - first) * columns * channels);
        run(UpsamplingSpec{at}, part, y);
        CHECK(std::equal(y.data(), y.data() + y.size(), all.data() + first * columns * channels));
      }
    }
  }
}

TEST_CASE("inputs that upsampling needs and that are not held are an error that says which") {
  const UpsamplingShape at{.batch = 1,
                           .rows = {4, 8, 1, 2, 2, 4},
                           .columns = whole(1, 1),
                           .channels = 1,
                           .interpolation = Interpolation::bilinear};
  CHECK_THROWS_WITH(run_kernel(UpsamplingSpec{at}, {}),
                    Catch::Contains("output 2 looks at inputs 0 to 1"));
}

}  // namespace meshwork::test::upsampling_test
