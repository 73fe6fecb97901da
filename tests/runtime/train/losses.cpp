// Losses: hand-worked numbers and Keras's documented ones, references in double precision,
// gradients by differences, and every split of every dimension against the whole.
#include "runtime/train/losses/loss.h"

#include "runtime/train/losses/binary_crossentropy.h"
#include "runtime/train/losses/categorical_crossentropy.h"
#include "runtime/train/losses/mean_absolute_error.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "tests/runtime/train/comparison_cases.h"

namespace meshwork::losses_test {

using namespace meshwork::test;

namespace {

// References, for one row.

double squared_error(const Values& p, const Values& t) {
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) sum += (p[i] - t[i]) * (p[i] - t[i]);
  return sum / static_cast<double>(p.size());
}

double absolute_error(const Values& p, const Values& t) {
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) sum += std::abs(p[i] - t[i]);
  return sum / static_cast<double>(p.size());
}

double clipped(double probability) {
  return std::clamp(probability, 1e-7, 1 - 1e-7);
}

Values softmax(const Values& logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  Values p;
  double sum = 0;
  for (const double x : logits) sum += std::exp(x - largest);
  for (const double x : logits) p.push_back(std::exp(x - largest) / sum);
  return p;
}

Values smoothed(const Values& weights, double smoothing) {
  Values t;
  for (const double w : weights) {
    t.push_back(w * (1 - smoothing) + smoothing / static_cast<double>(weights.size()));
  }
  return t;
}

double crossentropy(const Values& p, const Values& weights, bool from_logits, double smoothing) {
  const Values t = smoothed(weights, smoothing);
  const Values q = from_logits ? softmax(p) : p;
  double sum = 0;
  for (const double x : q) sum += x;
  double loss = 0;
  for (std::size_t i = 0; i < q.size(); ++i) {
    loss -= t[i] * std::log(from_logits ? q[i] : clipped(q[i] / sum));
  }
  return loss;
}

Values weights_of(double number, std::size_t classes) {
  Values weights(classes, 0);
  weights[static_cast<std::size_t>(number)] = 1;
  return weights;
}

double binary(const Values& p, const Values& targets, bool from_logits, double smoothing) {
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double t = targets[i] * (1 - smoothing) + smoothing / 2;
    const double q = from_logits ? 1 / (1 + std::exp(-p[i])) : clipped(p[i]);
    sum -= t * std::log(q) + (1 - t) * std::log(1 - q);
  }
  return sum / static_cast<double>(p.size());
}

// The gradient of the mean by central differences of the sum. See check_gradients for the step and
// the tolerance; one row's share of the mean is what they hold for.
void check_gradient(const Operation& operation, const OperationCase& what, double tolerance) {
  const Tensor& prediction = what.inputs[0];
  const double rows = Metric::value_count(prediction.shape);
  const double step = 1e-2;
  Tensor expected(prediction.shape);
  OperationCase moved{.inputs = what.inputs};
  for (std::size_t i = 0; i < prediction.values.size(); ++i) {
    double& value = moved.inputs[0].values[i];
    value = static_cast<float>(prediction.values[i] + step);
    const double above = value;
    const double high = run_whole(operation, moved).output.values[0];
    value = static_cast<float>(prediction.values[i] - step);
    const double low = run_whole(operation, moved).output.values[0];
    expected.values[i] = (high - low) / (above - value) / rows;
    value = prediction.values[i];
  }
  CHECK(difference(*run_whole(operation, what).gradients[0], expected, tolerance) == "");
}

void check_gradient(const Metric& loss, const Tensor& prediction, const Tensor& target,
                    double tolerance = 2e-3) {
  check_gradient(*operation_of(loss, prediction, target), training_case(prediction, target),
                 tolerance);
}

void check_splits(const Metric& loss, const Tensor& prediction, const Tensor& target) {
  check_strategies(*operation_of(loss, prediction, target), training_case(prediction, target));
}

}  // namespace

TEST_CASE("the mean squared error and its gradient are those worked out by hand") {
  // Rows (1 + 0) / 2 and (4 + 16) / 2; the mean's gradient is 2 (p - t) / (2 columns * 2 rows).
  const Tensor p({2, 2}, {1, 2, 3, 5});
  const Tensor t({2, 2}, {0, 2, 1, 1});
  CHECK(sum_of(*MeanSquaredError(), p, t) == 10.5);
  CHECK(mean_of(*MeanSquaredError(), p, t) == 5.25);
  CHECK(gradient_of(*MeanSquaredError(), p, t).values == Values{0.5, 0, 1, 2});
}

TEST_CASE("the mean absolute error and its gradient are those worked out by hand") {
  // Rows (1 + 0) / 2 and (2 + 4) / 2; the mean's gradient is sign(p - t) / (2 columns * 2 rows).
  const Tensor p({2, 2}, {1, 2, -3, 5});
  const Tensor t({2, 2}, {0, 2, -1, 1});
  CHECK(sum_of(*MeanAbsoluteError(), p, t) == 3.5);
  CHECK(gradient_of(*MeanAbsoluteError(), p, t).values == Values{0.25, 0, -0.25, 0.25});
}

TEST_CASE("crossentropies of probabilities are those of Keras's documentation") {
  // keras.io, losses/probabilistic_losses: -log 0.95 and -log 0.1, rounded there to 1.177.
  const Tensor p({2, 3}, {0.05, 0.95, 0, 0.1, 0.8, 0.1});
  const double expected = (-std::log(0.95) - std::log(0.1)) / 2;
  CHECK(expected == Approx(1.177).epsilon(1e-3));
  CHECK(mean_of(*SparseCategoricalCrossentropy(), p, Tensor({2}, {1, 2})) ==
        Approx(expected).epsilon(1e-6));
  CHECK(mean_of(*CategoricalCrossentropy(), p, Tensor({2, 3}, {0, 1, 0, 0, 0, 1})) ==
        Approx(expected).epsilon(1e-6));
  // Of the same page: 0.815 from probabilities, 0.865 from logits.
  CHECK(mean_of(*BinaryCrossentropy(), Tensor({2, 2}, {0.6, 0.4, 0.4, 0.6}),
                Tensor({2, 2}, {0, 1, 0, 0})) == Approx(0.815).epsilon(1e-3));
  CHECK(mean_of(*BinaryCrossentropy({.from_logits = true}),
                Tensor({1, 4}, {-18.6, 0.51, 2.94, -12.8}),
                Tensor({1, 4}, {0, 1, 0, 0})) == Approx(0.865).epsilon(1e-3));
}

TEST_CASE("the crossentropy of logits and its gradient are those worked out by hand") {
  // Logits 0 and ln 3 are the probabilities 1/4 and 3/4.
  const Tensor x({1, 2}, {0, std::log(3)});
  const SharedLoss sparse = SparseCategoricalCrossentropy({.from_logits = true});
  CHECK(sum_of(*sparse, x, Tensor({1}, {1})) == Approx(std::log(4.0 / 3)).epsilon(1e-6));
  CHECK(difference(gradient_of(*sparse, x, Tensor({1}, {1})), Tensor({1, 2}, {0.25, -0.25}),
                   1e-6) == "");
  // Smoothing by 0.1 makes 0 and 1 the weights 0.05 and 0.95.
  const SharedLoss dense = CategoricalCrossentropy({.from_logits = true, .label_smoothing = 0.1});
  CHECK(sum_of(*dense, x, Tensor({1, 2}, {0, 1})) ==
        Approx(0.05 * std::log(4) + 0.95 * std::log(4.0 / 3)).epsilon(1e-6));
  CHECK(difference(gradient_of(*dense, x, Tensor({1, 2}, {0, 1})), Tensor({1, 2}, {0.2, -0.2}),
                   1e-6) == "");
}

TEST_CASE("losses by value equal their definitions, have their gradients, and split freely") {
  const Shape shape = GENERATE(Shape{5, 7}, Shape{3, 2, 5}, Shape{7, 1});
  INFO("shape " << to_string(shape));
  const Tensor p = random_tensor(shape, 1, -2, 2);
  Tensor t = random_tensor(shape, 2, -2, 2);
  SECTION("mean squared error") {
    CHECK(sum_of(*MeanSquaredError(), p, t) ==
          Approx(reference_sum(p, t, squared_error)).epsilon(1e-6));
    check_gradient(*MeanSquaredError(), p, t);
    check_splits(*MeanSquaredError(), p, t);
  }
  SECTION("mean absolute error, away from its kinks") {
    for (std::size_t i = 0; i < t.values.size(); ++i) {
      if (std::abs(p.values[i] - t.values[i]) < 0.05) t.values[i] += 0.25;
    }
    CHECK(sum_of(*MeanAbsoluteError(), p, t) ==
          Approx(reference_sum(p, t, absolute_error)).epsilon(1e-6));
    check_gradient(*MeanAbsoluteError(), p, t);
    check_splits(*MeanAbsoluteError(), p, t);
  }
  SECTION("binary crossentropy") {
    const bool from_logits = GENERATE(false, true);
    const double smoothing = GENERATE(0.0, 0.2);
    const SharedLoss loss =
        BinaryCrossentropy({.from_logits = from_logits, .label_smoothing = smoothing});
    const Tensor predicted = from_logits ? p : random_tensor(shape, 3, 0.1, 0.9);
    const Tensor wanted = random_tensor(shape, 4, 0, 1);
    CHECK(sum_of(*loss, predicted, wanted) ==
          Approx(reference_sum(predicted, wanted, [&](const Values& a, const Values& b) {
            return binary(a, b, from_logits, smoothing);
          })).epsilon(1e-6));
    check_gradient(*loss, predicted, wanted, 5e-3);
    check_splits(*loss, predicted, wanted);
  }
}

TEST_CASE("sparse crossentropies equal their definition and split over classes") {
  const Shape shape = GENERATE(Shape{5, 7}, Shape{3, 2, 5});
  const bool from_logits = GENERATE(false, true);
  const bool trailing_one = GENERATE(false, true);
  INFO("shape " << to_string(shape) << ", logits " << from_logits);
  Shape rows(shape.begin(), shape.end() - 1);
  if (trailing_one) rows.push_back(1);
  const Tensor p = from_logits ? random_tensor(shape, 1, -3, 3) : random_tensor(shape, 1, 0.1, 2);
  const Tensor t = random_classes(rows, shape.back(), 2);
  const SharedLoss loss = SparseCategoricalCrossentropy({.from_logits = from_logits});
  CHECK(sum_of(*loss, p, t) == Approx(reference_sum(p, t, [&](const Values& a, const Values& b) {
                                 return crossentropy(a, weights_of(b[0], a.size()), from_logits, 0);
                               })).epsilon(1e-6));
  check_gradient(*loss, p, t, 5e-3);
  check_splits(*loss, p, t);
}

TEST_CASE("dense crossentropies equal their definition and split over classes") {
  const Shape shape = GENERATE(Shape{5, 7}, Shape{3, 2, 5});
  const bool from_logits = GENERATE(false, true);
  const double smoothing = GENERATE(0.0, 0.1);
  INFO("shape " << to_string(shape) << ", logits " << from_logits << ", smoothing " << smoothing);
  const Tensor p = from_logits ? random_tensor(shape, 1, -3, 3) : random_tensor(shape, 1, 0.1, 2);
  // Weights need not add up to 1.
  const Tensor t = random_tensor(shape, 2, 0, 1);
  const SharedLoss loss =
      CategoricalCrossentropy({.from_logits = from_logits, .label_smoothing = smoothing});
  CHECK(sum_of(*loss, p, t) == Approx(reference_sum(p, t, [&](const Values& a, const Values& b) {
                                 return crossentropy(a, b, from_logits, smoothing);
                               })).epsilon(1e-6));
  check_gradient(*loss, p, t, 5e-3);
  check_splits(*loss, p, t);
}

TEST_CASE("weights of samples and of rows multiply losses and gradients, and split freely") {
  const Shape shape = GENERATE(Shape{5, 7}, Shape{3, 2, 5}, Shape{7, 1});
  const Shape of_rows(shape.begin(), shape.end() - 1);
  const Shape weighing = GENERATE(false, true) ? of_rows : Shape{shape.front()};
  INFO("shape " << to_string(shape) << ", weights " << to_string(weighing));
  Tensor weights = random_tensor(weighing, 5, 0.25, 3);
  weights.values[1] = 0;
  const Tensor x = random_tensor(shape, 1, -3, 3),
               probabilities = random_tensor(shape, 3, 0.1, 0.9);
  const Tensor values = random_tensor(shape, 4, 0, 1);
  const Tensor numbers = random_classes(of_rows, shape.back(), 2);
  const auto check = [&](const SharedLoss& loss, const Tensor& p, const Tensor& t,
                         const std::function<double(const Values&, const Values&)>& of_row) {
    INFO(loss->name());
    const auto operation = loss->weighted_operation(p.shape, t.shape, weights.shape);
    OperationCase what = training_case(p, t);
    what.inputs.push_back(weights);
    what.wanted.push_back(false);
    std::size_t row = 0;
    const std::size_t rows_a_weight =
        static_cast<std::size_t>(element_count(of_rows)) / weights.values.size();
    const double expected = reference_sum(p, t, [&](const Values& a, const Values& b) {
      return weights.values[row++ / rows_a_weight] * of_row(a, b);
    });
    CHECK(run_whole(*operation, what).output.values[0] == Approx(expected).epsilon(1e-6));
    check_gradient(*operation, what, 5e-3);
    check_strategies(*operation, what);
    // Weights of 1 change no bit.
    what.inputs.back() = Tensor(weighing, Values(weights.values.size(), 1));
    const OperationResult ones = run_whole(*operation, what);
    CHECK(ones.output.values[0] == sum_of(*loss, p, t));
    CHECK(ones.gradients[0]->values == gradient_of(*loss, p, t).values);
  };
  check(MeanSquaredError(), x, values, squared_error);
  Tensor apart = x;
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    if (std::abs(x.values[i] - values.values[i]) < 0.05) apart.values[i] += 0.25;
  }
  check(MeanAbsoluteError(), apart, values, absolute_error);
  for (const bool from_logits : {false, true}) {
    const Tensor& p = from_logits ? x : probabilities;
    check(BinaryCrossentropy({.from_logits = from_logits, .label_smoothing = 0.2}), p, values,
          [&](const Values& a, const Values& b) { return binary(a, b, from_logits, 0.2); });
    if (shape.back() == 1) continue;
    check(SparseCategoricalCrossentropy({.from_logits = from_logits}), p, numbers,
          [&](const Values& a, const Values& b) {
            return crossentropy(a, weights_of(b[0], a.size()), from_logits, 0);
          });
    check(CategoricalCrossentropy({.from_logits = from_logits, .label_smoothing = 0.1}), p, values,
          [&](const Values& a, const Values& b) { return crossentropy(a, b, from_logits, 0.1); });
  }
}

TEST_CASE("the weighted mean is over the number of rows, as in Keras") {
  // keras.io, losses/probabilistic_losses, CategoricalCrossentropy with sample_weight [0.3, 0.7]:
  // 0.814; MeanSquaredError with [0.7, 0.3]: 0.25.
  const auto mean = [](const SharedLoss& loss, const Tensor& p, const Tensor& t,
                       const Tensor& weights) {
    const auto operation = loss->weighted_operation(p.shape, t.shape, weights.shape);
    return run_whole(*operation, {.inputs = {p, t, weights}}).output.values[0] /
           Metric::value_count(p.shape);
  };
  const Tensor p({2, 3}, {0.05, 0.95, 0, 0.1, 0.8, 0.1});
  CHECK(mean(SparseCategoricalCrossentropy(), p, Tensor({2}, {1, 2}), Tensor({2}, {0.3, 0.7})) ==
        Approx(0.814).epsilon(1e-3));
  CHECK(mean(CategoricalCrossentropy(), p, Tensor({2, 3}, {0, 1, 0, 0, 0, 1}),
             Tensor({2}, {0.3, 0.7})) == Approx(0.814).epsilon(1e-3));
  CHECK(mean(MeanSquaredError(), Tensor({2, 2}, {1, 1, 1, 0}), Tensor({2, 2}, {0, 1, 0, 0}),
             Tensor({2}, {0.7, 0.3})) == Approx(0.25).epsilon(1e-6));
}

TEST_CASE("weights of another shape or type are errors that say what was expected and found") {
  const SharedLoss loss = SparseCategoricalCrossentropy();
  CHECK_THROWS_WITH(loss->weighted_operation({-1, 4, 10}, {-1, 4}, {-1, 10}),
                    "expected a weight for each sample, of shape (batch), or for each row, of "
                    "shape (batch, 4), found (batch, 10)");
  CHECK_THROWS_WITH(loss->weighted_operation({-1, 10}, {-1}, {-1, 1}),
                    "expected a weight for each sample, of shape (batch), found (batch, 1)");
  const auto operation = loss->weighted_operation({-1, 10}, {-1}, {-1});
  CHECK_THROWS_WITH(operation->output_type(
                        std::vector{ElementType::float32, ElementType::int32, ElementType::int32}),
                    "expected weights of float32, found int32");
  const std::vector<Shape> shapes{{8, 3, 5}, {8, 3}, {8}};
  const Rule rule = loss->weighted_operation(shapes[0], shapes[1], shapes[2])->rule(shapes);
  CHECK(rule.inputs == std::vector<std::string>{"btk", "bt", "b"});
  CHECK(rule.own == "k");
}

TEST_CASE("clipped probabilities have a loss and no gradient of their own") {
  // The right class has the probability 0, clipped to 1e-7; the row's gradient is all 0.
  const Tensor p({2, 3}, {0, 0.25, 0.75, 0.5, 0.25, 0.25});
  const Tensor t({2}, {0, 0});
  CHECK(sum_of(*SparseCategoricalCrossentropy(), p, t) ==
        Approx(-std::log(1e-7) - std::log(0.5)).epsilon(1e-6));
  // The other row: q = p / s, -log q_0 has the gradient (1 / s - [c = 0] / p_0), over 2 rows.
  CHECK(difference(gradient_of(*SparseCategoricalCrossentropy(), p, t),
                   Tensor({2, 3}, {0, 0, 0, -0.5, 0.5, 0.5}), 1e-6) == "");
}

TEST_CASE("logits of any size have a finite loss") {
  const Tensor x({2, 3}, {1e4, -1e4, 0, -3e4, -3e4, -3e4});
  const SharedLoss loss = SparseCategoricalCrossentropy({.from_logits = true});
  CHECK(sum_of(*loss, x, Tensor({2}, {1, 2})) == Approx(2e4 + std::log(3)).epsilon(1e-6));
  CHECK(difference(gradient_of(*loss, x, Tensor({2}, {1, 2})),
                   Tensor({2, 3}, {0.5, -0.5, 0, 1.0 / 6, 1.0 / 6, -1.0 / 3}), 1e-6) == "");
}

TEST_CASE("targets of one value a sample may leave out the last dimension") {
  const Tensor p = random_tensor({5, 1}, 1);
  const Tensor t = random_tensor({5, 1}, 2);
  const Tensor flat({5}, t.values);
  CHECK(sum_of(*MeanSquaredError(), p, flat) == sum_of(*MeanSquaredError(), p, t));
  check_splits(*MeanSquaredError(), p, flat);
  const Tensor batch({5}, p.values);
  CHECK(sum_of(*MeanSquaredError(), batch, flat) == sum_of(*MeanSquaredError(), p, t));
  CHECK(MeanSquaredError()->value_count({5}) == 5);
  check_splits(*MeanSquaredError(), batch, flat);
}

TEST_CASE("an empty batch has the loss 0") {
  CHECK(sum_of(*MeanSquaredError(), Tensor({0, 3}), Tensor({0, 3})) == 0);
  CHECK(sum_of(*SparseCategoricalCrossentropy({.from_logits = true}), Tensor({0, 3}),
               Tensor({0})) == 0);
  CHECK(MeanSquaredError()->value_count({0, 3}) == 0);
  CHECK(gradient_of(*MeanSquaredError(), Tensor({0, 3}), Tensor({0, 3})).values.empty());
}

TEST_CASE("losses count rows, and tell targets and classes from predictions") {
  const Shape p{-1, 4, 10};
  CHECK(MeanSquaredError()->target_shape(p) == p);
  CHECK(CategoricalCrossentropy()->target_shape(p) == p);
  CHECK(SparseCategoricalCrossentropy()->target_shape(p) == Shape{-1, 4});
  CHECK(MeanSquaredError()->value_count({6, 4, 10}) == 24);
  CHECK(SparseCategoricalCrossentropy()->value_count({6, 4, 10}) == 24);
  CHECK(SparseCategoricalCrossentropy()->target_classes(p, {-1, 4}) == 10);
  CHECK(CategoricalCrossentropy()->target_classes(p, p) == 0);
  CHECK(MeanSquaredError()->better() == Better::lower);
  CHECK(MeanSquaredError()->name() == "mean_squared_error");
  CHECK(MeanSquaredError({.name = "mse"})->name() == "mse");
}

TEST_CASE("the rule leaves classes to the operation, and everything else partial") {
  const SharedLoss loss = SparseCategoricalCrossentropy({.from_logits = true});
  const std::vector<Shape> shapes{{8, 3, 5}, {8, 3, 1}};
  const Rule rule = loss->operation(shapes[0], shapes[1])->rule(shapes);
  CHECK(rule.inputs[0] == "btk");
  CHECK(rule.inputs[1] == "bto");
  CHECK(rule.output.empty());
  CHECK(rule.own == "k");
  CHECK(rule.whole == "o");
  const std::vector<Shape> values{{8, 5}, {8, 5}};
  const Rule by_value = MeanSquaredError()->operation(values[0], values[1])->rule(values);
  CHECK(by_value.inputs[0] == by_value.inputs[1]);
  CHECK(by_value.own.empty());
  CHECK(by_value.whole.empty());
  // A target without the last dimension cannot follow a split of it.
  const std::vector<Shape> flat{{8, 1}, {8}};
  const Rule without_last = MeanSquaredError()->operation(flat[0], flat[1])->rule(flat);
  CHECK(without_last.inputs[1] == "b");
  CHECK(without_last.whole == without_last.inputs[0].substr(1));
}

TEST_CASE("class numbers are int32, and what compares values does not take them") {
  const std::vector<ElementType> of_classes{ElementType::float32, ElementType::int32};
  const std::vector<ElementType> of_values(2, ElementType::float32);
  const auto sparse = SparseCategoricalCrossentropy()->operation({-1, 10}, {-1});
  const auto values = MeanSquaredError()->operation({-1, 1}, {-1});
  CHECK(SparseCategoricalCrossentropy()->target_type() == ElementType::int32);
  CHECK(MeanSquaredError()->target_type() == ElementType::float32);
  CHECK(sparse->output_type(of_classes) == ElementType::float64);
  CHECK(values->output_type(of_values) == ElementType::float64);
  CHECK_THROWS_WITH(values->output_type(of_classes),
                    Catch::Contains("targets of float32") && Catch::Contains("classes alone"));
  CHECK_THROWS_WITH(sparse->output_type(of_values), Catch::Contains("targets of int32"));
}

TEST_CASE("targets of another shape are errors that say what was expected and found") {
  const Shape p{-1, 10};
  CHECK_THROWS_WITH(MeanSquaredError()->operation(p, {-1}),
                    "expected targets of shape (batch, 10) for predictions of shape (batch, 10), "
                    "found (batch)");
  CHECK_THROWS_WITH(SparseCategoricalCrossentropy()->operation(p, {-1, 10}),
                    "expected class numbers as targets, of shape (batch) or (batch, 1) for "
                    "predictions of shape (batch, 10), found (batch, 10); the categorical class "
                    "without \"Sparse\" takes a weight for each class");
  CHECK_THROWS_WITH(
      CategoricalCrossentropy()->operation(p, {-1}),
      "expected a weight for each class as targets, of shape (batch, 10) for predictions of shape "
      "(batch, 10), found (batch); the class with \"Sparse\" before its name takes class numbers, "
      "and `data: {one_hot: true}` turns them into weights");
  CHECK_THROWS_WITH(SparseCategoricalCrossentropy()->operation(p, {-1, 2}),
                    Catch::Contains("found (batch, 2)"));
  CHECK_THROWS_WITH(SparseCategoricalCrossentropy()->target_shape({-1}),
                    Catch::Contains("at least two dimensions"));
  CHECK_THROWS_WITH(SparseCategoricalCrossentropy()->target_shape({-1, std::int64_t{1} << 31}),
                    Catch::Contains("too many classes"));
  CHECK_THROWS_WITH(
      CategoricalCrossentropy({.label_smoothing = 1.5}),
      Catch::Contains("label_smoothing: expected a number between 0 and 1, found 1.5"));
  CHECK_THROWS_WITH(BinaryCrossentropy({.label_smoothing = -1}),
                    Catch::Contains("label_smoothing"));
}

}  // namespace meshwork::losses_test
