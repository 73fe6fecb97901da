#include <limits>

#include "runtime/device/kernels/middle.h"
#include "tests/runtime/device/support.h"

namespace meshwork::test::middle_test {

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// f(offset in (outer, middle, inner), offset in (outer, inner)) for every element.
template <class Function>
void for_elements(std::int64_t outer, std::int64_t middle, std::int64_t inner, const Function& f) {
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t i = 0; i < middle; ++i) {
      for (std::int64_t j = 0; j < inner; ++j) {
        f(static_cast<std::size_t>((o * middle + i) * inner + j),
          static_cast<std::size_t>(o * inner + j));
      }
    }
  }
}

bool same(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

void check_sums(std::int64_t outer, std::int64_t middle, std::int64_t inner) {
  const float scale = 0.125f;
  const std::vector<float> values = random_values(outer * middle * inner, 1);
  const std::vector<float> gradient = random_values(outer * inner, 2);
  std::vector<double> sums(gradient.size()), broadcast(values.size()), scaled(values.size());
  for_elements(outer, middle, inner, [&](std::size_t whole, std::size_t reduced) {
    sums[reduced] += 0.125 * static_cast<double>(values[whole]);
    broadcast[whole] = 0.125 * static_cast<double>(gradient[reduced]);
    scaled[whole] = static_cast<double>(values[whole]) * static_cast<double>(gradient[reduced]);
  });
  Array<> x(values), y(outer * inner), dy(gradient), dx(outer * middle * inner);
  run(MiddleSumSpec{outer, middle, inner, scale}, x, y);
  check_close(y, sums, 1e-7, 1e-12);  // summed in double, rounded once
  std::vector<double> squares(gradient.size());
  for_elements(outer, middle, inner, [&](std::size_t whole, std::size_t reduced) {
    squares[reduced] += static_cast<double>(values[whole]) * static_cast<double>(values[whole]);
  });
  Array<double> s(outer * inner);
  run(MiddleSquaresSpec{outer, middle, inner}, x, s);
  check_close(s, squares, 1e-12);
  run(MiddleBroadcastSpec{outer, middle, inner, scale}, dy, dx);
  check_close(dx, broadcast, 1e-7);
  run(MiddleScaleSpec{outer, middle, inner}, x, dy, dx);
  check_close(dx, scaled, 1e-7);
}

void check_maxima(std::int64_t outer, std::int64_t middle, std::int64_t inner) {
  // Few different values, so that there are ties; here and there nothing but -infinity, or a NaN.
  std::vector<float> values = random_values(outer * middle * inner, 3);
  const std::vector<float> gradient = random_values(outer * inner, 4);
  for_elements(outer, middle, inner, [&](std::size_t whole, std::size_t reduced) {
    values[whole] = reduced % 11 == 3 ? -infinity : std::round(2 * values[whole]);
    if (whole % 37 == 20) values[whole] = nan;
  });
  std::vector<double> maxima(gradient.size(), -infinity), ties(gradient.size()),
      shares(values.size());
  for_elements(outer, middle, inner, [&](std::size_t whole, std::size_t reduced) {
    const double value = static_cast<double>(values[whole]);
    if (value > maxima[reduced] || std::isnan(value)) maxima[reduced] = value;
  });
  for_elements(outer, middle, inner, [&](std::size_t whole, std::size_t reduced) {
    ties[reduced] += same(static_cast<double>(values[whole]), maxima[reduced]) ? 1 : 0;
  });
  for_elements(outer, middle, inner, [&](std::size_t whole, std::size_t reduced) {
    if (same(static_cast<double>(values[whole]), maxima[reduced])) {
      shares[whole] = static_cast<double>(gradient[reduced]) / ties[reduced];
    }
  });
  Array<> x(values), m(outer * inner), t(outer * inner), dy(gradient), dx(outer * middle * inner);
  run(MiddleMaximumSpec{outer, middle, inner}, x, m);
  check_close(m, maxima, 0);
  run(MiddleTiesSpec{outer, middle, inner}, x, m, t);
  check_close(t, ties, 0);
  run(MiddleMaximumGradientSpec{outer, middle, inner}, x, m, t, dy, dx);
  check_close(dx, shares, 1e-7);
}

}  // namespace

TEST_CASE("sums over a middle dimension and their gradients are right for odd sizes") {
  for (const std::int64_t outer : {0, 1, 3}) {
    for (const std::int64_t middle : {0, 1, 7, 49}) {
      for (const std::int64_t inner : odd_sizes) check_sums(outer, middle, inner);
    }
  }
}

TEST_CASE("maxima over a middle dimension share their gradient among ties") {
  for (const std::int64_t outer : {0, 1, 3}) {
    for (const std::int64_t middle : {0, 1, 7, 49}) {
      for (const std::int64_t inner : odd_sizes) check_maxima(outer, middle, inner);
    }
  }
}

TEST_CASE("ties with a maximum of other ranks count and share what those say") {
  // Another rank holds a 5 as well: two here, three in all.
  Array<> x{5, 1, 5}, m{5}, t(1), all{3}, dy{6}, dx(3);
  run(MiddleTiesSpec{1, 3, 1}, x, m, t);
  CHECK(t.values() == std::vector<float>{2});
  run(MiddleMaximumGradientSpec{1, 3, 1}, x, m, all, dy, dx);
  CHECK(dx.values() == std::vector<float>{2, 0, 2});
}

TEST_CASE("reductions over a middle dimension do not depend on the number of threads") {
  Array<> x(random_values(64 * 100 * 33, 5)), y(64 * 33), y3(64 * 33);
  run_kernel(MiddleSumSpec{64, 100, 33, 0.01f}, {x.data(), y.data()}, 1);
  run_kernel(MiddleSumSpec{64, 100, 33, 0.01f}, {x.data(), y3.data()}, 3);
  CHECK(y.values() == y3.values());
}

}  // namespace meshwork::test::middle_test
