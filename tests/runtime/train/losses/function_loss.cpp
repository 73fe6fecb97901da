// Losses that are functions of values or rows: Keras's own numbers, definitions in double
// precision, gradients by differences, weights, and every split of every dimension against the
// whole.
#include "runtime/train/losses/function_loss.h"

#include <numeric>
#include <string>

#include "runtime/train/losses/cosine_similarity.h"
#include "runtime/train/losses/focal_crossentropy.h"
#include "runtime/train/losses/hinge.h"
#include "runtime/train/losses/huber.h"
#include "runtime/train/losses/kl_divergence.h"
#include "runtime/train/losses/log_cosh.h"
#include "runtime/train/losses/mean_absolute_percentage_error.h"
#include "runtime/train/losses/mean_squared_logarithmic_error.h"
#include "runtime/train/losses/poisson.h"
#include "tests/runtime/train/comparison_cases.h"

namespace meshwork::function_loss_test {

using namespace meshwork::test;

namespace {

using OfRow = std::function<double(const Values& p, const Values& t)>;

// The mean, or the sum, over a row of what values give.
OfRow mean_of_values(const std::function<double(double, double)>& value, bool sum = false) {
  return [=](const Values& p, const Values& t) {
    double total = 0;
    for (std::size_t i = 0; i < p.size(); ++i) total += value(p[i], t[i]);
    return sum ? total : total / static_cast<double>(p.size());
  };
}

double clipped(double x) {
  return std::clamp(x, 1e-7, 1 - 1e-7);
}
double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
double dot(const Values& a, const Values& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

double focal(double p, double target, bool logits, double gamma, double alpha, bool balanced,
             double smoothing) {
  const double t = target * (1 - smoothing) + smoothing / 2, q = logits ? sigmoid(p) : p;
  const double entropy = -t * std::log(clipped(q)) - (1 - t) * std::log(1 - clipped(q));
  return (balanced ? t * alpha + (1 - t) * (1 - alpha) : 1) *
         std::pow(1 - (t * q + (1 - t) * (1 - q)), gamma) * entropy;
}

double categorical_focal(const Values& p, const Values& targets, bool logits, double gamma,
                         double alpha, double smoothing) {
  Values q;
  for (const double x : p) q.push_back(logits ? std::exp(x) : x);
  const double sum = std::accumulate(q.begin(), q.end(), 0.0);
  double loss = 0;
  for (std::size_t i = 0; i < q.size(); ++i) {
    const double t = targets[i] * (1 - smoothing) + smoothing / static_cast<double>(q.size());
    const double o = clipped(q[i] / sum);
    loss -= alpha * std::pow(1 - o, gamma) * t * std::log(o);
  }
  return loss;
}

double categorical_hinge(const Values& p, const Values& t) {
  double largest = -1e30;
  for (std::size_t i = 0; i < p.size(); ++i) largest = std::max(largest, (1 - t[i]) * p[i]);
  return std::max(1 + largest - dot(p, t), 0.0);
}

// A loss with predictions and targets that it is for, away from kinks.
struct Case {
  SharedLoss loss;
  OfRow of_row;
  Tensor p, t;
};

std::vector<Case> cases(const Shape& shape) {
  const Tensor real = random_tensor(shape, 1, -2, 2), other = random_tensor(shape, 2, -2, 2);
  const Tensor positive = random_tensor(shape, 3, 0.1, 3),
               share = random_tensor(shape, 4, 0.1, 0.9);
  const Tensor counts = random_classes(shape, 5, 6),
               target_share = random_tensor(shape, 5, 0.1, 0.9);
  Tensor sides = counts;
  for (double& side : sides.values) side = side > 2 ? 1 : (side > 1 ? -1 : 0);
  Tensor off_kink = real;  // of sides, by more than a step
  for (std::size_t i = 0; i < real.values.size(); ++i) {
    double& p = off_kink.values[i];
    if (std::abs(std::abs(p) - 1) < 0.05) p = static_cast<float>(p * 0.5);
  }
  Tensor apart = real;  // from `other`
  for (std::size_t i = 0; i < real.values.size(); ++i) {
    const double distance = std::abs(real.values[i] - other.values[i]);
    if (distance < 0.05 || std::abs(distance - 0.75) < 0.05) apart.values[i] += 0.25;
  }
  const auto side = [](double t) { return t == 0 ? -1 : t; };
  std::vector<Case> all{
      {Huber({.delta = 0.75}), mean_of_values([](double p, double t) {
         const double e = std::abs(p - t);
         return e <= 0.75 ? e * e / 2 : 0.75 * e - 0.75 * 0.75 / 2;
       }),
       apart, other},
      {LogCosh(), mean_of_values([](double p, double t) { return std::log(std::cosh(p - t)); }),
       real, other},
      {MeanAbsolutePercentageError(),
       mean_of_values([](double p, double t) { return 100 * std::abs(p - t) / std::abs(t); }), real,
       [&] {
         Tensor away = real;
         for (double& t : away.values) t = static_cast<float>(t + (t < 0 ? -1 : 1));
         return away;
       }()},
      {MeanSquaredLogarithmicError(), mean_of_values([](double p, double t) {
         return std::pow(std::log1p(std::max(p, 1e-7)) - std::log1p(std::max(t, 1e-7)), 2);
       }),
       positive, other},
      {Poisson(), mean_of_values([](double p, double t) { return p - t * std::log(p + 1e-7); }),
       positive, counts},
      {KLDivergence(), mean_of_values([](double p, double t) { return t * std::log(t / p); }, true),
       share, target_share},
      {Hinge(), mean_of_values([&](double p, double t) { return std::max(1 - side(t) * p, 0.0); }),
       off_kink, sides},
      {SquaredHinge(), mean_of_values([&](double p, double t) {
         return std::pow(std::max(1 - side(t) * p, 0.0), 2);
       }),
       real, sides}};
  for (const bool logits : {false, true}) {
    for (const bool balanced : {false, true}) {
      const double gamma = balanced ? 1.5 : 2, smoothing = balanced ? 0.2 : 0;
      all.push_back({BinaryFocalCrossentropy({.apply_class_balancing = balanced,
                                              .alpha = 0.3,
                                              .gamma = gamma,
                                              .from_logits = logits,
                                              .label_smoothing = smoothing}),
                     mean_of_values([=](double p, double t) {
                       return focal(p, t, logits, gamma, 0.3, balanced, smoothing);
                     }),
                     logits ? real : share, target_share});
    }
  }
  if (shape.back() == 1) return all;
  Shape rows(shape.begin(), shape.end() - 1);
  const Tensor classes = one_hot(random_classes(rows, shape.back(), 7), shape.back());
  all.push_back({CosineSimilarity(),
                 [](const Values& p, const Values& t) {
                   return -dot(p, t) / std::sqrt(dot(p, p) * dot(t, t));
                 },
                 real, other});
  all.push_back({CategoricalHinge(), categorical_hinge, real, classes});
  for (const bool logits : {false, true}) {
    for (const double smoothing : {0.0, 0.1}) {
      all.push_back(
          {CategoricalFocalCrossentropy(
               {.alpha = 0.5, .gamma = 1.5, .from_logits = logits, .label_smoothing = smoothing}),
           [=](const Values& p, const Values& t) {
             return categorical_focal(p, t, logits, 1.5, 0.5, smoothing);
           },
           logits ? real : positive, smoothing > 0 ? target_share : classes});
    }
  }
  return all;
}

// The gradient of the mean by central differences of the sum.
Tensor differences(const Operation& operation, const OperationCase& what) {
  const Tensor& prediction = what.inputs[0];
  const double rows = Metric::value_count(prediction.shape), step = 1e-2;
  Tensor expected(prediction.shape);
  OperationCase moved{.inputs = what.inputs};
  for (std::size_t i = 0; i < prediction.values.size(); ++i) {
    double& value = moved.inputs[0].values[i];
    value = static_cast<float>(prediction.values[i] + step);
    const double above = value, high = run_whole(operation, moved).output.values[0];
    value = static_cast<float>(prediction.values[i] - step);
    const double below = value, low = run_whole(operation, moved).output.values[0];
    expected.values[i] = (high - low) / (above - below) / rows;
    value = prediction.values[i];
  }
  return expected;
}

void check(const Operation& operation, const OperationCase& what, double expected) {
  const OperationResult whole = run_whole(operation, what);
  CHECK(whole.output.values[0] == Approx(expected).epsilon(2e-6).margin(1e-7));
  // A central difference over 0.02 is off by the third derivative: a hundredth of a steep slope.
  CHECK(difference(*whole.gradients[0], differences(operation, what), 1e-2) == "");
  check_strategies(operation, what);
}

void check_numbers(const SharedLoss& loss, const Tensor& p, const Tensor& t, double mean,
                   const Values& gradient) {
  INFO(loss->name());
  CHECK(mean_of(*loss, p, t) == Approx(mean).epsilon(2e-6));
  const Tensor found = gradient_of(*loss, p, t);
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    CHECK(found.values[i] == Approx(gradient[i]).epsilon(1e-5).margin(1e-7));
  }
}

}  // namespace

TEST_CASE("losses that are functions and their first gradients are those of Keras 3.15") {
  const Tensor p({4, 3}, {0.2, 0.7, 0.1, 0.5, 0.3, 0.9, 1.5, -0.4, 0.25, 0.05, 0.6, 0.35});
  const Tensor q({4, 3}, {0.2, 0.7, 0.1, 0.5, 0.2, 0.3, 0.6, 0.15, 0.25, 0.05, 0.6, 0.35});
  const Tensor t({4, 3}, {0.1, 0.9, 0, 2, 0.3, 1, -1, 0.5, 0.25, 0, 1, 0.5});
  const Tensor h({4, 3}, {0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 1, 0});
  const Tensor y({4, 3}, {1, -1, 1, -1, -1, 1, 1, 1, 1, -1, 1, -1});
  Tensor size = t, near_h = h;
  for (double& value : size.values) value = std::abs(value);
  for (double& value : near_h.values) value = static_cast<float>(value * 0.8 + 0.1);
  check_numbers(Huber({.delta = 0.5}), p, t, 0.1835417, {0.00833333, -0.0166667, 0.00833333});
  check_numbers(LogCosh(), p, t, 0.2628411, {0.00830567, -0.0164479, 0.00830567});
  check_numbers(MeanSquaredLogarithmicError(), p, size, 0.06579828,
                {0.0120849, -0.0109045, 0.0144409});
  check_numbers(Poisson(), q, size, 0.8663954, {0.0416667, -0.0238095, 0.0833333});
  check_numbers(KLDivergence(), q, near_h, 0.4371938, {-0.125, -0.321429, -0.25});
  check_numbers(Hinge(), p, y, 0.9375001, {-0.0833333, 0.0833333, -0.0833333});
  check_numbers(Hinge(), p, h, 1.079167, {0.0833333, -0.0833333, 0.0833333});
  check_numbers(SquaredHinge(), p, y, 1.158125, {-0.133333, 0.283333, -0.15});
  check_numbers(CategoricalHinge(), p, h, 1.225, {0.25, -0.25, 0});
  check_numbers(CosineSimilarity(), p, t, -0.4714193, {0.0528757, -0.0215677, 0.0452226});
  check_numbers(BinaryFocalCrossentropy(), q, h, 0.1253614, {0.0116048, -0.028548, 0.00268194});
  check_numbers(
      BinaryFocalCrossentropy(
          {.apply_class_balancing = true, .alpha = 0.3, .gamma = 1.5, .label_smoothing = 0.1}),
      q, h, 0.07271747, {0.0165896, -0.013873, 0.00780954});
  check_numbers(BinaryFocalCrossentropy({.from_logits = true}), p, h, 0.2787999,
                {0.0319556, -0.0079879, 0.0282996});
  check_numbers(CategoricalFocalCrossentropy(
                    {.alpha = 0.5, .gamma = 3, .from_logits = true, .label_smoothing = 0.1}),
                p, h, 0.194879, {0.0135404, -0.0251308, 0.0115903});
  check_numbers(MeanAbsolutePercentageError(), Tensor({2, 3}, {0.5, 0.3, 0.9, 1.5, -0.4, 0.25}),
                Tensor({2, 3}, {2, 0.3, 1, -1, 0.5, 0.25}), 85.83334, {-8.33333});
  check_numbers(CategoricalFocalCrossentropy(),
                Tensor({4, 3}, {0.2, 0.7, 0.1, 0.5, 0.3, 0.9, 0.05, 0.6, 0.35, 0.2, 0.7, 0.1}), h,
                0.06984512, {0.0149877, -0.00642331, 0.0149877});
}

TEST_CASE("losses that are functions equal their definitions, have their gradients, and split") {
  const Shape shape = GENERATE(Shape{5, 7}, Shape{3, 2, 5}, Shape{7, 1});
  for (const Case& of : cases(shape)) {
    INFO(of.loss->name() << " of " << to_string(shape));
    check(*operation_of(*of.loss, of.p, of.t), training_case(of.p, of.t),
          reference_sum(of.p, of.t, of.of_row));
  }
}

TEST_CASE("losses that are functions take weights of samples and of rows") {
  const Shape shape = GENERATE(Shape{5, 7}, Shape{3, 2, 5});
  const Shape of_rows(shape.begin(), shape.end() - 1);
  const Shape weighing = GENERATE(false, true) ? of_rows : Shape{shape.front()};
  Tensor weights = random_tensor(weighing, 5, 0.25, 3);
  weights.values[1] = 0;
  for (const Case& of : cases(shape)) {
    INFO(of.loss->name() << " of " << to_string(shape) << ", weights " << to_string(weighing));
    OperationCase what = training_case(of.p, of.t);
    what.inputs.push_back(weights);
    what.wanted.push_back(false);
    std::size_t row = 0;
    const std::size_t rows_a_weight =
        static_cast<std::size_t>(element_count(of_rows)) / weights.values.size();
    check(*of.loss->weighted_operation(of.p.shape, of.t.shape, weights.shape), what,
          reference_sum(of.p, of.t, [&](const Values& p, const Values& t) {
            return weights.values[row++ / rows_a_weight] * of.of_row(p, t);
          }));
  }
}

TEST_CASE("what is clipped has no gradient, and nothing overflows") {
  const Tensor t({2, 2}, {0, 1, 1, 0});
  const Tensor p({2, 2}, {0, 1, 1, 0});
  for (const SharedLoss& loss :
       {KLDivergence(), BinaryFocalCrossentropy(), CategoricalFocalCrossentropy(),
        CategoricalFocalCrossentropy({.gamma = 0}), Poisson(), MeanSquaredLogarithmicError()}) {
    INFO(loss->name());
    CHECK(std::isfinite(sum_of(*loss, p, t)));
    for (const double slope : gradient_of(*loss, p, t).values) CHECK(std::isfinite(slope));
  }
  const Tensor far({1, 2}, {1000, -1000});
  const Tensor right({1, 2}, {0, 1});
  for (const SharedLoss& loss : {LogCosh(), BinaryFocalCrossentropy({.from_logits = true}),
                                 CategoricalFocalCrossentropy({.from_logits = true})}) {
    INFO(loss->name());
    CHECK(std::isfinite(sum_of(*loss, far, right)));
    for (const double slope : gradient_of(*loss, far, right).values) CHECK(std::isfinite(slope));
  }
  // Two vectors of which one is nothing have no angle.
  CHECK(sum_of(*CosineSimilarity(), Tensor({1, 2}, {0, 0}), right) == 0);
  CHECK(gradient_of(*CosineSimilarity(), Tensor({1, 2}, {1, 0}), Tensor({1, 2}, {0, 0})).values ==
        Values{0, 0});
}

TEST_CASE(
    "the logarithm of a hyperbolic cosine near 0 is that of its series, and joins what is beyond") {
  for (const double distance : {0.0, 1e-4, 0.01, 0.045, 0.0499, 0.0501, 0.1}) {
    const Tensor p({1, 1}, {static_cast<float>(distance)});
    const double x = p.values[0];
    // The series' next term is 3e-7 of the first at 0.05. Beyond, float32 rounds terms of 0.7.
    CHECK(sum_of(*LogCosh(), p, Tensor({1, 1}, {0})) ==
          Approx(std::log(std::cosh(x))).epsilon(x < 0.05 ? 3e-6 : 2e-4).margin(1e-15));
  }
}

TEST_CASE("equal wrong classes share the gradient of the categorical hinge") {
  const Tensor p({1, 3}, {0.5, 0.5, 0.25});
  CHECK(gradient_of(*CategoricalHinge(), p, Tensor({1, 3}, {0, 0, 1})).values ==
        Values{0.5, 0.5, -1});
}

TEST_CASE("options of losses that are functions out of range are errors") {
  CHECK_THROWS_WITH(Huber({.delta = 0}), Catch::Contains("Huber: delta"));
  CHECK_THROWS_WITH(BinaryFocalCrossentropy({.gamma = -1}), Catch::Contains("gamma"));
  CHECK_THROWS_WITH(CategoricalFocalCrossentropy({.label_smoothing = 2}),
                    Catch::Contains("label_smoothing"));
  CHECK(Huber()->name() == "huber_loss");
  CHECK(BinaryFocalCrossentropy({.from_logits = true})->predictions({-1, 1}) ==
        Predictions::logits);
  CHECK(CategoricalFocalCrossentropy()->predictions({-1, 1}) == Predictions::probabilities);
}

}  // namespace meshwork::function_loss_test
