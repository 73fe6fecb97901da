// Schedules: values worked out by hand from Keras's formulas, and Keras's documented examples.
#include "runtime/train/optimizers/schedule.h"

#include <cmath>

#include "tests/support/catch.h"

namespace meshwork::schedule_test {

TEST_CASE("a number is a constant schedule") {
  const Schedule schedule = 0.25;
  CHECK(schedule.is_constant());
  CHECK(schedule.name() == "0.25");
  CHECK(schedule.at(0) == 0.25);
  CHECK(schedule.at(1'000'000) == 0.25);
}

TEST_CASE("cosine decay falls by a half cosine to alpha and stays there") {
  // 0.1 ((1 - 0.1) (1 + cos(pi s / 1000)) / 2 + 0.1): cos is 1, sqrt(1/2), 0, -1.
  const Schedule schedule =
      CosineDecay({.initial_learning_rate = 0.1, .decay_steps = 1000, .alpha = 0.1});
  CHECK_FALSE(schedule.is_constant());
  CHECK(schedule.name() == "CosineDecay");
  CHECK(schedule.at(0) == Approx(0.1));
  CHECK(schedule.at(250) == Approx(0.1 * (0.9 * (1 + std::sqrt(0.5)) / 2 + 0.1)));
  CHECK(schedule.at(500) == Approx(0.055));
  CHECK(schedule.at(1000) == Approx(0.01));
  CHECK(schedule.at(5000) == Approx(0.01));
}

TEST_CASE("cosine decay warms up in a straight line and decays from the target") {
  // Keras's documented example: from 0 to 0.1 over 1000 steps, then down over 1000.
  const Schedule schedule = CosineDecay({.initial_learning_rate = 0,
                                         .decay_steps = 1000,
                                         .warmup_target = 0.1,
                                         .warmup_steps = 1000});
  CHECK(schedule.at(0) == 0);
  CHECK(schedule.at(250) == Approx(0.025));
  CHECK(schedule.at(999) == Approx(0.0999));
  CHECK(schedule.at(1000) == Approx(0.1));
  CHECK(schedule.at(1500) == Approx(0.05));
  CHECK(schedule.at(2000) == Approx(0).margin(1e-15));
  CHECK(schedule.at(9999) == Approx(0).margin(1e-15));
  // A target without warm-up steps is where the decay begins.
  CHECK(CosineDecay({.initial_learning_rate = 1, .decay_steps = 10, .warmup_target = 0.5}).at(0) ==
        0.5);
  // The line begins at the initial rate.
  CHECK(
      CosineDecay(
          {.initial_learning_rate = 0.2, .decay_steps = 10, .warmup_target = 1, .warmup_steps = 4})
          .at(1) == Approx(0.4));
}

TEST_CASE("decays of other forms are those of Keras 3.15") {
  const auto check = [](const Schedule& schedule, const std::vector<double>& expected) {
    INFO(schedule.name());
    const std::int64_t steps[] = {0, 3, 10, 17, 35};
    for (std::size_t i = 0; i < 5; ++i) {
      CHECK(schedule.at(steps[i]) == Approx(expected[i]).epsilon(1e-6));
    }
  };
  check(InverseTimeDecay({.initial_learning_rate = 0.1, .decay_steps = 10, .decay_rate = 0.5}),
        {0.1, 0.08695652, 0.06666667, 0.05405406, 0.03636364});
  check(
      InverseTimeDecay(
          {.initial_learning_rate = 0.1, .decay_steps = 10, .decay_rate = 0.5, .staircase = true}),
      {0.1, 0.1, 0.06666667, 0.06666667, 0.04});
  check(
      PolynomialDecay(
          {.initial_learning_rate = 0.1, .decay_steps = 10, .end_learning_rate = 0.01, .power = 2}),
      {0.1, 0.0541, 0.01, 0.01, 0.01});
  check(PolynomialDecay({.initial_learning_rate = 0.1,
                         .decay_steps = 10,
                         .end_learning_rate = 0.01,
                         .cycle = true}),
        {0.1, 0.073, 0.01, 0.0235, 0.02125});
  check(CosineDecayRestarts({.initial_learning_rate = 0.1, .first_decay_steps = 10}),
        {0.1, 0.07938927, 0.1, 0.07269952, 0.09619398});
  check(CosineDecayRestarts({.initial_learning_rate = 0.1,
                             .first_decay_steps = 10,
                             .t_mul = 1,
                             .m_mul = 0.5,
                             .alpha = 0.1}),
        {0.1, 0.08145034, 0.055, 0.01927483, 0.015625});
  // Of lengths 10, 20 and 40, each from half the rate of the one before.
  const Schedule halved =
      CosineDecayRestarts({.initial_learning_rate = 0.1, .first_decay_steps = 10, .m_mul = 0.5});
  CHECK(halved.at(10) == Approx(0.05));
  CHECK(halved.at(20) == Approx(0.025));
  CHECK(halved.at(30) == Approx(0.025));
  CHECK_THROWS_WITH(
      CosineDecayRestarts({.initial_learning_rate = 1, .first_decay_steps = 1, .t_mul = 0.5}),
      Catch::Contains("t_mul"));
}

TEST_CASE("piecewise constant decay changes after its boundaries") {
  // Keras's documented example.
  const Schedule schedule =
      PiecewiseConstantDecay({.boundaries = {100000, 110000}, .values = {1.0, 0.5, 0.1}});
  CHECK(schedule.at(0) == 1.0);
  CHECK(schedule.at(100000) == 1.0);
  CHECK(schedule.at(100001) == 0.5);
  CHECK(schedule.at(110000) == 0.5);
  CHECK(schedule.at(110001) == 0.1);
  CHECK(PiecewiseConstantDecay({.boundaries = {}, .values = {0.3}}).at(7) == 0.3);
}

TEST_CASE("exponential decay is smooth, or a staircase") {
  // Keras's documented example: base 0.96 every 100000 steps.
  const ExponentialDecayOptions options{
      .initial_learning_rate = 0.1, .decay_steps = 100000, .decay_rate = 0.96};
  CHECK(ExponentialDecay(options).at(0) == 0.1);
  CHECK(ExponentialDecay(options).at(50000) == Approx(0.1 * std::sqrt(0.96)));
  CHECK(ExponentialDecay(options).at(200000) == Approx(0.1 * 0.96 * 0.96));
  ExponentialDecayOptions staircase = options;
  staircase.staircase = true;
  CHECK(ExponentialDecay(staircase).at(99999) == 0.1);
  CHECK(ExponentialDecay(staircase).at(100000) == Approx(0.096));
}

TEST_CASE("one's own schedule is a function of the iteration, and its rates are checked") {
  const Schedule schedule("halves", [](std::int64_t i) { return i < 3 ? 1.0 / (1 << i) : -1.0; });
  CHECK(schedule.at(2) == 0.25);
  CHECK_THROWS_WITH(schedule.at(3), "schedule halves: the learning rate of iteration 3 is -1");
  CHECK_THROWS_WITH(Schedule("none", nullptr), Catch::Contains("no function"));
}

TEST_CASE("schedules out of range are errors that name the option") {
  CHECK_THROWS_WITH(Schedule(-1.0),
                    "learning rate: expected a finite number of at least 0, found -1");
  CHECK_THROWS_WITH(Schedule(1e39), Catch::Contains("1e+39 exceeds the range of float32"));
  CHECK_THROWS_WITH(CosineDecay({.initial_learning_rate = 0.1}),
                    "CosineDecay: decay_steps: expected a positive integer, found 0");
  CHECK_THROWS_WITH(
      CosineDecay({.initial_learning_rate = 0.1, .decay_steps = 5, .warmup_steps = 3}),
      Catch::Contains("no warmup_target"));
  CHECK_THROWS_WITH(CosineDecay({.decay_steps = 5, .warmup_target = -0.5}),
                    Catch::Contains("warmup_target"));
  CHECK_THROWS_WITH(CosineDecay({.decay_steps = 5, .warmup_target = 0.5, .warmup_steps = -1}),
                    Catch::Contains("warmup_steps"));
  CHECK_THROWS_WITH(PiecewiseConstantDecay({.boundaries = {1, 2}, .values = {1, 2}}),
                    "PiecewiseConstantDecay: 2 boundaries need 3 values, found 2");
  CHECK_THROWS_WITH(PiecewiseConstantDecay({.boundaries = {2, 2}, .values = {1, 2, 3}}),
                    Catch::Contains("found 2 after 2"));
  CHECK_THROWS_WITH(ExponentialDecay({.initial_learning_rate = 0.1, .decay_steps = 10}),
                    Catch::Contains("decay_rate"));
}

TEST_CASE("a schedule is told from others of its name by its options") {
  const Schedule one =
      ExponentialDecay({.initial_learning_rate = 0.1, .decay_steps = 10, .decay_rate = 0.5});
  CHECK(one.options() ==
        "initial_learning_rate 0.1, decay_steps 10, decay_rate 0.5, staircase false");
  CHECK(PiecewiseConstantDecay({.boundaries = {3, 5}, .values = {1, 0.5, 0.25}}).options() ==
        "boundaries [3, 5], values [1, 0.5, 0.25]");
  CHECK(CosineDecay({.initial_learning_rate = 1, .decay_steps = 4}).options() !=
        CosineDecay({.initial_learning_rate = 1, .decay_steps = 4, .alpha = 0.5}).options());
  CHECK(Schedule(0.1).options().empty());
}

}  // namespace meshwork::schedule_test
