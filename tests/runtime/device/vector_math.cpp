// The float32 functions against those of the C++ library in double, over their whole range.
#include "runtime/device/cpu/vector_math.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "tests/support/catch.h"

namespace meshwork::cpu::vector_math_test {

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr double unit = 1.0 / 8388608.0;  // of the last place, relative

struct Worst {
  double error = 0;
  float at = 0;
};

/// The largest error relative to `truth` (or to `floor`, if that is larger) between `low` and
/// `high`.
template <class Function, class Truth>
Worst worst_error(const Function& f, const Truth& truth, double low, double high,
                  double floor = 0) {
  Worst worst;
  constexpr int steps = 400000;
  for (int i = 0; i <= steps; ++i) {
    const auto x = static_cast<float>(low + (high - low) * i / steps);
    const double expected = truth(static_cast<double>(x));
    const double error =
        std::fabs(static_cast<double>(f(x)) - expected) / std::max(std::fabs(expected), floor);
    if (!(error <= worst.error)) worst = {error, x};
  }
  return worst;
}

}  // namespace

TEST_CASE("exp is accurate to two units in the last place") {
  const auto truth = [](double x) { return std::exp(x); };
  const Worst worst = worst_error(vector_exp, truth, -87, 88.7);
  INFO("at " << worst.at);
  CHECK(worst.error < 2 * unit);
  const Worst worst_to_one = worst_error(vector_exp_to_one, truth, -87, 80);
  INFO("at " << worst_to_one.at);
  CHECK(worst_to_one.error < 2 * unit);
}

TEST_CASE("exp has the limits of exp") {
  CHECK(vector_exp(0.0f) == 1.0f);
  CHECK(vector_exp(infinity) == infinity);
  CHECK(vector_exp(89.0f) == infinity);
  CHECK(vector_exp(-infinity) == 0.0f);
  CHECK(vector_exp(-200.0f) == 0.0f);
  CHECK(std::isnan(vector_exp(nan)));
  CHECK(vector_exp_to_one(0.0f) == 1.0f);
  CHECK(vector_exp_to_one(-87.01f) == 0.0f);
  CHECK(vector_exp_to_one(-1e30f) == 0.0f);
  CHECK(vector_exp_to_one(-infinity) == 0.0f);
  CHECK(std::isnan(vector_exp_to_one(nan)));
  for (const std::uint32_t bits : {0xffffffffU, 0x7fffffffU}) {
    CHECK(std::isnan(vector_exp_to_one(std::bit_cast<float>(bits))));
  }
}

TEST_CASE("powers of two are accurate to two units in the last place") {
  const auto truth = [](double x) { return std::exp2(x); };
  const Worst worst = worst_error(vector_exp2_to_one, truth, -126, 127);
  INFO("at " << worst.at);
  CHECK(worst.error < 2 * unit);
}

TEST_CASE("powers of two have the limits of 2^x") {
  CHECK(vector_exp2_to_one(0.0f) == 1.0f);
  CHECK(vector_exp2_to_one(127.0f) == 0x1p127f);
  CHECK(vector_exp2_to_one(-126.01f) == 0.0f);
  CHECK(vector_exp2_to_one(-1e9f) == 0.0f);
  CHECK(vector_exp2_to_one(-infinity) == 0.0f);
  for (const std::uint32_t bits : {0xffffffffU, 0x7fffffffU}) {
    CHECK(std::isnan(vector_exp2_to_one(std::bit_cast<float>(bits))));
  }
}

TEST_CASE("log is accurate to two units in the last place") {
  const auto truth = [](double x) { return std::log(x); };
  CHECK(worst_error(vector_log, truth, 1e-7, 0.5).error < 2 * unit);
  CHECK(worst_error(vector_log, truth, 0.5, 2, 1e-6).error < 2 * unit);
  CHECK(worst_error(vector_log, truth, 2, 1e9).error < 2 * unit);
  CHECK(worst_error(vector_log, truth, 1.2e-38, 1e-30).error < 2 * unit);
}

TEST_CASE("log has the limits of log") {
  CHECK(vector_log(1.0f) == 0.0f);
  CHECK(vector_log(0.0f) == -infinity);
  CHECK(vector_log(infinity) == infinity);
  CHECK(std::isnan(vector_log(-1.0f)));
  CHECK(std::isnan(vector_log(nan)));
}

TEST_CASE("log1p is relatively accurate also for tiny arguments") {
  const auto truth = [](double x) { return std::log1p(x); };
  CHECK(worst_error(vector_log1p, truth, 1e-12, 1e-6).error < 4 * unit);
  CHECK(worst_error(vector_log1p, truth, 1e-6, 1).error < 4 * unit);
  CHECK(vector_log1p(0.0f) == 0.0f);
  CHECK(std::isnan(vector_log1p(nan)));
}

TEST_CASE("sigmoid is relatively accurate and does not overflow") {
  const auto truth = [](double x) { return 1 / (1 + std::exp(-x)); };
  CHECK(worst_error(vector_sigmoid, truth, -80, 80).error < 4 * unit);
  CHECK(vector_sigmoid(1000.0f) == 1.0f);
  CHECK(vector_sigmoid(-1000.0f) == 0.0f);
  CHECK(vector_sigmoid(-86.9f) > 0.0f);
  CHECK(vector_sigmoid(-87.1f) == 0.0f);
  CHECK(std::isnan(vector_sigmoid(nan)));
}

TEST_CASE("tanh is relatively accurate") {
  const auto truth = [](double x) { return std::tanh(x); };
  CHECK(worst_error(vector_tanh, truth, -12, 12, 1e-30).error < 4 * unit);
  CHECK(worst_error(vector_tanh, truth, -1e-3, 1e-3, 1e-30).error < 4 * unit);
  for (const float x : {39.9f, 40.1f, 45.0f, 100.0f, 1e30f}) {
    CHECK(vector_tanh(x) == 1.0f);
    CHECK(vector_tanh(-x) == -1.0f);
  }
  CHECK(vector_tanh(infinity) == 1.0f);
  CHECK(vector_tanh(-infinity) == -1.0f);
  CHECK(std::isnan(vector_tanh(nan)));
}

TEST_CASE("the normal distribution function is relatively accurate, in its tail too") {
  const auto truth = [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); };
  CHECK(worst_error(vector_normal_cdf, truth, -1, 8).error < 4 * unit);
  // x itself is rounded before it is squared: x / sqrt(2) to half a unit is x^2 / 2 units of the
  // result, 50 at x = -10.
  CHECK(worst_error(vector_normal_cdf, truth, -5, -1).error < 16 * unit);
  CHECK(worst_error(vector_normal_cdf, truth, -12, -5).error < 100 * unit);
  CHECK(vector_normal_cdf(infinity) == 1.0f);
  CHECK(vector_normal_cdf(-infinity) == 0.0f);
  CHECK(std::isnan(vector_normal_cdf(nan)));
}

}  // namespace meshwork::cpu::vector_math_test
