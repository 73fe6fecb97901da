#include "runtime/device/kernels/draws.h"

#include <cmath>

#include "runtime/device/kernels/step_scalars.h"
#include "runtime/device/philox.h"
#include "tests/runtime/device/support.h"

namespace meshwork::test::draws_test {

namespace {

/// The numbers of a block, by the specification: the word of each, and its distribution function.
void check_draw(const NormalDrawSpec& spec, std::int64_t step) {
  const std::int64_t count = element_count(shape_of(spec.block));
  Array<> y(count);
  Array<StepScalars> scalars({StepScalars{step, 0}});
  run(spec, scalars, y);
  INFO(spec.text());
  std::vector<std::int64_t> index;
  for (const Range& range : spec.block) index.push_back(range.begin);
  for (std::int64_t n = 0; n < count; ++n) {
    std::int64_t flat = 0;
    for (std::size_t d = 0; d < index.size(); ++d) flat = flat * spec.global[d] + index[d];
    const double word =
        philox_word(spec.key, static_cast<std::uint64_t>(flat), static_cast<std::uint64_t>(step));
    const double x =
        (double{y[static_cast<std::size_t>(n)]} - double{spec.mean}) / double{spec.deviation};
    // Of numbers up to 6, rounded to float32.
    REQUIRE(0.5 * std::erfc(-x / std::sqrt(2)) ==
            Approx((word + 0.5) * 0x1p-32).epsilon(1e-5).margin(1e-7));
    for (std::size_t d = index.size(); d-- > 0;) {
      if (++index[d] < spec.block[d].end) break;
      index[d] = spec.block[d].begin;
    }
  }
}

}  // namespace

TEST_CASE("a block of normal numbers is drawn as the same block of the whole tensor is") {
  for (const std::int64_t step : {std::int64_t{0}, std::int64_t{1} << 40}) {
    check_draw({0, 1, 42, {6, 7}, {{0, 6}, {0, 7}}}, step);
    check_draw({1, 0.5f, 42, {6, 7}, {{2, 5}, {0, 7}}}, step);
    check_draw({0, 1, 42, {6, 7}, {{1, 6}, {3, 6}}}, step);
    check_draw({0, 1, 42, {6, 7}, {{3, 3}, {0, 7}}}, step);
    check_draw({0, 1, 7, {5, 3, 4, 6}, {{1, 4}, {2, 3}, {0, 4}, {1, 6}}}, step);
    check_draw({-2, 3, 7, {300}, {{131, 290}}}, step);
    check_draw({0, 1, 7, {}, {}}, step);
  }
}

TEST_CASE("uniform numbers are the upper bits of their words, in [0, 1)") {
  const UniformDrawSpec spec{7, {40, 9}, {{3, 38}, {2, 9}}};
  Array<> y(35 * 7);
  Array<StepScalars> scalars({StepScalars{5, 0}});
  run(spec, scalars, y);
  double sum = 0;
  for (std::size_t i = 0; i < 35 * 7; ++i) {
    const std::uint64_t flat = (3 + i / 7) * 9 + 2 + i % 7;
    REQUIRE(y[i] == static_cast<float>(philox_word(7, flat, 5) >> 8) * 0x1p-24f);
    REQUIRE((y[i] >= 0 && y[i] < 1));
    sum += double{y[i]};
  }
  // Five standard deviations of the mean of 245 numbers.
  CHECK(std::abs(sum / 245 - 0.5) < 5 / std::sqrt(12.0 * 245));
}

TEST_CASE("normal numbers have their mean and their deviation, and differ in each step") {
  constexpr std::int64_t count = 100000;
  Array<> first(count), second(count);
  Array<StepScalars> scalars({StepScalars{0, 0}});
  const NormalDrawSpec spec{1, 2, 5, {count}, {{0, count}}};
  run(spec, scalars, first);
  scalars[0].step = 1;
  run(spec, scalars, second);
  double sum = 0, squares = 0, products = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double a = double{first[i]} - 1, b = double{second[i]} - 1;
    sum += a;
    squares += a * a;
    products += a * b;
  }
  // Of sums of so many of variances 4, 32 and 16, five standard deviations.
  CHECK(std::abs(sum) < 5 * std::sqrt(4.0 * count));
  CHECK(std::abs(squares - 4.0 * count) < 5 * std::sqrt(32.0 * count));
  CHECK(std::abs(products) < 5 * std::sqrt(16.0 * count));
}

TEST_CASE("normal numbers do not depend on the number of threads") {
  const NormalDrawSpec spec{0, 1, 11, {601, 203}, {{0, 601}, {2, 203}}};
  Array<> alone(601 * 201), shared(601 * 201);
  Array<StepScalars> scalars({StepScalars{4, 0}});
  run_kernel(spec, {scalars.data(), alone.data()}, 1);
  run_kernel(spec, {scalars.data(), shared.data()}, 3);
  CHECK(alone.values() == shared.values());
}

TEST_CASE("a block that splits more dimensions than a kernel counts is an error") {
  const Shape global(10, 2);
  const Block block(10, Range{0, 1});
  CHECK_THROWS_WITH(run_kernel(NormalDrawSpec{0, 1, 3, global, block}, {}),
                    Catch::Contains("splits more than 8 dimensions"));
}

}  // namespace meshwork::test::draws_test
