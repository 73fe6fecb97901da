// Optimizers against the formulas of keras/src/optimizers: some values worked out by hand
// below, and random ones over several steps against the formulas written in double.
#include <functional>

#include "runtime/device/kernels/adadelta.h"
#include "runtime/device/kernels/adagrad.h"
#include "runtime/device/kernels/adam.h"
#include "runtime/device/kernels/adamax.h"
#include "runtime/device/kernels/average.h"
#include "runtime/device/kernels/ftrl.h"
#include "runtime/device/kernels/lamb.h"
#include "runtime/device/kernels/lion.h"
#include "runtime/device/kernels/nadam.h"
#include "runtime/device/kernels/rmsprop.h"
#include "runtime/device/kernels/schedule_free.h"
#include "runtime/device/kernels/sgd.h"
#include "runtime/device/narrowing.h"
#include "tests/runtime/device/support.h"

namespace meshwork::test::updates_test {

namespace {

constexpr int steps = 6;
constexpr float learning_rate = 0.01f;

/// A block of parameters in double and how one of them changes: `update` gets the index, the
/// gradient (already multiplied by the factor) and the number of the step from 1.
struct Reference {
  std::vector<double> w;
  std::vector<std::vector<double>> slots;
};
using Update = std::function<void(Reference&, std::size_t, double, int)>;

/// The same in bfloat16.
std::vector<std::uint16_t> narrowed_values(const Array<>& w) {
  std::vector<std::uint16_t> values;
  for (const float value : w.values()) values.push_back(narrowed(value));
  return values;
}

/// Runs `spec` for some steps, beside `update`, on blocks of odd sizes, and compares. Slots are
/// `initial_slot` first.
template <class Spec>
void check_update(Spec spec, int slot_count, const Update& update, float initial_slot = 0,
                  double tolerance = 1e-6) {
  for (const std::int64_t count : odd_sizes) {
    for (const bool scaled : {false, true}) {
      for (const float decay : {0.0f, 0.05f}) {
        spec.count = count;
        spec.scaled = scaled;
        spec.decay = decay;
        const std::vector<float> initial = random_values(count, 1);
        Array<> w(initial), factor{0.5f};
        // Every other size is narrowed too.
        spec.narrows = count % 2 != 0;
        Array<std::uint16_t> narrow(count);
        std::vector<Array<>> slots(static_cast<std::size_t>(slot_count),
                                   Array<>(std::vector<float>(initial.size(), initial_slot)));
        Reference reference{
            {initial.begin(), initial.end()},
            std::vector<std::vector<double>>(static_cast<std::size_t>(slot_count),
                                             std::vector<double>(initial.size(), initial_slot))};
        for (int step = 0; step < steps; ++step) {
          const std::vector<float> gradient =
              random_values(count, 10 + static_cast<unsigned>(step));
          Array<> g(gradient);
          Array<StepScalars> scalars({StepScalars{step, learning_rate}});
          std::vector<void*> operands{scalars.data()};
          if (scaled) operands.push_back(factor.data());
          operands.insert(operands.end(), {g.data(), w.data()});
          for (Array<>& slot : slots) operands.push_back(slot.data());
          if (spec.narrows) operands.push_back(narrow.data());
          run_kernel(spec, operands);
          CHECK(g.values() == gradient);
          if (spec.narrows) CHECK(narrow.values() == narrowed_values(w));
          for (std::size_t i = 0; i < gradient.size(); ++i) {
            const double rate = static_cast<double>(learning_rate);
            reference.w[i] -= reference.w[i] * static_cast<double>(decay) * rate;
            update(reference, i, static_cast<double>(gradient[i]) * (scaled ? 0.5 : 1.0), step + 1);
          }
        }
        INFO(spec.text());
        // A few roundings of values below 1 in each of six steps.
        check_close(w, reference.w, tolerance, tolerance);
        CHECK(w.intact());
        CHECK(narrow.intact());
        for (std::size_t slot = 0; slot < slots.size(); ++slot) {
          check_close(slots[slot], reference.slots[slot], 3 * tolerance, 0.1 * tolerance);
          CHECK(slots[slot].intact());
        }
      }
    }
  }
}

/// Runs `spec` on one parameter with the given gradients and returns w after each step.
template <class Spec>
std::vector<float> path(Spec spec, float w, float rate, const std::vector<float>& gradients,
                        std::size_t slot_count) {
  spec.count = 1;
  Array<> parameter{w};
  std::vector<Array<>> slots(slot_count, Array<>{0});
  std::vector<float> after;
  for (std::size_t step = 0; step < gradients.size(); ++step) {
    Array<StepScalars> scalars({StepScalars{static_cast<std::int64_t>(step), rate}});
    Array<> gradient{gradients[step]};
    std::vector<void*> operands{scalars.data(), gradient.data(), parameter.data()};
    for (Array<>& slot : slots) operands.push_back(slot.data());
    run_kernel(spec, operands);
    after.push_back(parameter[0]);
  }
  return after;
}

}  // namespace

// ---- by hand ----------------------------------------------------------------------------------

TEST_CASE("sgd takes the steps worked out by hand") {
  // w = 1 - 0.1 * 0.5, then 0.95 + 0.1 * 1
  check_close(path(SgdSpec{}, 1, 0.1f, {0.5f, -1}, 0), {0.95, 1.05}, 1e-6);
}

TEST_CASE("sgd with momentum takes the steps worked out by hand") {
  // m = -0.05, w = 0.95; m = 0.9 * -0.05 - 0.05 = -0.095, w = 0.855; m = -0.0855, w = 0.7695
  check_close(path(SgdSpec{.momentum = 0.9f}, 1, 0.1f, {0.5f, 0.5f, 0}, 1), {0.95, 0.855, 0.7695},
              1e-6);
}

TEST_CASE("sgd with nesterov's momentum takes the steps worked out by hand") {
  // m = -0.05, w = 1 - 0.045 - 0.05 = 0.905; m = -0.095, w = 0.905 - 0.0855 - 0.05 = 0.7695
  check_close(path(SgdSpec{.momentum = 0.9f, .nesterov = true}, 1, 0.1f, {0.5f, 0.5f}, 1),
              {0.905, 0.7695}, 1e-6);
}

TEST_CASE("adam's first step is the learning rate, less what epsilon takes") {
  // m = 0.1 g and v = 0.001 g^2, so a m / (sqrt(v) + eps) = lr g / (g + eps / sqrt(0.001)):
  // 0.01 * 0.5 / (0.5 + 3.1622776e-6) = 0.0099999368
  check_close(path(AdamSpec{}, 1, 0.01f, {0.5f}, 2), {1 - 0.0099999368}, 1e-7);
  // A gradient near epsilon shows that epsilon stands beside the uncorrected root:
  // 0.01 * 1e-6 / (1e-6 + 3.1622776e-6) = 0.00240253, where beside the corrected one it were
  // 0.00909.
  check_close(path(AdamSpec{}, 1, 0.01f, {1e-6f}, 2), {1 - 0.00240253}, 1e-7);
}

TEST_CASE("adam's second step is that worked out by hand") {
  // g = 1, then 0: m = 0.1, v = 0.001; then m = 0.09, v = 0.000999.
  // a = lr sqrt(1 - 0.998001) / (1 - 0.81) = lr * 0.04471018 / 0.19 = lr * 0.23531673
  // 0.09 a / (0.03160696 + 1e-7) = lr * 0.67005613
  const std::vector<float> w = path(AdamSpec{}, 0, 1, {1, 0}, 2);
  CHECK(w[1] - w[0] == Approx(-0.67005613).epsilon(2e-6));
}

TEST_CASE("rmsprop takes the steps worked out by hand") {
  // v = 0.1 * 0.25 = 0.025, 0.05 / sqrt(0.0250001) = 0.31622713; v = 0.0225 + 0.1 = 0.1225,
  // 0.1 / sqrt(0.1225001) = 0.28571417
  check_close(path(RmspropSpec{}, 1, 0.1f, {0.5f, 1}, 1), {0.68377287, 0.39805870}, 1e-6);
  // with momentum 0.9: m = 0.31622713, then 0.28460442 + 0.28571417
  check_close(path(RmspropSpec{.momentum = 0.9}, 1, 0.1f, {0.5f, 1}, 2), {0.68377287, 0.11345428},
              1e-6);
  // centered: mean = 0.05, 0.05 / sqrt(0.025 - 0.0025 + 1e-7) = 0.33333259
  check_close(path(RmspropSpec{.centered = true}, 1, 0.1f, {0.5f}, 2), {0.66666741}, 1e-6);
}

TEST_CASE("a running mean begins with the first value, and overwrites values when asked to") {
  const auto check = [](std::int64_t overwrite_every, std::vector<double> values) {
    Array<> g(2), w{4, -2}, average{9, 9};
    AverageSpec spec{.count = 2, .momentum = 0.75, .overwrite_every = overwrite_every};
    const auto step = [&](std::int64_t number) {
      Array<StepScalars> scalars({StepScalars{number, learning_rate}});
      Array<std::uint16_t> narrow(2);
      spec.narrows = true;
      run_kernel(spec, {scalars.data(), g.data(), w.data(), average.data(), narrow.data()});
      CHECK(narrow.values() == narrowed_values(w));
    };
    step(0);
    check_close(average, {4, -2}, 0);
    check_close(w, {4, -2}, 0);
    w[0] = 8;
    w[1] = 2;
    step(1);
    check_close(average, {5, -1}, 0);
    check_close(w, values, 0);
  };
  check(0, {8, 2});
  check(3, {8, 2});
  check(2, {5, -1});
}

TEST_CASE("weight decay comes first and takes decay times learning rate") {
  // w = 2 - 2 * 0.5 * 0.1 = 1.9, then 1.9 - 0.1 * 1
  check_close(path(SgdSpec{.decay = 0.5f}, 2, 0.1f, {1}, 0), {1.8}, 1e-6);
  check_close(path(AdamSpec{.decay = 0.5f}, 2, 0.1f, {0}, 2), {1.9}, 1e-6);
  check_close(path(RmspropSpec{.decay = 0.5f}, 2, 0.1f, {0}, 1), {1.9}, 1e-6);
}

TEST_CASE("weight decay far below one does not drown in rounding") {
  // w (1 - 4e-6) a thousand times; a factor 1 - 4e-6 rounded to float32 would be off by 0.6 %.
  std::vector<float> w = path(SgdSpec{.decay = 0.004f}, 0.7f, 0.001f, std::vector<float>(1000), 0);
  const double expected = 0.7 * (1 - std::pow(1 - 4e-6, 1000));
  CHECK(0.7 - static_cast<double>(w.back()) == Approx(expected).epsilon(0.004));
}

// ---- over several steps -----------------------------------------------------------------------

TEST_CASE("sgd follows its formulas over several steps") {
  const double lr = static_cast<double>(learning_rate), mu = static_cast<double>(0.9f);
  check_update(SgdSpec{}, 0, [&](Reference& r, std::size_t i, double g, int) { r.w[i] -= lr * g; });
  check_update(SgdSpec{.momentum = 0.9f}, 1, [&](Reference& r, std::size_t i, double g, int) {
    double& m = r.slots[0][i];
    m = mu * m - lr * g;
    r.w[i] += m;
  });
  check_update(SgdSpec{.momentum = 0.9f, .nesterov = true}, 1,
               [&](Reference& r, std::size_t i, double g, int) {
                 double& m = r.slots[0][i];
                 m = mu * m - lr * g;
                 r.w[i] += mu * m - lr * g;
               });
}

TEST_CASE("adam follows its formula over several steps") {
  const double lr = static_cast<double>(learning_rate);
  for (const bool amsgrad : {false, true}) {
    check_update(AdamSpec{.amsgrad = amsgrad}, amsgrad ? 3 : 2,
                 [&](Reference& r, std::size_t i, double g, int t) {
                   double& m = r.slots[0][i];
                   double& v = r.slots[1][i];
                   m += (g - m) * (1 - 0.9);
                   v += (g * g - v) * (1 - 0.999);
                   double root = v;
                   if (amsgrad) root = r.slots[2][i] = std::max(r.slots[2][i], v);
                   const double a = lr * std::sqrt(1 - std::pow(0.999, t)) / (1 - std::pow(0.9, t));
                   r.w[i] -= a * m / (std::sqrt(root) + 1e-7);
                 });
  }
}

TEST_CASE("rmsprop follows its formulas over several steps") {
  const double lr = static_cast<double>(learning_rate);
  for (const double momentum : {0.0, 0.8}) {
    for (const bool centered : {false, true}) {
      // A larger epsilon than the default: centered, the first steps subtract nearly equal numbers.
      check_update(RmspropSpec{.momentum = momentum, .epsilon = 1e-2, .centered = centered},
                   1 + (momentum != 0 ? 1 : 0) + (centered ? 1 : 0),
                   [&](Reference& r, std::size_t i, double g, int) {
                     double& v = r.slots[0][i];
                     v = 0.9 * v + (1 - 0.9) * g * g;
                     double d = v;
                     if (centered) {
                       double& mean = r.slots.back()[i];
                       mean = 0.9 * mean + (1 - 0.9) * g;
                       d = v - mean * mean;
                     }
                     const double u = lr * g / std::sqrt(d + 1e-2);
                     if (momentum != 0) {
                       double& m = r.slots[1][i];
                       m = momentum * m + u;
                       r.w[i] -= m;
                     } else {
                       r.w[i] -= u;
                     }
                   });
    }
  }
}

TEST_CASE("adagrad follows its formula over several steps") {
  check_update(
      AdagradSpec{.epsilon = 1e-3}, 1,
      [](Reference& r, std::size_t i, double g, int) {
        double& a = r.slots[0][i];
        a += g * g;
        r.w[i] -= static_cast<double>(learning_rate) * g / std::sqrt(a + 1e-3);
      },
      0.25f);
}

TEST_CASE("adadelta follows its formula over several steps") {
  check_update(AdadeltaSpec{.epsilon = 1e-3}, 2, [](Reference& r, std::size_t i, double g, int) {
    double& a = r.slots[0][i];
    double& b = r.slots[1][i];
    a = 0.95 * a + 0.05 * g * g;
    const double d = g * std::sqrt(b + 1e-3) / std::sqrt(a + 1e-3);
    b = 0.95 * b + 0.05 * d * d;
    r.w[i] -= static_cast<double>(learning_rate) * d;
  });
}

TEST_CASE("adamax follows its formula over several steps") {
  check_update(AdamaxSpec{}, 2, [](Reference& r, std::size_t i, double g, int t) {
    double& m = r.slots[0][i];
    double& u = r.slots[1][i];
    m += (g - m) * (1 - 0.9);
    u = std::max(0.999 * u, std::abs(g));
    r.w[i] -= static_cast<double>(learning_rate) / (1 - std::pow(0.9, t)) * m / (u + 1e-7);
  });
}

TEST_CASE("nadam follows its formula over several steps") {
  const auto momentum = [](double k) { return 0.9 * (1 - 0.5 * std::pow(0.96, k)); };
  check_update(NadamSpec{.epsilon = 1e-3}, 2, [&](Reference& r, std::size_t i, double g, int t) {
    double& m = r.slots[0][i];
    double& v = r.slots[1][i];
    double product = 1;
    for (int k = 1; k <= t; ++k) product *= momentum(k);
    m += (g - m) * (1 - 0.9);
    v += (g * g - v) * (1 - 0.999);
    const double mean = momentum(t + 1) * m / (1 - product * momentum(t + 1)) +
                        (1 - momentum(t)) * g / (1 - product);
    r.w[i] -= static_cast<double>(learning_rate) * mean /
              (std::sqrt(v / (1 - std::pow(0.999, t))) + 1e-3);
  });
}

TEST_CASE("lamb leaves the step of each element in the place of its gradient") {
  for (const std::int64_t count : odd_sizes) {
    const std::vector<float> gradient = random_values(count, 1), values = random_values(count, 2);
    const std::vector<float> mean = random_values(count, 3), square = random_values(count, 4, 0, 1);
    Array<> factor{0.5f}, g(gradient), w(values), m(mean), v(square);
    Array<StepScalars> scalars({StepScalars{2, learning_rate}});
    run_kernel(LambSpec{.count = count, .epsilon = 1e-3, .decay = 0.05f, .scaled = true},
               {scalars.data(), factor.data(), g.data(), w.data(), m.data(), v.data()});
    std::vector<double> steps, decayed, means, squares;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const double half = 0.5 * static_cast<double>(gradient[i]);
      means.push_back(0.9 * static_cast<double>(mean[i]) + 0.1 * half);
      squares.push_back(0.999 * static_cast<double>(square[i]) + 0.001 * half * half);
      steps.push_back(means[i] / (1 - std::pow(0.9, 3)) /
                      (std::sqrt(squares[i] / (1 - std::pow(0.999, 3))) + 1e-3));
      decayed.push_back(static_cast<double>(values[i]) *
                        (1 - 0.05 * static_cast<double>(learning_rate)));
    }
    check_close(g, steps, 1e-5, 1e-6);
    check_close(w, decayed, 1e-6, 1e-7);
    check_close(m, means, 1e-6, 1e-7);
    check_close(v, squares, 1e-6, 1e-7);
    CHECK(g.intact());
    CHECK(w.intact());
  }
}

TEST_CASE("lion follows its formula over several steps") {
  check_update(LionSpec{}, 1, [](Reference& r, std::size_t i, double g, int) {
    double& m = r.slots[0][i];
    const double direction = 0.9 * m + 0.1 * g;
    r.w[i] -= static_cast<double>(learning_rate) * (direction > 0 ? 1 : (direction < 0 ? -1 : 0));
    m = 0.99 * m + 0.01 * g;
  });
}

TEST_CASE("schedule-free adamw follows its formula over several steps, with a warmup") {
  const std::vector<float> initial = random_values(odd_sizes.back(), 1);
  check_update(
      ScheduleFreeSpec{.epsilon = 1e-3, .warmup = 4}, 2,
      [&](Reference& r, std::size_t i, double g, int t) {
        double& z = r.slots[0][i];
        double& v = r.slots[1][i];
        if (t == 1) z = static_cast<double>(initial[i]);
        v += 0.001 * (g * g - v);
        double x = (r.w[i] - 0.1 * z) / 0.9;
        z -= static_cast<double>(learning_rate) * std::min(1.0, t / 4.0) * g /
             (std::sqrt(v / (1 - std::pow(0.999, t))) + 1e-3);
        x += (z - x) / t;
        r.w[i] = 0.1 * z + 0.9 * x;
      },
      0, 3e-6);  // divided by 0.9 in each step
}

TEST_CASE("ftrl follows its formula over several steps, with any power") {
  const double lr = static_cast<double>(learning_rate);
  for (const double power : {-0.5, -0.7}) {
    // Ftrl divides by the learning rate what was rounded at 1, and gets 1e-5 a step; the difference
    // of two powers is rounded so, too.
    check_update(
        FtrlSpec{.power = power, .l1 = 0.25, .l2 = 0.5, .shrinkage = 0.125, .beta = 0.5}, 2,
        [&](Reference& r, std::size_t i, double g, int) {
          double& a = r.slots[0][i];
          double& z = r.slots[1][i];
          const double sum = a + g * g;
          z += g + 2 * 0.125 * r.w[i] - (std::pow(sum, -power) - std::pow(a, -power)) / lr * r.w[i];
          a = sum;
          r.w[i] = (std::clamp(z, -0.25, 0.25) - z) /
                   (std::pow(sum, -power) / lr + 2 * (0.5 + 0.5 / (2 * lr)));
        },
        1.0f, 1e-4);
  }
}

TEST_CASE("an update of a large block depends neither on threads nor on what it narrows") {
  const std::int64_t count = 100003;
  Array<StepScalars> scalars({StepScalars{3, 0.01f}});
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 3}) {
    for (const bool narrows : {false, true}) {
      Array<> g(random_values(count, 1)), w(random_values(count, 2)), m(random_values(count, 3)),
          v(random_values(count, 4, 0, 1));
      Array<std::uint16_t> narrow(count);
      std::vector<void*> operands{scalars.data(), g.data(), w.data(), m.data(), v.data()};
      if (narrows) operands.push_back(narrow.data());
      run_kernel(AdamSpec{.count = count, .narrows = narrows}, operands, threads);
      if (narrows) CHECK(narrow.values() == narrowed_values(w));
      results.push_back(w.values());
    }
  }
  for (const std::vector<float>& result : results) CHECK(result == results.front());
}

}  // namespace meshwork::test::updates_test
