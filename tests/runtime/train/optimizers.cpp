// Optimizers: options, slots and clipping as the lowering takes them; and ten updates of each
// kernel against its formula written down in double precision, or against Keras's own numbers.
#include "runtime/device/kernels/adadelta.h"
#include "runtime/device/kernels/adam.h"
#include "runtime/device/kernels/adamax.h"
#include "runtime/device/kernels/ftrl.h"
#include "runtime/device/kernels/lion.h"
#include "runtime/device/kernels/nadam.h"
#include "runtime/device/kernels/norms.h"
#include "runtime/device/kernels/rmsprop.h"
#include "runtime/device/kernels/sgd.h"
#include "runtime/train/optimizers/optimizer.h"

#include <algorithm>
#include <cmath>

#include "runtime/device/device.h"
#include "runtime/train/optimizers/adadelta.h"
#include "runtime/train/optimizers/adafactor.h"
#include "runtime/train/optimizers/adagrad.h"
#include "runtime/train/optimizers/adam.h"
#include "runtime/train/optimizers/adamax.h"
#include "runtime/train/optimizers/ftrl.h"
#include "runtime/train/optimizers/lamb.h"
#include "runtime/train/optimizers/lion.h"
#include "runtime/train/optimizers/nadam.h"
#include "runtime/train/optimizers/rmsprop.h"
#include "runtime/train/optimizers/schedule_free_adamw.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/catch.h"

namespace meshwork::optimizers_test {

namespace {

constexpr double rate = 0.1;
constexpr std::int64_t count = 5, updates = 10;
const std::vector<double> start{1, -2, 0.5, 0, 3};

// The gradient of element i in step s; of both signs, and 0 once.
double gradient(std::int64_t i, std::int64_t s) {
  return 0.25 * static_cast<double>(i - 2) + 0.5 * static_cast<double>(s) * (i % 2 ? -1 : 1);
}

// The values after all updates by the optimizer's kernel, at a constant rate.
std::vector<float> updated(const Optimizer& optimizer, std::optional<float> factor = std::nullopt) {
  const std::unique_ptr<Device> device = make_device({.kind = "cpu"});
  const std::unique_ptr<Kernel> kernel = device->compile(
      optimizer.update_rule().kernel({.count = count, .scaled = factor.has_value()}));
  std::vector<float> w(start.begin(), start.end());
  std::vector<std::vector<float>> slots;
  for (const Slot& slot : optimizer.update_rule().slots) {
    slots.emplace_back(count, slot.initial);
  }
  for (std::int64_t s = 0; s < updates; ++s) {
    StepScalars scalars{s, static_cast<float>(optimizer.learning_rate(s))};
    std::vector<float> g;
    for (std::int64_t i = 0; i < count; ++i) g.push_back(static_cast<float>(gradient(i, s)));
    std::vector<void*> operands{&scalars};
    if (factor) operands.push_back(&*factor);
    operands.push_back(g.data());
    operands.push_back(w.data());
    for (std::vector<float>& slot : slots) operands.push_back(slot.data());
    kernel->run(operands.data());
  }
  return w;
}

// The same by `update(w, g, t, slots)` for one element, t counting from 1; slots are zeros first, or
// the first one `initial`.
template <class Update>
void check_updates(const std::vector<float>& found, const Update& update, double factor = 1,
                   double initial = 0) {
  for (std::int64_t i = 0; i < count; ++i) {
    double w = start[i];
    double slots[3] = {initial, 0, 0};
    for (std::int64_t s = 0; s < updates; ++s) {
      update(w, gradient(i, s) * factor, static_cast<double>(s + 1), slots);
    }
    INFO("element " << i);
    CHECK(found[i] == Approx(w).epsilon(1e-5).margin(1e-6));
  }
}

// A few roundings of numbers of order 1 in each of ten updates, ours and Keras's.
void check_values(const std::vector<float>& found, const std::vector<double>& expected) {
  for (std::int64_t i = 0; i < count; ++i) {
    INFO("element " << i);
    CHECK(found[i] == Approx(expected[i]).epsilon(1e-5).margin(1e-6));
  }
}

double sign(double value) {
  return value > 0 ? 1 : (value < 0 ? -1 : 0);
}

}  // namespace

TEST_CASE("SGD updates by its formula, with momentum and Nesterov's form") {
  check_updates(updated(SGD({.learning_rate = rate})),
                [](double& w, double g, double, double*) { w -= rate * g; });
  check_updates(updated(SGD({.learning_rate = rate, .momentum = 0.9})),
                [](double& w, double g, double, double* slots) {
                  slots[0] = 0.9 * slots[0] - rate * g;
                  w += slots[0];
                });
  check_updates(updated(SGD({.learning_rate = rate, .momentum = 0.9, .nesterov = true})),
                [](double& w, double g, double, double* slots) {
                  slots[0] = 0.9 * slots[0] - rate * g;
                  w += 0.9 * slots[0] - rate * g;
                });
}

TEST_CASE("Adam updates by its formula, with and without amsgrad") {
  const bool amsgrad = GENERATE(false, true);
  check_updates(updated(Adam({.learning_rate = rate,
                              .beta_1 = 0.8,
                              .beta_2 = 0.95,
                              .epsilon = 1e-3,
                              .amsgrad = amsgrad})),
                [amsgrad](double& w, double g, double t, double* slots) {
                  const double a = rate * std::sqrt(1 - std::pow(0.95, t)) / (1 - std::pow(0.8, t));
                  slots[0] += (g - slots[0]) * (1 - 0.8);
                  slots[1] += (g * g - slots[1]) * (1 - 0.95);
                  slots[2] = std::max(slots[2], slots[1]);
                  w -= a * slots[0] / (std::sqrt(amsgrad ? slots[2] : slots[1]) + 1e-3);
                });
}

TEST_CASE("weight decay comes before the update, at the learning rate") {
  check_updates(updated(SGD({.learning_rate = rate, .weight_decay = 0.5})),
                [](double& w, double g, double, double*) {
                  w -= w * 0.5 * rate;
                  w -= rate * g;
                });
  check_updates(
      updated(AdamW({.learning_rate = rate})), [](double& w, double g, double t, double* slots) {
        w -= w * 0.004 * rate;
        const double a = rate * std::sqrt(1 - std::pow(0.999, t)) / (1 - std::pow(0.9, t));
        slots[0] += (g - slots[0]) * (1 - 0.9);
        slots[1] += (g * g - slots[1]) * (1 - 0.999);
        w -= a * slots[0] / (std::sqrt(slots[1]) + 1e-7);
      });
}

TEST_CASE("RMSprop updates by its formula, with momentum and centered") {
  const double momentum = GENERATE(0.0, 0.5);
  const bool centered = GENERATE(false, true);
  check_updates(updated(RMSprop({.learning_rate = rate,
                                 .rho = 0.8,
                                 .momentum = momentum,
                                 .epsilon = 1e-3,
                                 .centered = centered})),
                [=](double& w, double g, double, double* slots) {
                  slots[0] = 0.8 * slots[0] + 0.2 * g * g;
                  slots[1] = 0.8 * slots[1] + 0.2 * g;
                  const double d = slots[0] - (centered ? slots[1] * slots[1] : 0);
                  slots[2] = momentum * slots[2] + rate * g / std::sqrt(d + 1e-3);
                  w -= slots[2];
                });
}

TEST_CASE("Adagrad updates by its formula, from the sum of squares that it is given") {
  check_updates(
      updated(Adagrad({.learning_rate = rate, .initial_accumulator_value = 0.2, .epsilon = 1e-3})),
      [](double& w, double g, double, double* slots) {
        slots[0] += g * g;
        w -= rate * g / std::sqrt(slots[0] + 1e-3);
      },
      1, 0.2);
}

TEST_CASE("Adadelta updates by its formula") {
  check_updates(updated(Adadelta({.learning_rate = rate, .rho = 0.8, .epsilon = 1e-3})),
                [](double& w, double g, double, double* slots) {
                  slots[0] = 0.8 * slots[0] + 0.2 * g * g;
                  const double d = g * std::sqrt(slots[1] + 1e-3) / std::sqrt(slots[0] + 1e-3);
                  slots[1] = 0.8 * slots[1] + 0.2 * d * d;
                  w -= rate * d;
                });
}

TEST_CASE("Adamax updates by its formula") {
  check_updates(
      updated(Adamax({.learning_rate = rate, .beta_1 = 0.8, .beta_2 = 0.95, .epsilon = 1e-3})),
      [](double& w, double g, double t, double* slots) {
        slots[0] += (g - slots[0]) * 0.2;
        slots[1] = std::max(0.95 * slots[1], std::abs(g));
        w -= rate / (1 - std::pow(0.8, t)) * slots[0] / (slots[1] + 1e-3);
      });
}

TEST_CASE("Nadam updates by its formula, whose product it does not keep") {
  const auto momentum = [](double k) { return 0.8 * (1 - 0.5 * std::pow(0.96, k)); };
  check_updates(
      updated(Nadam({.learning_rate = rate, .beta_1 = 0.8, .beta_2 = 0.95, .epsilon = 1e-3})),
      [&](double& w, double g, double t, double* slots) {
        slots[2] = (t == 1 ? 1 : slots[2]) * momentum(t);
        slots[0] += (g - slots[0]) * 0.2;
        slots[1] += (g * g - slots[1]) * 0.05;
        const double mean = momentum(t + 1) * slots[0] / (1 - slots[2] * momentum(t + 1)) +
                            (1 - momentum(t)) * g / (1 - slots[2]);
        w -= rate * mean / (std::sqrt(slots[1] / (1 - std::pow(0.95, t))) + 1e-3);
      });
  double product = 1;
  for (int t = 1; t <= 2000; ++t) {
    product *= 0.9999 * (1 - 0.5 * std::pow(0.96, t));
    REQUIRE(nadam_product(0.9999, t) == Approx(product).epsilon(1e-12));
  }
}

TEST_CASE("ScheduleFreeAdamW updates as Keras 3.15 does, decayed or warmed up") {
  check_values(updated(ScheduleFreeAdamW({.learning_rate = rate,
                                          .beta_1 = 0.8,
                                          .beta_2 = 0.95,
                                          .epsilon = 1e-3,
                                          .weight_decay = 0.1})),
               {0.36191684007644653, -1.03865647315979, -0.330798476934433, 0.6980040669441223,
                2.022937774658203});
  check_values(updated(ScheduleFreeAdamW({.learning_rate = rate, .warmup_steps = 4})),
               {0.3934324383735657, -1.3134089708328247, -0.18907389044761658, 0.6645849943161011,
                2.3385589122772217});
}

TEST_CASE("Lamb updates as Keras 3.15 does, with the norms of a variable") {
  const Optimizer optimizer = Lamb(
      {.learning_rate = rate, .beta_1 = 0.8, .beta_2 = 0.95, .epsilon = 1e-3, .weight_decay = 0.1});
  const UpdateRule& rule = optimizer.update_rule();
  REQUIRE(rule.takes_norms());
  const std::unique_ptr<Device> device = make_device({.kind = "cpu"});
  const auto leaves_steps = device->compile(rule.kernel({.count = count}));
  const auto takes_steps =
      device->compile(rule.scaled_steps->kernel({.count = count, .scaled = true}));
  const auto squares = device->compile(PowerSumSpec{count, 2});
  const auto ratio_of = device->compile(rule.scaled_steps->factor(count));
  std::vector<float> w(start.begin(), start.end()), m(count), v(count);
  for (std::int64_t s = 0; s < updates; ++s) {
    StepScalars scalars{s, static_cast<float>(rate)};
    std::vector<float> g;
    for (std::int64_t i = 0; i < count; ++i) g.push_back(static_cast<float>(gradient(i, s)));
    double of_weights = 0, of_steps = 0;
    float ratio = 0;
    const auto run = [](Kernel& kernel, std::vector<void*> operands) {
      kernel.run(operands.data());
    };
    run(*leaves_steps, {&scalars, g.data(), w.data(), m.data(), v.data()});
    run(*squares, {w.data(), &of_weights});
    run(*squares, {g.data(), &of_steps});
    run(*ratio_of, {&of_weights, &of_steps, &ratio});
    run(*takes_steps, {&scalars, &ratio, g.data(), w.data()});
  }
  check_values(w, {0.5226226, -0.5483248, -0.5782009, 0.6666625, 1.430407});
}

TEST_CASE("Lion updates by its formula") {
  check_updates(updated(Lion({.learning_rate = rate, .beta_1 = 0.8, .beta_2 = 0.95})),
                [](double& w, double g, double, double* slots) {
                  w -= rate * sign(0.8 * slots[0] + 0.2 * g);
                  slots[0] = 0.95 * slots[0] + 0.05 * g;
                });
}

TEST_CASE("Ftrl updates by its formula, with any power") {
  const double power = GENERATE(-0.5, -0.7, 0.0);
  check_updates(
      updated(Ftrl({.learning_rate = rate,
                    .learning_rate_power = power,
                    .initial_accumulator_value = 0.2,
                    .l1_regularization_strength = 0.3,
                    .l2_regularization_strength = 0.2,
                    .l2_shrinkage_regularization_strength = 0.1,
                    .beta = 0.5})),
      [power](double& w, double g, double, double* slots) {
        const double sum = slots[0] + g * g;
        slots[1] +=
            g + 2 * 0.1 * w - (std::pow(sum, -power) - std::pow(slots[0], -power)) / rate * w;
        slots[0] = sum;
        w = (std::clamp(slots[1], -0.3, 0.3) - slots[1]) /
            (std::pow(sum, -power) / rate + 2 * (0.2 + 0.5 / (2 * rate)));
      },
      1, 0.2);
}

TEST_CASE("ten updates end where Keras 3.15 ends") {
  check_values(
      updated(Adagrad({.learning_rate = rate, .initial_accumulator_value = 0.2, .epsilon = 1e-3})),
      {0.5484961, -1.354191, -0.1051936, 0.5352819, 2.343895});
  check_values(updated(Adadelta({.learning_rate = rate, .rho = 0.8, .epsilon = 1e-3})),
               {0.8880538, -1.838038, 0.3713713, 0.150718, 2.848826});
  check_values(
      updated(Adamax({.learning_rate = rate, .beta_1 = 0.8, .beta_2 = 0.95, .epsilon = 1e-3})),
      {0.7468036, -1.293014, -0.06187344, 0.3759116, 2.261498});
  check_values(
      updated(Nadam({.learning_rate = rate, .beta_1 = 0.8, .beta_2 = 0.95, .epsilon = 1e-3})),
      {0.1943894, -0.840358, -0.5669119, 0.9227728, 1.860751});
  check_values(
      updated(Lion({.learning_rate = rate, .beta_1 = 0.8, .beta_2 = 0.95, .weight_decay = 0.5})),
      {0.05494472, -0.3949475, -0.4401327, 0.6764764, 0.9936848});
  check_values(updated(Ftrl({.learning_rate = rate,
                             .initial_accumulator_value = 0.2,
                             .l1_regularization_strength = 0.3,
                             .l2_regularization_strength = 0.2,
                             .l2_shrinkage_regularization_strength = 0.1,
                             .beta = 0.5})),
               {-0.2335643, 0.4256029, -0.467604, 0.4207772, -0.06508242});
}

TEST_CASE("without any gradient Ftrl gives zeros, and from a sum of 0 too") {
  const std::unique_ptr<Device> device = make_device({.kind = "cpu"});
  const auto kernel = device->compile(KernelSpec(FtrlSpec{.count = 1}));
  StepScalars scalars{0, 0.1f};
  float g = 0, w = 0, a = 0, z = 0;
  void* operands[] = {&scalars, &g, &w, &a, &z};
  kernel->run(operands);
  CHECK(w == 0);
  CHECK(a == 0);
}

TEST_CASE("a factor for the gradients is an operand of the kernel") {
  check_updates(
      updated(SGD({.learning_rate = rate}), 0.25f),
      [](double& w, double g, double, double*) { w -= rate * g; }, 0.25);
}

TEST_CASE("slots are those the kernel takes, in its order") {
  using Names = std::vector<std::string>;
  CHECK(SGD().slot_names() == Names{});
  CHECK(SGD({.momentum = 0.9}).slot_names() == Names{"momentum"});
  CHECK(Adam().slot_names() == Names{"m", "v"});
  CHECK(Adam({.amsgrad = true}).slot_names() == Names{"m", "v", "v_max"});
  CHECK(RMSprop().slot_names() == Names{"velocity"});
  CHECK(RMSprop({.momentum = 0.1, .centered = true}).slot_names() ==
        Names{"velocity", "momentum", "average_gradient"});
  CHECK(Adagrad().slot_names() == Names{"accumulator"});
  CHECK(Adadelta().slot_names() == Names{"accumulated_grad", "accumulated_delta_var"});
  CHECK(Adamax().slot_names() == Names{"m", "u"});
  CHECK(Nadam().slot_names() == Names{"m", "v"});
  CHECK(Lion().slot_names() == Names{"momentum"});
  CHECK(Ftrl().slot_names() == Names{"accumulator", "linear"});
  CHECK(Adam().update_rule().slots.size() == 2);
  CHECK(Adam().class_name() == "Adam");
  CHECK(AdamW().class_name() == "AdamW");
}

TEST_CASE("defaults are Keras's") {
  CHECK(SGD().learning_rate(0) == 0.01);
  CHECK(Adam().learning_rate(0) == 0.001);
  CHECK(AdamW().learning_rate(0) == 0.001);
  CHECK(RMSprop().learning_rate(0) == 0.001);
  const auto adam = *Adam().update_rule().kernel({.count = 7}).get_if<AdamSpec>();
  CHECK(adam.count == 7);
  CHECK(adam.beta_1 == 0.9);
  CHECK(adam.beta_2 == 0.999);
  CHECK(adam.epsilon == 1e-7);
  CHECK(adam.decay == 0);
  CHECK_FALSE(adam.scaled);
  CHECK_FALSE(adam.narrows);
  CHECK(SGD().update_rule().kernel({.count = 7, .narrows = true}).get_if<SgdSpec>()->narrows);
  CHECK(AdamW().update_rule().kernel({.count = 7, .scaled = true}).get_if<AdamSpec>()->decay ==
        0.004f);
  CHECK(AdamW().update_rule().kernel({.count = 7, .scaled = true}).get_if<AdamSpec>()->scaled);
  const auto rmsprop = *RMSprop().update_rule().kernel({.count = 7}).get_if<RmspropSpec>();
  CHECK(rmsprop.rho == 0.9);
  CHECK(rmsprop.epsilon == 1e-7);
  CHECK(SGD().update_rule().clipping == Clipping::none);
  for (const Optimizer& optimizer : {Adagrad(), Adadelta(), Adamax(), Nadam(), Lion(), Ftrl()}) {
    INFO(optimizer.class_name());
    CHECK(optimizer.learning_rate(0) == 0.001);
  }
  CHECK(Adagrad().update_rule().slots[0].initial == 0.1f);
  CHECK(Ftrl().update_rule().slots[0].initial == 0.1f);
  CHECK(Ftrl().update_rule().slots[1].initial == 0);
  CHECK(Ftrl().update_rule().kernel({.count = 7}).get_if<FtrlSpec>()->power == -0.5);
  CHECK(Adadelta().update_rule().kernel({.count = 7}).get_if<AdadeltaSpec>()->rho == 0.95);
  CHECK(Lion().update_rule().kernel({.count = 7}).get_if<LionSpec>()->beta_2 == 0.99);
  CHECK(Adamax().update_rule().kernel({.count = 7}).get_if<AdamaxSpec>()->beta_2 == 0.999);
  CHECK(Nadam().update_rule().kernel({.count = 7}).get_if<NadamSpec>()->beta_2 == 0.999);
}

TEST_CASE("gradients are clipped in one way at most") {
  CHECK(Adam({.clipnorm = 0.5}).update_rule().clipping == Clipping::norm);
  CHECK(SGD({.clipvalue = 0.5}).update_rule().clipping == Clipping::value);
  const UpdateRule rule = RMSprop({.global_clipnorm = 2.5}).update_rule();
  CHECK(rule.clipping == Clipping::global_norm);
  CHECK(rule.clip == 2.5f);
  CHECK_THROWS_WITH(Adam({.clipnorm = 1.0, .global_clipnorm = 1.0}),
                    "Adam: clipnorm and global_clipnorm are both given; gradients are clipped in "
                    "one way");
  CHECK_THROWS_WITH(
      SGD({.clipvalue = 0.0}),
      "SGD: clipvalue: expected a positive number of at most the largest float32, found 0");
}

TEST_CASE("a constant rate can be set, a schedule's cannot") {
  Optimizer constant = SGD();
  constant.set_learning_rate(0.5);
  CHECK(constant.learning_rate(3) == 0.5);
  CHECK_THROWS_WITH(constant.set_learning_rate(-1), Catch::Contains("found -1"));
  Optimizer scheduled =
      Adam({.learning_rate = ExponentialDecay(
                {.initial_learning_rate = 1, .decay_steps = 1, .decay_rate = 0.5})});
  CHECK(scheduled.learning_rate(0) == 1);
  CHECK(scheduled.learning_rate(2) == 0.25);
  CHECK_THROWS_WITH(scheduled.set_learning_rate(0.5),
                    "the learning rate of Adam follows ExponentialDecay and cannot be set; set the "
                    "optimizer's learning_rate to a number");
}

TEST_CASE("options out of range are errors that name them") {
  CHECK_THROWS_WITH(SGD({.momentum = 1.5}),
                    "SGD: momentum: expected a number between 0 and 1, found 1.5");
  CHECK_THROWS_WITH(Adam({.beta_1 = 1}), Catch::Contains("Adam: beta_1"));
  CHECK_THROWS_WITH(Adam({.epsilon = -1}),
                    "Adam: epsilon: expected a number between 0 and the largest float32, found -1");
  CHECK_THROWS_WITH(RMSprop({.rho = std::nan("")}), Catch::Contains("RMSprop: rho"));
  CHECK_THROWS_WITH(
      SGD({.clipnorm = 1e300}),
      "SGD: clipnorm: expected a positive number of at most the largest float32, found 1e+300");
  CHECK_THROWS_WITH(Ftrl({.learning_rate_power = 0.5}), Catch::Contains("learning_rate_power"));
  CHECK_THROWS_WITH(Lion({.beta_1 = 0}), Catch::Contains("Lion: beta_1"));
  CHECK_THROWS_WITH(Adagrad({.initial_accumulator_value = -1}),
                    Catch::Contains("initial_accumulator_value"));
  CHECK_THROWS_WITH(AdamW({.weight_decay = -0.1}), Catch::Contains("AdamW: weight_decay"));
  // What float32 would make 0 of, and then divide by.
  CHECK_THROWS_WITH(Adafactor({.epsilon_1 = 1e-50}), Catch::Contains("Adafactor: epsilon_1"));
  CHECK_THROWS_WITH(ScheduleFreeAdamW({.beta_1 = 1e-50}),
                    Catch::Contains("ScheduleFreeAdamW: beta_1"));
}

TEST_CASE("options of running means are refused where there are none") {
  CHECK_THROWS_WITH(Adam({.ema = {.momentum = 0.9}}),
                    "Adam: ema_momentum needs running means of weights; set use_ema: true");
  CHECK_THROWS_WITH(SGD({.ema = {.overwrite_frequency = 3}}),
                    Catch::StartsWith("SGD: ema_overwrite_frequency needs"));
  CHECK_NOTHROW(Adam({.ema = {.momentum = 0.99}}));
  CHECK_NOTHROW(Adam({.ema = {.use = true, .momentum = 0.9}}));
}

TEST_CASE("an optimizer lists all that it was given") {
  CHECK(SGD({.learning_rate = 0.5, .momentum = 0.25, .clipnorm = 2}).settings() ==
        Settings{{"class", "SGD"},
                 {"learning_rate", "0.5"},
                 {"weight_decay", "none"},
                 {"exclude_from_weight_decay", "[]"},
                 {"clipnorm", "2"},
                 {"clipvalue", "none"},
                 {"global_clipnorm", "none"},
                 {"use_ema", "false"},
                 {"ema_momentum", "0.99"},
                 {"ema_overwrite_frequency", "none"},
                 {"momentum", "0.25"},
                 {"nesterov", "false"}});
  const Settings adam = Adam({.beta_1 = 0.5}).settings();
  CHECK(std::find(adam.begin(), adam.end(), Settings::value_type("beta_1", "0.5")) != adam.end());
  CHECK(adam != Adam({.beta_1 = 0.5, .amsgrad = true}).settings());
  CHECK(RMSprop({.rho = 0.5}).settings() != RMSprop().settings());
}

}  // namespace meshwork::optimizers_test
