// Losses of overlap: Keras's own numbers over several choices of dimensions, numerical gradients,
// weights of samples, and every split of every dimension against the whole.
#include "runtime/train/losses/overlap.h"

#include <cmath>

#include "tests/runtime/train/comparison_cases.h"

namespace meshwork::overlap_test {

using namespace meshwork::test;

namespace {

using Axis = std::optional<std::vector<std::int64_t>>;

// Of (2, 3, 2, 2).
Tensor predictions() {
  Tensor p({2, 3, 2, 2});
  for (int i = 0; i < 24; ++i) p.values[i] = static_cast<float>(i * 7 % 11 / 10.0);
  return p;
}
Tensor targets() {
  Tensor t({2, 3, 2, 2});
  for (int i = 0; i < 24; ++i) t.values[i] = i * 5 % 3 % 2;
  return t;
}

OperationCase weighted_case(const Tensor& p, const Tensor& t, const Tensor& weights) {
  OperationCase what = training_case(p, t);
  what.inputs.push_back(weights);
  what.wanted.push_back(false);
  return what;
}

// The mean, and the gradient at three places.
void check_numbers(const Operation& operation, const OperationCase& what, double mean,
                   const Values& gradient) {
  const OperationResult found = run_whole(operation, what);
  CHECK(found.output.values[0] / Metric::value_count(what.inputs[0].shape) ==
        Approx(mean).epsilon(1e-6));
  const std::size_t places[] = {0, 5, 23};
  for (int k = 0; k < 3; ++k) {
    CHECK(found.gradients[0]->values[places[k]] == Approx(gradient[k]).epsilon(1e-5));
  }
}

}  // namespace

TEST_CASE("Dice and Tversky and their gradients are those of Keras 3.15") {
  const Tensor p = predictions(), t = targets();
  const auto check = [&](const SharedLoss& loss, double mean, const Values& gradient) {
    INFO(loss->name());
    check_numbers(*operation_of(*loss, p, t), training_case(p, t), mean, gradient);
  };
  check(Dice(), 0.59390867, {0.02061377, -0.08090907, -0.08090907});
  check(Dice({.axis = {{1, 2, 3}}}), 0.60350877, {0.0066482, -0.09861496, -0.06535947});
  check(Dice({.axis = {{1, 2}}}), 0.60118067, {0.01081666, -0.09245563, -0.068});
  check(Dice({.axis = {{-2, 1, 0}}}), 0.59195048, {0.02437673, -0.08073818, -0.08073818});
  check(Tversky({.alpha = 0.3, .beta = 0.7}), 0.62228519, {0.02496698, -0.06946172, -0.06946172});
  check(Tversky({.alpha = 0.3, .beta = 0.7, .axis = {{1, 2, 3}}}), 0.63373482,
        {0.008234486, -0.09077541, -0.05147988});
  const Tensor weights({2}, {0.5, 2});
  check_numbers(*Dice({.axis = {{1, 2, 3}}})->weighted_operation(p.shape, t.shape, {2}),
                weighted_case(p, t, weights), 0.55175436, {0.0033241, -0.04930748, -0.1307189});
  // Of samples with a value a channel each value weighs as its sample does.
  const SharedLoss by_channel = Dice({.axis = {{1, 2}}});
  const auto of_sample = [&](int sample) {
    const auto half = [&](const Tensor& of) {
      return Tensor({1, 3, 2, 2},
                    Values(of.values.begin() + 12 * sample, of.values.begin() + 12 * (sample + 1)));
    };
    return mean_of(*by_channel, half(p), half(t));
  };
  check_numbers(*by_channel->weighted_operation(p.shape, t.shape, {2}),
                weighted_case(p, t, weights), (0.5 * of_sample(0) + 2 * of_sample(1)) / 2,
                {0.5 * 0.01081666, 0.5 * -0.09245563, 2 * -0.068});
}

TEST_CASE("losses of overlap have their numerical gradients, and split over every dimension") {
  const Shape shape = GENERATE(Shape{5, 7}, Shape{3, 2, 5}, Shape{3, 4, 2, 3}, Shape{6});
  const Tensor p = random_tensor(shape, 1, 0.1, 0.9), t = random_classes(shape, 2, 2);
  const auto last = static_cast<std::int64_t>(shape.size()) - 1;
  for (const Axis& axis : {Axis(), Axis({{0}}), Axis({{last}}), Axis({{0, last > 1 ? 1 : 0}}),
                           Axis({{last > 1 ? last - 1 : last, last}})}) {
    if (axis && axis->size() == 2 && axis->front() == axis->back()) continue;
    const SharedLoss loss = Tversky({.alpha = 0.25, .beta = 0.5, .axis = axis});
    const std::unique_ptr<Operation> operation = operation_of(*loss, p, t);
    const OperationCase what = training_case(p, t);
    const OperationResult whole = run_whole(*operation, what);
    const double rows = Metric::value_count(shape), step = 1e-2;
    OperationCase moved = forward_case(p, t);
    for (std::size_t i = 0; i < p.values.size(); ++i) {
      double& value = moved.inputs[0].values[i];
      value = static_cast<float>(p.values[i] + step);
      const double above = value, high = run_whole(*operation, moved).output.values[0];
      value = static_cast<float>(p.values[i] - step);
      const double below = value, low = run_whole(*operation, moved).output.values[0];
      value = p.values[i];
      // A central difference over 0.02 is off by the third derivative.
      CHECK(whole.gradients[0]->values[i] ==
            Approx((high - low) / (above - below) / rows).epsilon(1e-2).margin(1e-4));
    }
    check_strategies(*operation, what);
    if (axis && axis->front() > 0) {
      check_strategies(*loss->weighted_operation(shape, shape, {shape.front()}),
                       weighted_case(p, t, random_tensor({shape.front()}, 5, 0.25, 3)));
    }
  }
}

TEST_CASE("a loss of overlap without any is 1, and of nothing at all 1") {
  const Tensor p({2, 2}, {0, 1, 0, 1}), t({2, 2}, {1, 0, 1, 0}), none({2, 2}, {0, 0, 0, 0});
  CHECK(mean_of(*Dice(), p, t) == 1);
  CHECK(mean_of(*Dice(), none, none) == 1);
  CHECK(mean_of(*Dice(), p, p) == Approx(0).margin(1e-7));
}

TEST_CASE("losses of overlap refuse dimensions that are not there, gaps, and weights in a batch") {
  const Tensor p = predictions(), t = targets();
  const auto run = [&](const SharedLoss& loss) {
    (void)run_whole(*operation_of(*loss, p, t), training_case(p, t));
  };
  CHECK_THROWS_WITH(run(Dice({.axis = {{4}}})),
                    Catch::Contains("axis: predictions of 4 dimensions have no dimension 4"));
  CHECK_THROWS_WITH(run(Dice({.axis = {{1, 3}}})),
                    Catch::Contains("expected neighbouring dimensions, found 1 and 3"));
  CHECK_THROWS_WITH(Dice({.axis = {std::vector<std::int64_t>{}}}),
                    "Dice: axis: expected dimensions, found none");
  CHECK_THROWS_WITH(Tversky({.alpha = -1}), Catch::Contains("Tversky: alpha"));
  for (const Axis& axis : {Axis(), Axis({{0, 1}})}) {
    CHECK_THROWS_WITH(run_whole(*Dice({.axis = axis})->weighted_operation(p.shape, t.shape, {2}),
                                weighted_case(p, t, Tensor({2}, {1, 1}))),
                      Catch::Contains("one value for a whole batch"));
  }
  CHECK_THROWS_WITH(
      run_whole(*Dice({.axis = {{1, 2, 3}}})->weighted_operation(p.shape, t.shape, {2, 3, 2}),
                weighted_case(p, t, random_tensor({2, 3, 2}, 1, 0, 1))),
      Catch::Contains("takes a weight for each sample"));
}

}  // namespace meshwork::overlap_test
