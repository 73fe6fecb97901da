// A regularizer and a constraint of one's own: kernels of elements, of norms and of the whole give
// the numbers worked out by hand, however the variable is split.
#include <cmath>
#include <cstdint>
#include <vector>

#include "layers/dense.h"
#include "runtime/device/cpu/body_loops.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/middle.h"
#include "runtime/device/kernels/norms.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/one_rank.h"

namespace meshwork::own_penalties_test {

using namespace meshwork::test;

namespace {

// s = the sum of x^4. Operands: x, s.
struct FourthPowersSpec {
  std::int64_t count = 0;
  [[nodiscard]] std::string text() const { return spec::sized("fourth powers", {count}); }
  [[nodiscard]] KernelWork work() const { return spec::passes(1, count); }
};
// dx += factor * x^3. Operands: x, dx.
struct CubesSpec {
  std::int64_t count = 0;
  float factor = 0;
  [[nodiscard]] std::string text() const { return spec::sized("cubes", {count}); }
  [[nodiscard]] KernelWork work() const { return spec::passes(3, count); }
};
// y = max(x, lowest). Operands: x, y.
struct LowestSpec {
  std::int64_t count = 0;
  float lowest = 0;
  [[nodiscard]] std::string text() const { return spec::sized("lowest", {count}); }
  [[nodiscard]] KernelWork work() const { return spec::passes(2, count); }
  [[nodiscard]] InPlace in_place() const { return {{0}}; }
};
// f = 1 / (1 + n). Operands: n^2, f.
struct ShrinkSpec {
  std::int64_t count = 0;
  [[nodiscard]] std::string text() const { return spec::sized("shrink", {count}); }
  [[nodiscard]] KernelWork work() const { return spec::passes(3, count); }
};

struct FourthPower {
  const float* x;
  double operator()(std::int64_t i) const {
    const double square = static_cast<double>(x[i]) * static_cast<double>(x[i]);
    return square * square;
  }
};
struct Cube {
  const float* x;
  float* dx;
  float factor;
  void operator()(std::int64_t i) const { dx[i] += factor * x[i] * x[i] * x[i]; }
};
struct Lowest {
  const float* x;
  float* y;
  float lowest;
  void operator()(std::int64_t i) const { y[i] = x[i] < lowest ? lowest : x[i]; }
};
struct Shrink {
  const double* squares;
  float* factors;
  void operator()(std::int64_t i) const {
    factors[i] = static_cast<float>(1 / (1 + std::sqrt(squares[i])));
  }
};

void add_kernels() {
  cpu::extend_kernels([](cpu::Kernels& kernels) {
    kernels.add<FourthPowersSpec>([](const FourthPowersSpec& spec, const cpu::Context& context) {
      return cpu::Loops::sum(context, spec.count, 4, 2, 1.0,
                             [](void* const* operands) { return FourthPower{at(operands, 0)}; });
    });
    kernels.add<CubesSpec>([](const CubesSpec& spec, const cpu::Context& context) {
      return cpu::Loops::elements(context, spec.count, 12, [spec](void* const* operands) {
        return Cube{at(operands, 0), at(operands, 1), spec.factor};
      });
    });
    kernels.add<LowestSpec>([](const LowestSpec& spec, const cpu::Context& context) {
      return cpu::Loops::elements(context, spec.count, 8, [spec](void* const* operands) {
        return Lowest{at(operands, 0), at(operands, 1), spec.lowest};
      });
    });
    kernels.add<ShrinkSpec>([](const ShrinkSpec& spec, const cpu::Context& context) {
      return cpu::Loops::elements(context, spec.count, 12, [](void* const* operands) {
        return Shrink{at<const double>(operands, 0), at(operands, 1)};
      });
    });
  });
}

// 0.1 * the sum of w^4.
Regularizer fourth_powers() {
  return {.name = "FourthPowers",
          .sums = {{0.1, [](std::int64_t count) { return FourthPowersSpec{count}; }}},
          .slope = [](std::int64_t count) {
            return CubesSpec{count, 0.4f};
          }};
}

// 0.01 * the square of the sum of w.
Regularizer square_of_sum() {
  constexpr double factor = 0.01;
  return {.name = "SquareOfSum",
          .whole = WholeRule{[](WholeBooking& booking, const Shape& shape, const Operand& values) {
                               const MiddleExtents all{
                                   .outer = 1, .middle = element_count(shape), .inner = 1};
                               const Operand sum = booking.scratch(1);
                               booking.emit(MiddleSumSpec{all}, {values, sum});
                               return WholePenalty{factor, PowerSumSpec{1, 2}, sum, {values}};
                             },
                             [](WholeBooking& booking, const Shape& shape, const WholePenalty& of) {
                               const std::int64_t count = element_count(shape);
                               const Operand slopes = booking.scratch(count);
                               booking.emit(AffineSpec{count, 0, static_cast<float>(2 * factor)},
                                            {of.kept.front(), slopes});
                               const MiddleExtents all{.outer = 1, .middle = count, .inner = 1};
                               booking.emit(MiddleScaleSpec{all}, {slopes, of.terms, slopes});
                               return slopes;
                             }}};
}

using Values = std::vector<double>;

struct Stepped {
  double loss = 0;
  std::vector<float> kernel;
};

const std::vector<float> start{0.5f, -0.25f, 1, 0.75f, 0.3f, -0.6f};  // (2, 3)

// What one step of size 1 makes of `start`, of which the penalty is all the loss.
Stepped stepped(DeviceMesh& mesh, const LayoutEntries& layouts, const Regularizer& regularizer,
                const Constraint& constraint) {
  add_kernels();
  constexpr std::int64_t rows = 5;
  const std::vector<float> features(rows * 2, 0), targets(rows * 3, 0);
  const auto input = Input({2});
  Model model(input,
              Dense({.name = "d",
                     .units = 3,
                     .use_bias = false,
                     .kernel_regularizer = regularizer,
                     .kernel_constraint = constraint})(input),
              spread_over(mesh, layouts), {.device = "cpu", .check_plan = true});
  model.compile({.loss = MeanSquaredError(), .optimizer = SGD({.learning_rate = 1.0})});
  model.set_variable("d/kernel", start);
  const BatchView batch{.rows = rows, .inputs = {features}, .targets = {targets}};
  const double loss = model.train_step(batch).at("loss");
  return {loss, model.variable("d/kernel")};
}

std::vector<std::pair<std::vector<MeshAxis>, LayoutEntries>> all_spreads() {
  const int ranks = Communicator::world().size();
  return {{{{"data", ranks}}, {}},
          {{{"data", ranks}}, {{"d/kernel", {"data", unsharded}}}},
          {{{"data", 1}, {"model", ranks}}, {{"d/kernel", {unsharded, "model"}}}},
          {{{"data", 1}, {"model", ranks}}, {{"d/kernel", {"model", unsharded}}}}};
}

std::vector<float> floats(const Values& values) {
  return {values.begin(), values.end()};
}

}  // namespace

TEST_CASE("penalties of one's own are in the loss and in the gradient, on every mesh") {
  double fourth = 0, sum = 0;
  for (const float w : start) {
    fourth += 0.1 * std::pow(w, 4);
    sum += w;
  }
  Values by_elements, by_whole;
  for (const float w : start) {
    by_elements.push_back(w - 0.4 * std::pow(w, 3));
    by_whole.push_back(w - 0.02 * sum);
  }
  for (const auto& [axes, layouts] : all_spreads()) {
    DeviceMesh mesh(axes);
    INFO(to_string(layouts) << " on " << to_string(mesh.shape()));
    const Stepped elements = stepped(mesh, layouts, fourth_powers(), {});
    CHECK(elements.loss == Approx(fourth).epsilon(1e-6));
    CHECK(difference(elements.kernel, floats(by_elements), 1e-6) == "");
    const Stepped whole = stepped(mesh, layouts, square_of_sum(), {});
    CHECK(whole.loss == Approx(0.01 * sum * sum).epsilon(1e-6));
    CHECK(difference(whole.kernel, floats(by_whole), 1e-6) == "");
  }
}

TEST_CASE("a constraint of one's own changes elements, then norms, on every mesh") {
  const Constraint own{.name = "LowestThenShrink",
                       .elements =
                           [](std::int64_t count) {
                             return LowestSpec{count, -0.5f};
                           },
                       .norms = NormRule{0, [](std::int64_t count) { return ShrinkSpec{count}; }}};
  Values expected(start.begin(), start.end());
  expected.back() = -0.5;
  for (std::size_t column = 0; column < 3; ++column) {
    const double factor = 1 / (1 + std::hypot(expected[column], expected[column + 3]));
    expected[column] *= factor;
    expected[column + 3] *= factor;
  }
  for (const auto& [axes, layouts] : all_spreads()) {
    DeviceMesh mesh(axes);
    INFO(to_string(layouts) << " on " << to_string(mesh.shape()));
    const Stepped found = stepped(mesh, layouts, {}, own);
    CHECK(found.loss == 0);
    CHECK(difference(found.kernel, floats(expected), 1e-6) == "");
  }
}

TEST_CASE("a regularizer or a constraint that lacks a part is named") {
  const auto layer = [](const Regularizer& regularizer, const Constraint& constraint) {
    return Dense({.name = "d",
                  .units = 2,
                  .kernel_regularizer = regularizer,
                  .kernel_constraint = constraint})(Input({3}));
  };
  Regularizer own = fourth_powers();
  own.slope = nullptr;
  CHECK_THROWS_WITH(layer(own, {}),
                    "d: its variable \"kernel\": the regularizer \"FourthPowers\" has sums but no "
                    "slope; it needs both or neither");
  own = fourth_powers();
  own.sums.clear();
  CHECK_THROWS_WITH(layer(own, {}), Catch::Contains("has a slope but no sums"));
  own = square_of_sum();
  own.whole->derivative = nullptr;
  CHECK_THROWS_WITH(layer(own, {}), Catch::Contains("has no derivative of the whole"));
  CHECK_THROWS_WITH(layer({}, {.name = "Mine", .norms = NormRule{}}),
                    Catch::Contains("the constraint \"Mine\" has norms without factors"));
  CHECK_THROWS_WITH(
      layer({}, {.name = "Mine", .elements = [](std::int64_t count) { return CubesSpec{count}; }}),
      Catch::Contains("does not say by `in_place` that it may write over what it reads"));
  own = fourth_powers();
  own.name = "";
  CHECK_THROWS_WITH(layer(own, {}), Catch::Contains("a regularizer has no name"));
}

}  // namespace meshwork::own_penalties_test
