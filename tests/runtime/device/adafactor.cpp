#include "runtime/device/kernels/adafactor.h"

#include <cmath>
#include <limits>

#include "tests/runtime/device/support.h"

namespace meshwork::test::adafactor_test {

namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("adafactor follows the mean of squares, and leaves the gradient that it took") {
  for (const std::int64_t count : {0, 1, 65, 1000}) {
    const std::vector<float> gradient = random_values(count, 1), values = random_values(count, 2);
    const std::vector<float> square = random_values(count, 3, 0, 1);
    Array<> factor{0.5f}, g(gradient), w(values), v(square);
    Array<StepScalars> scalars({StepScalars{2, 0.25f}});
    run(AdafactorSpec{.count = count, .epsilon = 0.125, .decay = 0.05f, .scaled = true}, scalars,
        factor, g, w, v);
    const double fresh = std::pow(3.0, -0.8);
    std::vector<double> halves, decayed, squares;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      halves.push_back(0.5 * static_cast<double>(gradient[i]));
      decayed.push_back(static_cast<double>(values[i]) * (1 - 0.05 * 0.25));
      squares.push_back((1 - fresh) * static_cast<double>(square[i]) +
                        fresh * (halves[i] * halves[i] + 0.125));
    }
    check_close(g, halves, 0);
    check_close(w, decayed, 1e-6);
    check_close(v, squares, 1e-6);
  }
}

TEST_CASE("two vectors of each matrix make it") {
  constexpr std::int64_t outer = 3, rows = 5, columns = 17;
  const std::vector<float> r = random_values(outer * rows, 1),
                           c = random_values(outer * columns, 2);
  const std::vector<float> m = random_values(outer, 3, 0.5f, 2);
  Array<> v(outer * rows * columns);
  Array<> of_rows(r), of_columns(c), of_all(m), none(0);
  run(OuterProductSpec{outer, rows, columns}, of_rows, of_columns, of_all, v);
  std::vector<double> expected;
  for (std::int64_t row = 0; row < outer * rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      const auto matrix = static_cast<std::size_t>(row / rows);
      expected.push_back(
          static_cast<double>(r[static_cast<std::size_t>(row)]) / static_cast<double>(m[matrix]) *
          static_cast<double>(c[matrix * columns + static_cast<std::size_t>(column)]));
    }
  }
  check_close(v, expected, 1e-6);
  run(OuterProductSpec{2, 0, columns}, none, of_columns, of_all, none);
}

TEST_CASE("a gradient is divided by the root of its mean square, but 0 by nothing") {
  Array<> v{4, 0.25f, 0, 0, nan, 1}, g{1, -3, 0, 2, 1, nan};
  run(RootQuotientSpec{6}, v, g);
  CHECK(g[0] == 0.5f);
  CHECK(g[1] == -6);
  CHECK(g[2] == 0);
  CHECK(g[3] == std::numeric_limits<float>::infinity());
  CHECK(std::isnan(g[4]));
  CHECK(std::isnan(g[5]));
}

TEST_CASE("steps are as large as variables, at least so large, and held to a threshold") {
  const auto factor_of = [](double values, double step) {
    Array<double> of_values{values}, of_step{step};
    Array<> factor(1);
    run(RelativeSizeSpec{.count = 4, .least = 0.5, .threshold = 2}, of_values, of_step, factor);
    return factor[0];
  };
  CHECK(factor_of(36, 4) == 3);      // rms 3, and a step of rms 1
  CHECK(factor_of(0, 4) == 0.5f);    // the least
  CHECK(factor_of(36, 64) == 1.5f);  // a step of rms 4, twice the threshold
  CHECK(std::isnan(factor_of(36, std::numeric_limits<double>::quiet_NaN())));
}

TEST_CASE("a rate that slows is 1 / sqrt(t) at most") {
  for (const auto& [step, rate] : {std::pair<std::int64_t, float>{0, 0.25f}, {24, 0.2f}}) {
    Array<> g{1}, w{0};
    Array<StepScalars> scalars({StepScalars{step, 0.25f}});
    run(SlowingSpec{.count = 1}, scalars, g, w);
    CHECK(w[0] == -rate);
  }
}

}  // namespace meshwork::test::adafactor_test
