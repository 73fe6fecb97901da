#include <limits>

#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/step_scalars.h"
#include "runtime/device/philox.h"
#include "tests/runtime/device/support.h"

namespace meshwork::test::dropout_test {

namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// The block of a global tensor of ones after dropout, by the specification, element by element.
std::vector<double> reference(const DropoutSpec& spec, std::int64_t step) {
  std::vector<std::int64_t> index;
  for (const Range& range : spec.block) index.push_back(range.begin);
  std::vector<double> y;
  const std::int64_t count = element_count(shape_of(spec.block));
  for (std::int64_t n = 0; n < count; ++n) {
    std::int64_t flat = 0;
    for (std::size_t d = 0; d < index.size(); ++d) flat = flat * spec.global[d] + index[d];
    const std::uint32_t word =
        philox_word(spec.key, static_cast<std::uint64_t>(flat), static_cast<std::uint64_t>(step));
    const bool kept = static_cast<double>(word) >= static_cast<double>(spec.rate) * 4294967296.0;
    y.push_back(kept ? 1 / (1 - static_cast<double>(spec.rate)) : 0);
    for (std::size_t d = index.size(); d-- > 0;) {
      if (++index[d] < spec.block[d].end) break;
      index[d] = spec.block[d].begin;
    }
  }
  return y;
}

void check_dropout(const DropoutSpec& spec, std::int64_t step) {
  const std::int64_t count = element_count(shape_of(spec.block));
  Array<> x(std::vector<float>(static_cast<std::size_t>(count), 1)), y(count);
  Array<StepScalars> scalars({StepScalars{step, 0}});
  run(spec, x, scalars, y);
  INFO(spec.text());
  check_close(y, reference(spec, step), 2e-7);
}

}  // namespace

TEST_CASE("a block is dropped as the same block of the whole tensor is") {
  for (const float rate : {0.0f, 0.1f, 0.4f, 0.999f, 1.0f}) {
    for (const std::int64_t step : {std::int64_t{0}, std::int64_t{1}, std::int64_t{1} << 40}) {
      check_dropout({rate, 42, {6, 7}, {{0, 6}, {0, 7}}}, step);
      check_dropout({rate, 42, {6, 7}, {{2, 5}, {0, 7}}}, step);
      check_dropout({rate, 42, {6, 7}, {{1, 6}, {3, 6}}}, step);
      check_dropout({rate, 42, {6, 7}, {{3, 3}, {0, 7}}}, step);
      check_dropout({rate, 42, {6, 7}, {{0, 6}, {7, 7}}}, step);
      check_dropout({rate, 7, {5, 3, 4, 6}, {{1, 4}, {0, 3}, {1, 3}, {0, 6}}}, step);
      check_dropout({rate, 7, {5, 3, 4, 6}, {{1, 4}, {2, 3}, {0, 4}, {1, 6}}}, step);
      check_dropout({rate, 7, {300}, {{131, 290}}}, step);
      check_dropout({rate, 7, {}, {}}, step);
    }
  }
}

TEST_CASE("global indices beyond 32 bits are told apart") {
  check_dropout({0.5f,
                 3,
                 {std::int64_t{1} << 33, 5},
                 {{(std::int64_t{1} << 33) - 20, std::int64_t{1} << 33}, {1, 4}}},
                9);
}

TEST_CASE("dropout may be in place and drops a NaN") {
  const DropoutSpec spec{0.5f, 1, {100}, {{0, 100}}};
  Array<StepScalars> scalars({StepScalars{0, 0}});
  Array<> x(std::vector<float>(100, nan));
  run_kernel(spec, {x.data(), scalars.data(), x.data()});
  const std::vector<double> mask = reference(spec, 0);
  for (std::size_t i = 0; i < 100; ++i) CHECK(std::isnan(x[i]) == (mask[i] != 0));
}

TEST_CASE("about the rate is dropped, and differently in each step") {
  const std::int64_t count = 100000;
  Array<> x(std::vector<float>(count, 1)), first(count), second(count);
  Array<StepScalars> scalars({StepScalars{0, 0}});
  run(DropoutSpec{0.3f, 5, {count}, {{0, count}}}, x, scalars, first);
  scalars[0].step = 1;
  run(DropoutSpec{0.3f, 5, {count}, {{0, count}}}, x, scalars, second);
  std::int64_t dropped = 0, both = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    dropped += first[i] == 0 ? 1 : 0;
    both += first[i] == 0 && second[i] == 0 ? 1 : 0;
  }
  // Means 30 000 and 9 000 with standard deviations of 145 and 90; six of them.
  CHECK(std::abs(dropped - 30000) < 870);
  CHECK(std::abs(both - 9000) < 540);
}

TEST_CASE("dropout does not depend on the number of threads") {
  const DropoutSpec rows{0.4f, 11, {601, 203}, {{0, 601}, {2, 203}}};
  const DropoutSpec flat{0.4f, 11, {100003}, {{1, 100003}}};
  for (const DropoutSpec& spec : {rows, flat}) {
    const std::int64_t count = element_count(shape_of(spec.block));
    Array<> x(random_values(count, 1)), alone(count), shared(count);
    Array<StepScalars> scalars({StepScalars{4, 0}});
    run_kernel(spec, {x.data(), scalars.data(), alone.data()}, 1);
    run_kernel(spec, {x.data(), scalars.data(), shared.data()}, 3);
    CHECK(alone.values() == shared.values());
  }
}

TEST_CASE("a rate outside 0 to 1 is an error") {
  CHECK_THROWS_WITH(run_kernel(DropoutSpec{1.5f, 0, {2}, {{0, 2}}}, {}),
                    Catch::Contains("the rate is 1.5"));
  CHECK_THROWS_WITH(run_kernel(DropoutSpec{nan, 0, {2}, {{0, 2}}}, {}),
                    Catch::Contains("the rate is"));
}

}  // namespace meshwork::test::dropout_test
