#include <algorithm>
#include <limits>

#include "runtime/device/kernel_spec.h"
#include "runtime/device/kernels/losses.h"
#include "tests/runtime/device/support.h"

namespace meshwork::test::losses_test {

namespace {

constexpr std::int64_t shared_count = 200003;

/// scale * sum of f(p, t).
template <class Function>
double total(const std::vector<float>& p, const std::vector<float>& t, double scale,
             const Function& f) {
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    sum += f(static_cast<double>(p[i]), static_cast<double>(t[i]));
  }
  return scale * sum;
}

template <class Function>
std::vector<double> slopes(const std::vector<float>& p, const std::vector<float>& t, double scale,
                           const Function& f) {
  std::vector<double> all;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double target = static_cast<double>(t[i]);
    all.push_back(scale *
                  slope([&](double at) { return f(at, target); }, static_cast<double>(p[i])));
  }
  return all;
}

double binary(double p, double t, double smoothing) {
  const double q = std::clamp(p, 1e-7, 1 - 1e-7), weight = t * (1 - smoothing) + smoothing / 2;
  return -(weight * std::log(q) + (1 - weight) * std::log(1 - q));
}

double binary_of_logit(double x, double t, double smoothing) {
  const double weight = t * (1 - smoothing) + smoothing / 2;
  return std::max(x, 0.0) - x * weight + std::log1p(std::exp(-std::fabs(x)));
}

}  // namespace

TEST_CASE("squared error and its gradient are those of the formula") {
  const auto formula = [](double p, double t) { return (p - t) * (p - t); };
  for (const std::int64_t count : odd_sizes) {
    const std::vector<float> p = random_values(count, 1), t = random_values(count, 2);
    Array<> prediction(p), target(t), dp(count);
    Array<double> loss(1);
    run(SquaredErrorSpec{count, 0.125}, prediction, target, loss);
    check_close(loss, {total(p, t, 0.125, formula)}, 1e-12, 1e-15);
    run(SquaredErrorGradientSpec{count, 0.125f}, prediction, target, dp);
    check_close(dp, slopes(p, t, 0.125, formula), 1e-6, 1e-9);
  }
}

TEST_CASE("absolute error is that of the formula") {
  for (const std::int64_t count : odd_sizes) {
    const std::vector<float> p = random_values(count, 3), t = random_values(count, 4);
    Array<> prediction(p), target(t);
    Array<double> loss(1);
    run(AbsoluteErrorSpec{count, 0.5}, prediction, target, loss);
    check_close(loss, {total(p, t, 0.5, [](double a, double b) { return std::fabs(a - b); })},
                1e-12, 1e-15);
  }
}

TEST_CASE("binary cross-entropy of probabilities and its gradient are those of the formula") {
  for (const float smoothing : {0.0f, 0.2f}) {
    const auto formula = [&](double p, double t) {
      return binary(p, t, static_cast<double>(smoothing));
    };
    for (const std::int64_t count : odd_sizes) {
      const std::vector<float> p = random_values(count, 5, 0.01, 0.99);
      std::vector<float> t = random_values(count, 6, 0, 2);
      for (float& value : t) value = std::floor(value);
      Array<> prediction(p), target(t), dp(count);
      Array<double> loss(1);
      run(BinaryCrossentropySpec{count, 2, false, smoothing}, prediction, target, loss);
      check_close(loss, {total(p, t, 2, formula)}, 1e-6);
      run(BinaryCrossentropyGradientSpec{count, 2, false, smoothing}, prediction, target, dp);
      // (q - t) / (q (1 - q)): 1 - q keeps an absolute error of 2^-25, of at least 0.01.
      check_close(dp, slopes(p, t, 2, formula), 1e-5, 1e-6);
    }
  }
}

TEST_CASE("binary cross-entropy of logits and its gradient are those of the formula") {
  for (const float smoothing : {0.0f, 0.2f}) {
    const auto formula = [&](double x, double t) {
      return binary_of_logit(x, t, static_cast<double>(smoothing));
    };
    for (const std::int64_t count : odd_sizes) {
      const std::vector<float> x = random_values(count, 7, -20, 20);
      std::vector<float> t = random_values(count, 8, 0, 2);
      for (float& value : t) value = std::floor(value);
      Array<> logits(x), target(t), dx(count);
      Array<double> loss(1);
      run(BinaryCrossentropySpec{count, 0.5, true, smoothing}, logits, target, loss);
      check_close(loss, {total(x, t, 0.5, formula)}, 1e-6);
      run(BinaryCrossentropyGradientSpec{count, 0.5f, true, smoothing}, logits, target, dx);
      check_close(dx, slopes(x, t, 0.5, formula), 1e-6, 1e-7);
    }
  }
}

TEST_CASE("weights multiply what values give, and their gradients") {
  const auto weighted = [](const std::vector<float>& p, const std::vector<float>& t,
                           const std::vector<float>& w, std::int64_t values, const auto& formula) {
    double sum = 0;
    for (std::size_t i = 0; i < p.size(); ++i) {
      sum += static_cast<double>(w[i / static_cast<std::size_t>(values)]) *
             formula(static_cast<double>(p[i]), static_cast<double>(t[i]));
    }
    return sum;
  };
  for (const std::int64_t rows : odd_sizes) {
    for (const std::int64_t values : {1, 3}) {
      const std::int64_t count = rows * values;
      const std::vector<float> p = random_values(count, 1, 0.1, 0.9),
                               t = random_values(count, 2, 0, 1), w = random_values(rows, 3, 0, 2);
      Array<> prediction(p), target(t), weights(w), x(p);
      Array<double> loss(1);
      run(SquaredErrorSpec{count, 1, values}, prediction, target, weights, loss);
      check_close(loss,
                  {weighted(p, t, w, values, [](double a, double b) { return (a - b) * (a - b); })},
                  1e-12, 1e-15);
      run(AbsoluteErrorSpec{count, 1, values}, prediction, target, weights, loss);
      check_close(loss,
                  {weighted(p, t, w, values, [](double a, double b) { return std::fabs(a - b); })},
                  1e-12, 1e-15);
      run(BinaryCrossentropySpec{count, 1, false, 0, values}, prediction, target, weights, loss);
      check_close(loss,
                  {weighted(p, t, w, values, [](double a, double b) { return binary(a, b, 0); })},
                  1e-6);
      run(BinaryCrossentropySpec{count, 1, true, 0, values}, prediction, target, weights, loss);
      check_close(
          loss,
          {weighted(p, t, w, values, [](double a, double b) { return binary_of_logit(a, b, 0); })},
          1e-6);
      run(WeightGradientSpec{count, values}, weights, x);
      std::vector<double> expected;
      for (std::size_t i = 0; i < p.size(); ++i) {
        expected.push_back(static_cast<double>(p[i] * w[i / static_cast<std::size_t>(values)]));
      }
      check_close(x, expected, 0);
    }
  }
  CHECK_THROWS_WITH(run_kernel(WeightGradientSpec{4, 0}, {}), Catch::Contains("has no weights"));
}

TEST_CASE("binary cross-entropy of large logits is finite and small losses keep their digits") {
  Array<> logits{1000, -1000, 15}, target{0, 0, 1}, dx(3);
  Array<double> loss(1);
  run(BinaryCrossentropySpec{3, 1, true, 0}, logits, target, loss);
  CHECK(loss[0] == Approx(1000 + std::log1p(std::exp(-15.0))).epsilon(1e-12));
  run(BinaryCrossentropyGradientSpec{3, 1, true, 0}, logits, target, dx);
  CHECK(dx[0] == 1.0f);
  CHECK(dx[1] == 0.0f);
}

TEST_CASE("binary cross-entropy clips certain probabilities and has no slope there") {
  Array<> p{0, 1, 0, 1}, t{1, 0, 0, 1}, dp(4);
  Array<double> loss(1);
  run(BinaryCrossentropySpec{4, 1, false, 0}, p, t, loss);
  // 1 - 1e-7 rounds to 1 - 2^-23 in float32, so that log(1 - q) is log(2^-23) there.
  const double high = -std::log(std::pow(2.0, -23)), low = -std::log(1e-7);
  CHECK(loss[0] == Approx(low + high).epsilon(1e-6));
  run(BinaryCrossentropyGradientSpec{4, 1, false, 0}, p, t, dp);
  CHECK(dp.values() == std::vector<float>{0, 0, 0, 0});
}

TEST_CASE("a binary prediction matches if strictly above the threshold is what the target says") {
  Array<> p{0.5f, 0.6f, 0.4f, 0.7f, 0.1f}, t{0, 1, 1, 0, 0};
  Array<double> n(1);
  run(BinaryMatchSpec{5, 0.2, 0.5f}, p, t, n);
  CHECK(n[0] == Approx(0.2 * 3));
  Array<> four{0.5f, 0.6f, 0.4f, 0.1f}, of_four{0, 1, 1, 0}, weights{3, 5};
  run(BinaryMatchSpec{4, 0.5, 0.5f, 2}, four, of_four, weights, n);
  CHECK(n[0] == Approx(0.5 * (2 * 3 + 5)));
}

TEST_CASE("summed losses do not depend on the number of threads or on addresses") {
  const std::vector<float> p = random_values(shared_count, 9, 0.1, 0.9);
  const std::vector<float> t = random_values(shared_count, 10, 0, 1);
  Array<> shifted(shared_count + 1);
  std::copy(p.begin(), p.end(), shifted.data() + 1);
  Array<> prediction(p), target(t);
  for (const KernelSpec& spec : {KernelSpec(SquaredErrorSpec{shared_count, 1}),
                                 KernelSpec(AbsoluteErrorSpec{shared_count, 1}),
                                 KernelSpec(BinaryCrossentropySpec{shared_count, 1, true, 0}),
                                 KernelSpec(BinaryCrossentropySpec{shared_count, 1, false, 0}),
                                 KernelSpec(BinaryMatchSpec{shared_count, 1, 0.5f})}) {
    Array<double> alone(1), shared(1), moved(1);
    run_kernel(spec, {prediction.data(), target.data(), alone.data()}, 1);
    run_kernel(spec, {prediction.data(), target.data(), shared.data()}, 3);
    run_kernel(spec, {shifted.data() + 1, target.data(), moved.data()}, 2);
    INFO(spec.text());
    CHECK(alone[0] == shared[0]);
    CHECK(alone[0] == moved[0]);
  }
}

}  // namespace meshwork::test::losses_test
