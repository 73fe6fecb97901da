#include "runtime/device/kernels/circle.h"

#include <cmath>
#include <limits>

#include "tests/runtime/device/support.h"

namespace meshwork::test::circle_test {

namespace {

constexpr CircleFunction function{.gamma = 3, .margin = 0.25f, .remove_diagonal = true};

/// What a pair of cosine s adds, in double.
double pair_of(double s, bool attracts) {
  const double d = std::max(1 - s, 0.0), margin = 0.25;
  return attracts ? -3 * std::max(margin + d, 0.0) * (margin - d)
                  : 3 * std::max(1 + margin - d, 0.0) * (1 - margin - d);
}

}  // namespace

TEST_CASE("pairs of samples are summed, and their slopes are those of differences") {
  for (const std::int64_t samples : {1, 2, 7, 33}) {
    const auto count = static_cast<std::size_t>(samples);
    const std::vector<float> cosines = random_values(samples * samples, 1);
    std::vector<std::int32_t> numbers;
    for (std::int64_t i = 0; i < samples; ++i) {
      numbers.push_back(static_cast<std::int32_t>(i * i % 3 - 1));
    }
    const auto sums_of = [&](std::size_t i, const auto& s) {
      std::array<double, 2> sums{};
      for (std::size_t j = 0; j < count; ++j) {
        const bool attracts = numbers[i] == numbers[j];
        if (i != j) sums[attracts ? 0 : 1] += std::exp(pair_of(s(j), attracts));
      }
      return std::array{std::log(sums[0]), std::log(sums[1])};
    };
    const auto loss_of = [](const std::array<double, 2>& sums) {
      return std::log1p(std::exp(sums[0] + sums[1]));
    };
    std::vector<double> expected, slopes;
    double total = 0, above = 0;
    const std::vector<float> weights = random_values(samples, 2, 0, 2);
    for (std::size_t i = 0; i < count; ++i) {
      const auto own = [&](std::size_t j) { return static_cast<double>(cosines[i * count + j]); };
      const std::array<double, 2> sums = sums_of(i, own);
      expected.insert(expected.end(), sums.begin(), sums.end());
      if (loss_of(sums) > 0) above += 1;
      total += loss_of(sums) * static_cast<double>(weights[i]);
      for (std::size_t j = 0; j < count; ++j) {
        const auto moved = [&](double by) {
          return loss_of(sums_of(i, [&](std::size_t k) { return own(k) + (k == j ? by : 0); }));
        };
        slopes.push_back(static_cast<double>(weights[i]) * (moved(1e-4) - moved(-1e-4)) / 2e-4);
      }
    }
    Array<> s(cosines), sums(2 * samples), w(weights), share(1);
    Array<std::int32_t> labels(numbers);
    Array<double> loss(1);
    run(CircleSumsSpec{samples, function}, s, labels, sums);
    check_close(sums, expected, 1e-5, 1e-5);
    run(CircleLossSpec{samples, true}, sums, w, share, loss);
    CHECK(share[0] == Approx(above > 0 ? 1 / above : 0));
    CHECK(loss[0] ==
          Approx(above > 0 ? total * static_cast<double>(samples) / above : 0).epsilon(1e-5));
    run(CircleGradientSpec{samples, function, 2, true}, labels, sums, w, share, s);
    for (double& slope : slopes) slope *= above > 0 ? 2 / above : 0;
    // Differences are off by a square of their step.
    check_close(s, slopes, 1e-4, 1e-4);
  }
}

TEST_CASE("a sample without one kind of pair has no loss, and a NaN stays one") {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  Array<> s{1, 0.5f, 0.5f, 1}, sums(4), share(1), broken{1, nan, nan, 1};
  Array<std::int32_t> labels{4, 5};
  Array<double> loss(1);
  run(CircleSumsSpec{2, function}, s, labels, sums);
  CHECK(sums[0] == -std::numeric_limits<float>::infinity());
  run(CircleLossSpec{2}, sums, share, loss);
  CHECK(loss[0] == 0);
  run(CircleGradientSpec{2, function}, labels, sums, share, s);
  CHECK(s.values() == std::vector<float>{0, 0, 0, 0});
  Array<std::int32_t> two_labels{4, 4};
  run(CircleSumsSpec{2, CircleFunction{.remove_diagonal = false}}, broken, two_labels, sums);
  CHECK(std::isnan(sums[0]));
}

}  // namespace meshwork::test::circle_test
