#include "runtime/device/kernels/pairs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/runtime/device/support.h"

namespace meshwork::test::pairs_test {

namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

constexpr PairFunction functions[] = {PairFunction::product, PairFunction::difference,
                                      PairFunction::maximum, PairFunction::minimum};

float reference(PairFunction function, float a, float b) {
  switch (function) {
    case PairFunction::product:
      return a * b;
    case PairFunction::difference:
      return a - b;
    case PairFunction::maximum:
      return std::max(a, b);
    case PairFunction::minimum:
      break;
  }
  return std::min(a, b);
}

}  // namespace

TEST_CASE("functions of pairs are those of their names, also in place") {
  for (const PairFunction function : functions) {
    INFO(name_of(function));
    for (const std::int64_t count : odd_sizes) {
      const std::vector<float> as = random_values(count, 1), bs = random_values(count, 2);
      Array<> a(as), b(bs), y(count);
      run(PairSpec{function, count}, a, b, y);
      std::vector<float> expected;
      for (std::size_t i = 0; i < as.size(); ++i) {
        expected.push_back(reference(function, as[i], bs[i]));
      }
      CHECK(y.values() == expected);
      run_kernel(PairSpec{function, count}, {a.data(), b.data(), b.data()});
      CHECK(b.values() == expected);
    }
  }
}

TEST_CASE("functions of pairs let a NaN of either through") {
  for (const PairFunction function : functions) {
    Array<> a{nan, 1}, b{1, nan}, y(2);
    run(PairSpec{function, 2}, a, b, y);
    CHECK(std::isnan(y[0]));
    CHECK(std::isnan(y[1]));
  }
}

TEST_CASE("the one that was taken gets the gradient, the first of equal ones") {
  Array<> a{1, 5, 3}, b{2, 4, 3}, dy{10, 20, 30}, dx(3);
  const auto gradient = [&](PairFunction function, bool first) {
    run(PairGradientSpec{function, first, 3}, a, b, dy, dx);
    return dx.values();
  };
  CHECK(gradient(PairFunction::maximum, true) == std::vector<float>{0, 20, 30});
  CHECK(gradient(PairFunction::maximum, false) == std::vector<float>{10, 0, 0});
  CHECK(gradient(PairFunction::minimum, true) == std::vector<float>{10, 0, 30});
  CHECK(gradient(PairFunction::minimum, false) == std::vector<float>{0, 20, 0});
  CHECK_THROWS_WITH(run_kernel(PairGradientSpec{PairFunction::product, true, 3}, {}),
                    Catch::Contains("chooses no element"));
}

TEST_CASE("a slope for each column multiplies what is not positive, and its gradient likewise") {
  Array<> x{1, -2, 3, -4, 0, 6}, slope{0.5f, 2, -1}, dy{1, 2, 3, 4, 5, 6}, y(6), dx(6), t(6);
  run(SlopeSpec{2, 3}, x, slope, y);
  CHECK(y.values() == std::vector<float>{1, -4, 3, -2, 0, 6});
  run(SlopeGradientSpec{2, 3}, x, slope, dy, dx);
  CHECK(dx.values() == std::vector<float>{1, 4, 3, 2, 10, 6});
  run(SlopeTermSpec{6}, x, dy, t);
  CHECK(t.values() == std::vector<float>{0, -4, 0, -16, 0, 0});
}

TEST_CASE("columns are multiplied by their factors, also in place") {
  for (const std::int64_t columns : odd_sizes) {
    const std::vector<float> values = random_values(5 * columns, 1);
    const std::vector<float> factors = random_values(columns, 2);
    Array<> x(values), factor(factors), y(5 * columns);
    run(ColumnScaleSpec{5, columns}, x, factor, y);
    std::vector<float> expected;
    for (std::size_t i = 0; i < values.size(); ++i) {
      expected.push_back(values[i] * factors[i % factors.size()]);
    }
    CHECK(y.values() == expected);
    run_kernel(ColumnScaleSpec{5, columns}, {x.data(), factor.data(), x.data()});
    CHECK(x.values() == expected);
  }
}

}  // namespace meshwork::test::pairs_test
