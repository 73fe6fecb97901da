#include <limits>

#include "runtime/device/kernels/norms.h"
#include "tests/runtime/device/support.h"

namespace meshwork::test::norms_test {

TEST_CASE("sums of magnitudes and of squares are exact to double") {
  for (const std::int64_t count : {0, 1, 15, 17, 1000, 70001}) {
    const std::vector<float> values = random_values(count, 1, -3, 3);
    double magnitudes = 0, squares = 0;
    for (const float value : values) {
      magnitudes += std::fabs(static_cast<double>(value));
      squares += static_cast<double>(value) * static_cast<double>(value);
    }
    Array<> x(values);
    Array<double> s(1);
    run(PowerSumSpec{count, 1}, x, s);
    check_close(s, {magnitudes}, 1e-12);
    run(PowerSumSpec{count, 2}, x, s);
    check_close(s, {squares}, 1e-12);
    Array<double> shared(1);
    run_kernel(PowerSumSpec{count, 2}, {x.data(), shared.data()}, 3);
    CHECK(s[0] == shared[0]);
  }
  CHECK_THROWS_WITH(run_kernel(PowerSumSpec{3, 3}, {}), Catch::Contains("a sum of powers 3"));
}

TEST_CASE("a weighted sum of scalars is their dot product") {
  Array<double> x{1, 2, 3}, s(1), none(0);
  run(WeightedSumSpec{{0.5, -1, 2}}, x, s);
  CHECK(s[0] == 4.5);
  run(WeightedSumSpec{{}}, none, s);
  CHECK(s[0] == 0);
}

TEST_CASE("the factor of clipping follows its two formulas") {
  const auto factor = [](float clip, bool global, double squared_norm) {
    Array<double> s{squared_norm};
    Array<> f(1);
    run(ClipFactorSpec{clip, global}, s, f);
    return f[0];
  };
  for (const bool global : {false, true}) {
    CHECK(factor(1, global, 25) == 0.2f);  // norm 5, clipped to 1
    CHECK(factor(2, global, 25) == 0.4f);
    CHECK(factor(10, global, 25) == 1.0f);  // not clipped
    CHECK(factor(1, global, 0) == 1.0f);
    CHECK(std::isnan(factor(1, global, std::numeric_limits<double>::quiet_NaN())));
  }
}

TEST_CASE("the diagonal of a matrix becomes 0") {
  Array<> x{1, 2, 3, 4, 5, 6, 7, 8, 9};
  run(ZeroDiagonalSpec{3}, x);
  CHECK(x.values() == std::vector<float>{0, 2, 3, 4, 0, 6, 7, 8, 0});
}

TEST_CASE("norms are brought the given share of the way into their interval") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Array<double> s{0, 1, 9, 25, nan};
  Array<> f(5);
  run(NormLimitsSpec{.count = 5, .minimum = 2, .maximum = 4}, s, f);
  check_close(Array<>{f[0], f[1], f[2], f[3]}, {2 / 1e-7, 2 / (1 + 1e-7), 1, 0.8}, 1e-6);
  CHECK(std::isnan(f[4]));
  run(NormLimitsSpec{.count = 4, .minimum = 0, .maximum = 4, .rate = 0.25}, s, f);
  check_close(Array<>{f[0], f[1], f[2], f[3]}, {0, 1, 1, (0.25 * 4 + 0.75 * 5) / 5}, 1e-6);
}

TEST_CASE("the ratio of two norms is 1 where either is 0") {
  const auto ratio = [](double above, double below) {
    Array<double> of_above{above}, of_below{below};
    Array<> f(1);
    run(NormRatioSpec{}, of_above, of_below, f);
    return f[0];
  };
  CHECK(ratio(4, 25) == 0.4f);
  CHECK(ratio(0, 25) == 1.0f);
  CHECK(ratio(4, 0) == 1.0f);
  CHECK(std::isnan(ratio(std::numeric_limits<double>::quiet_NaN(), 4)));
}

}  // namespace meshwork::test::norms_test
