#include "runtime/device/kernels/generalized_crossentropy.h"

#include <cmath>

#include "tests/runtime/device/support.h"

namespace meshwork::test::generalized_crossentropy_test {

TEST_CASE("generalized cross-entropy is its formula, and its slope is at the class alone") {
  constexpr double q = 0.7, scale = 0.5;
  for (const std::int64_t rows : {0, 1, 6, 1000}) {
    constexpr std::int64_t columns = 5, first = 3;
    const std::vector<float> values = random_values(rows, 1, 0.05f, 1);
    const std::vector<float> weights = random_values((rows + 1) / 2, 2, 0, 2);
    std::vector<std::int32_t> numbers;
    std::vector<double> slopes(static_cast<std::size_t>(rows * columns));
    double sum = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      // Some classes are other ranks' columns.
      const std::int64_t number = row * 7 % 11 - (row % 13 == 12 ? 20 : 0);  // or no class
      const auto at = static_cast<std::size_t>(row);
      const double v = static_cast<double>(values[at]);
      const double weight = static_cast<double>(weights[at / 2]);
      numbers.push_back(static_cast<std::int32_t>(number));
      sum += number < 0 ? 0 : weight * (1 - std::pow(v, q)) / q;
      if (number >= first && number < first + columns) {
        slopes[static_cast<std::size_t>(row * columns + number - first)] =
            -scale * weight * std::pow(v, q - 1);
      }
    }
    Array<> v(values), w(weights), dp(rows * columns);
    Array<std::int32_t> classes(numbers);
    Array<double> loss(1);
    run(GeneralizedCrossentropySpec{rows, 11, q, 2}, classes, v, w, loss);
    CHECK(loss[0] == Approx(sum).epsilon(1e-9));
    run(GeneralizedCrossentropyGradientSpec{rows, columns, first, q, static_cast<float>(scale), 2},
        classes, v, w, dp);
    check_close(dp, slopes, 1e-6);
  }
}

TEST_CASE("at a probability of 0 the slope is steep, and a number") {
  for (const double q : {0.01, 0.5, 0.99}) {
    Array<> v{0, 0.5f}, dp(4);
    Array<std::int32_t> classes{1, 0};
    Array<double> loss(1);
    run(GeneralizedCrossentropySpec{2, 2, q}, classes, v, loss);
    CHECK(loss[0] == Approx((2 - std::pow(0.5, q)) / q));
    run(GeneralizedCrossentropyGradientSpec{2, 2, 0, q, 1}, classes, v, dp);
    CHECK(std::isfinite(dp[1]));
    CHECK(dp[1] < dp[2]);
    CHECK(dp[1] * 0 == 0);  // as softmax multiplies it
    check_close(std::vector<float>{dp[0], dp[2], dp[3]}, {0, -std::pow(0.5, q - 1), 0}, 1e-6);
  }
}

}  // namespace meshwork::test::generalized_crossentropy_test
