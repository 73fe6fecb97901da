#include <functional>
#include <limits>

#include "runtime/device/kernels/pooling.h"
#include "tests/runtime/device/support.h"

namespace meshwork::test::pooling_test {

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

std::int64_t input_count(const PoolingShape& at) {
  return at.batch * at.planes.input * at.rows.input * at.columns.input * at.channels;
}
std::int64_t output_count(const PoolingShape& at) {
  return at.batch * at.planes.output * at.rows.output * at.columns.output * at.channels;
}

/// Where the window of an output begins, and how many places it has.
std::pair<std::int64_t, std::int64_t> window_of(const WindowDimension& at, std::int64_t output) {
  if (at.bins == 0) return {output * at.stride - at.padding, at.window};
  const double share = static_cast<double>(at.length) / static_cast<double>(at.bins);
  const auto bin = static_cast<double>(at.first_bin + output);
  // Shares of small lengths are off by less than 1e-9.
  const auto begin = static_cast<std::int64_t>(std::floor(bin * share + 1e-9));
  const auto end = static_cast<std::int64_t>(std::ceil((bin + 1) * share - 1e-9));
  return {begin - at.padding, end - begin};
}

/// visit(output, inputs, places) for every element of y: the offsets in x that its window holds.
void for_windows(const PoolingShape& at,
                 const std::function<void(std::size_t, const std::vector<std::size_t>&,
                                          const std::vector<std::int64_t>&)>& visit) {
  const WindowDimension &d = at.planes, &h = at.rows, &w = at.columns;
  // -1 for what no window has.
  const auto input_along = [](const WindowDimension& along, std::int64_t o, std::int64_t k) {
    const auto [begin, places] = window_of(along, o % along.output);
    const std::int64_t place = k % along.window;
    return place < places ? begin + place * along.dilation : -1;
  };
  for (std::int64_t output = 0; output < output_count(at); ++output) {
    const std::int64_t position = output / at.channels, c = output % at.channels;
    const std::int64_t n = position / w.output / h.output / d.output;
    std::vector<std::size_t> inputs;
    std::vector<std::int64_t> places;
    for (std::int64_t k = 0; k < d.window * h.window * w.window; ++k) {
      const std::int64_t z =
          input_along(d, position / w.output / h.output, k / w.window / h.window);
      const std::int64_t y = input_along(h, position / w.output, k / w.window);
      const std::int64_t x = input_along(w, position, k);
      if (z < 0 || z >= d.input || y < 0 || y >= h.input || x < 0 || x >= w.input) continue;
      inputs.push_back(static_cast<std::size_t>(
          (((n * d.input + z) * h.input + y) * w.input + x) * at.channels + c));
      places.push_back(k);
    }
    visit(static_cast<std::size_t>(output), inputs, places);
  }
}

template <class Winner>
void check_maximum(const PoolingShape& at, const std::vector<float>& x_values,
                   const std::vector<float>& dy_values) {
  std::vector<double> y_expected(static_cast<std::size_t>(output_count(at)));
  std::vector<double> dx_expected(static_cast<std::size_t>(input_count(at)));
  std::vector<Winner> winners;
  std::vector<bool> has_winner;
  for_windows(at, [&](std::size_t output, const auto& inputs, const auto& places) {
    double best = -infinity;
    std::size_t winner = 0;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      const double value = static_cast<double>(x_values[inputs[k]]);
      if (std::isnan(best)) break;
      if (value > best || std::isnan(value)) {
        best = value;
        winner = k;
      }
    }
    y_expected[output] = best;
    has_winner.push_back(!inputs.empty());
    winners.push_back(inputs.empty() ? Winner{} : static_cast<Winner>(places[winner]));
    if (!inputs.empty()) {
      dx_expected[inputs[winner]] += static_cast<double>(dy_values[output]);
    }
  });
  Array<> x(x_values), dy(dy_values), y(output_count(at)), alone(output_count(at)),
      dx(input_count(at));
  Array<Winner> w(output_count(at));
  run(MaximumPoolingSpec{.at = at, .winners = true}, x, y, w);
  check_close(y, y_expected, 0);
  for (std::size_t i = 0; i < winners.size(); ++i) {
    if (has_winner[i] && w[i] != winners[i]) {
      FAIL("winner " << i << " is " << +w[i] << ", not " << +winners[i]);
    }
  }
  run(MaximumPoolingSpec{.at = at}, x, alone);
  check_close(alone, y_expected, 0);
  run(MaximumPoolingGradientSpec{at}, w, dy, dx);
  check_close(dx, dx_expected, 1e-6, 1e-6);
}

void check_average(const PoolingShape& at, const std::vector<float>& x_values,
                   const std::vector<float>& dy_values) {
  std::vector<double> y_expected(static_cast<std::size_t>(output_count(at)));
  std::vector<double> dx_expected(static_cast<std::size_t>(input_count(at)));
  for_windows(at, [&](std::size_t output, const auto& inputs, const auto&) {
    const double count = static_cast<double>(inputs.size());
    for (const std::size_t input : inputs) {
      y_expected[output] += static_cast<double>(x_values[input]) / count;
      dx_expected[input] += static_cast<double>(dy_values[output]) / count;
    }
  });
  Array<> x(x_values), dy(dy_values), y(output_count(at)), dx(input_count(at));
  run(AveragePoolingSpec{at}, x, y);
  check_close(y, y_expected, 1e-6, 1e-6);
  run(AveragePoolingGradientSpec{at}, dy, dx);
  check_close(dx, dx_expected, 1e-6, 1e-6);
}

void check_pooling(const PoolingShape& at) {
  INFO(MaximumPoolingSpec{at}.text());
  std::vector<float> x = random_values(input_count(at), 1);
  const std::vector<float> dy = random_values(output_count(at), 2);
  check_average(at, x, dy);
  // Few different values, so that there are ties.
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = std::round(x[i] * 2);
    if (i % 13 == 5) x[i] = -infinity;
    if (i % 29 == 7) x[i] = nan;
  }
  if (winner_type(at) == ElementType::uint8) {
    check_maximum<std::uint8_t>(at, x, dy);
  } else {
    check_maximum<std::int32_t>(at, x, dy);
  }
}

}  // namespace

TEST_CASE("pooling takes two by two as by hand") {
  const PoolingShape at{
      .batch = 1, .rows = {2, 1, 2, 2, 1, 0}, .columns = {4, 2, 2, 2, 1, 0}, .channels = 1};
  Array<> x{1, 5, 2, 2, 3, 4, 2, 2}, y(2), mean(2), dy{10, 20}, dx(8);
  Array<std::uint8_t> w(2);
  run(MaximumPoolingSpec{.at = at, .winners = true}, x, y, w);
  CHECK(y.values() == std::vector<float>{5, 2});
  CHECK(w.values() == std::vector<std::uint8_t>{1, 0});
  run(MaximumPoolingGradientSpec{at}, w, dy, dx);
  CHECK(dx.values() == std::vector<float>{0, 10, 20, 0, 0, 0, 0, 0});
  run(AveragePoolingSpec{at}, x, mean);
  CHECK(mean.values() == std::vector<float>{3.25f, 2});
}

TEST_CASE("pooling is right for 1 to 17 channels and for more than a tile") {
  for (const std::int64_t channels : {1, 2, 3, 5, 8, 12, 16, 17, 64, 65, 130}) {
    check_pooling({.batch = 2,
                   .rows = {5, 3, 3, 2, 1, 1},
                   .columns = {6, 3, 2, 2, 1, 0},
                   .channels = channels});
  }
}

TEST_CASE("pooling of random shapes is right, padded in any way") {
  std::mt19937 engine(12);
  const auto between = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine() % static_cast<unsigned>(high - low + 1));
  };
  const auto dimension = [&] {
    return WindowDimension{between(0, 9), between(0, 5), between(1, 6),
                           between(1, 3), between(1, 2), between(-3, 6)};
  };
  for (int i = 0; i < 450; ++i) {
    check_pooling({.batch = between(0, 3),
                   .planes = i < 300 ? WindowDimension{} : dimension(),
                   .rows = dimension(),
                   .columns = dimension(),
                   .channels = between(0, 9)});
  }
}

TEST_CASE("bins are right, all of them or some, fewer or more than there are elements") {
  std::mt19937 engine(13);
  const auto between = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine() % static_cast<unsigned>(high - low + 1));
  };
  const auto dimension = [&] {
    const std::int64_t length = between(1, 12), bins = between(1, 12);
    const std::int64_t first = between(0, bins), count = between(0, bins - first);
    // What these bins hold, and perhaps more.
    const std::int64_t begin = std::min(first * length / bins, between(0, length));
    const std::int64_t end =
        std::max({begin, ((first + count) * length + bins - 1) / bins, between(0, length)});
    return WindowDimension{.input = end - begin,
                           .output = count,
                           .window = (length + bins - 1) / bins + 1,
                           .padding = begin,
                           .bins = bins,
                           .length = length,
                           .first_bin = first};
  };
  for (int i = 0; i < 400; ++i) {
    check_pooling({.batch = between(0, 3),
                   .planes = i < 300 ? WindowDimension{} : dimension(),
                   .rows = dimension(),
                   .columns = dimension(),
                   .channels = between(0, 9)});
  }
}

TEST_CASE("pooling of volumes by two is right, and by windows of more than 16 places") {
  const WindowDimension halves{6, 3, 2, 2, 1, 0}, apart{9, 3, 2, 3, 1, -1}, wide{5, 2, 3, 3, 1, 1};
  check_pooling({.batch = 2, .planes = halves, .rows = halves, .columns = halves, .channels = 17});
  check_pooling({.batch = 2, .planes = apart, .rows = halves, .columns = apart, .channels = 8});
  check_pooling({.batch = 1, .planes = wide, .rows = wide, .columns = wide, .channels = 9});
}

TEST_CASE("windows of up to 256 places are counted in bytes and larger ones right too") {
  const PoolingShape bytes{
      .batch = 1, .rows = {20, 2, 16, 3, 1, 0}, .columns = {17, 2, 16, 1, 1, 0}, .channels = 3};
  CHECK(winner_type(bytes) == ElementType::uint8);
  check_pooling(bytes);
  const PoolingShape more{
      .batch = 1, .rows = {20, 2, 17, 3, 1, 0}, .columns = {17, 2, 16, 1, 1, 0}, .channels = 3};
  CHECK(winner_type(more) == ElementType::int32);
  check_pooling(more);
}

TEST_CASE("pooling does not depend on the number of threads") {
  const PoolingShape at{
      .batch = 5, .rows = {40, 20, 3, 2, 1, 1}, .columns = {40, 20, 3, 2, 1, 1}, .channels = 24};
  Array<> x(random_values(input_count(at), 3)), dy(random_values(output_count(at), 4));
  Array<> y(output_count(at)), y3(output_count(at)), dx(input_count(at)), dx3(input_count(at));
  Array<std::uint8_t> w(output_count(at)), w3(output_count(at));
  run_kernel(MaximumPoolingSpec{at, true}, {x.data(), y.data(), w.data()}, 1);
  run_kernel(MaximumPoolingSpec{at, true}, {x.data(), y3.data(), w3.data()}, 3);
  run_kernel(MaximumPoolingGradientSpec{at}, {w.data(), dy.data(), dx.data()}, 1);
  run_kernel(MaximumPoolingGradientSpec{at}, {w3.data(), dy.data(), dx3.data()}, 3);
  CHECK(y.values() == y3.values());
  CHECK(w.values() == w3.values());
  CHECK(dx.values() == dx3.values());
}

}  // namespace meshwork::test::pooling_test
