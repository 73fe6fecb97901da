// Noise layers: how much they add, when, and to what; UnitNormalization's numbers.
#include "layers/noise.h"

#include <cmath>

#include "collectives/error.h"
#include "layers/unit_normalization.h"
#include "tests/support/graph_runner.h"

namespace meshwork::noise_test {

using namespace meshwork::test;

namespace {

Tensor all(const Shape& shape, double value) {
  Tensor tensor(shape);
  for (double& element : tensor.values) element = value;
  return tensor;
}

struct Run {
  std::vector<double> y, dx;
};

/// On `x`, with a gradient of twos.
Run run_layer(const SharedLayer& layer, const Tensor& x, bool training = true) {
  const auto input = Input(Shape(x.shape.begin() + 1, x.shape.end()));
  const Graph graph = make_graph({input}, {layer(input)});
  const GraphValues found = run_graph(
      graph, {.inputs = {x}, .output_gradients = {all(x.shape, 2)}, .training = training});
  return {found.values.at(graph.outputs[0]).values, found.gradients.at(graph.inputs[0]).values};
}

/// Checks mean and variance of values, of a normal distribution, by five standard deviations.
void check_moments(const std::vector<double>& values, double mean, double variance) {
  const auto count = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double value : values) {
    sum += value - mean;
    squares += std::pow(value - mean, 2);
  }
  CHECK(std::abs(sum) < 5 * std::sqrt(variance * count));
  CHECK(std::abs(squares - variance * count) < 5 * variance * std::sqrt(2 * count));
}

}  // namespace

TEST_CASE("noise has the deviation it should, and passes the gradient") {
  const Run found = run_layer(GaussianNoise({.stddev = 0.5f}), all({50, 400}, 3));
  check_moments(found.y, 3, 0.25);
  CHECK(found.dx == all({50, 400}, 2).values);
}

TEST_CASE("factors around 1 have the variance of dropout's, and multiply the gradient") {
  for (const float rate : {0.1f, 0.5f}) {
    const Run found = run_layer(GaussianDropout({.rate = rate}), all({50, 400}, 4));
    const double variance = double{rate} / (1 - double{rate});
    check_moments(found.y, 4, 16 * variance);
    for (std::size_t i = 0; i < found.y.size(); ++i) {
      REQUIRE(found.dx[i] == Approx(found.y[i] / 2).margin(1e-6));
    }
  }
}

TEST_CASE("a channel of a sample is dropped as a whole") {
  const Shape shape{100, 3, 2, 50};
  const Run found = run_layer(SpatialDropout2D({.rate = 0.4f}), all(shape, 3));
  double kept = 0;
  for (std::size_t i = 0; i < found.y.size(); ++i) {
    const std::size_t sample = i / 300, channel = i % 50;
    REQUIRE(found.y[i] == found.y[sample * 300 + channel]);
    REQUIRE((found.y[i] == 0 || found.y[i] == Approx(5)));
    REQUIRE(found.dx[i] == Approx(found.y[i] / 1.5));
    kept += found.y[i] != 0 ? 1.0 / 6 : 0;
  }
  // Five standard deviations of 5,000 draws.
  CHECK(std::abs(kept - 3000) < 5 * std::sqrt(5000 * 0.4 * 0.6));
  const Run all_dropped = run_layer(SpatialDropout2D({.rate = 1}), all(shape, 3));
  CHECK(all_dropped.y == all(shape, 0).values);
}

TEST_CASE("dropout to the least value of selu keeps mean 0 and variance 1") {
  const float rate = 0.3f;
  // Of this variance and mean 0.
  Tensor x({50, 400});
  for (std::size_t i = 0; i < x.values.size(); ++i) x.values[i] = i % 2 == 0 ? 1 : -1;
  const Run found = run_layer(AlphaDropout({.rate = rate}), x);
  // Keras: a * (x or low) + b.
  const double low = -1.6732632423543772 * 1.0507009873554805;
  const double a = 1 / std::sqrt((1 - double{rate}) * (1 + double{rate} * low * low));
  const double b = -a * low * double{rate};
  double sum = 0, squares = 0, dropped = 0;
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    const bool kept = found.dx[i] != 0;
    REQUIRE(found.y[i] == Approx(a * (kept ? x.values[i] : low) + b).margin(1e-5));
    REQUIRE(found.dx[i] == Approx(kept ? 2 * a : 0));
    sum += found.y[i];
    squares += found.y[i] * found.y[i];
    dropped += kept ? 0 : 1;
  }
  // Five standard deviations of 20,000 draws; of a square that is below 2.
  CHECK(std::abs(dropped - 6000) < 5 * std::sqrt(20000 * 0.3 * 0.7));
  CHECK(std::abs(sum) < 5 * std::sqrt(20000.0));
  CHECK(std::abs(squares - 20000) < 10 * std::sqrt(20000.0));
}

TEST_CASE("outside training and by rate 0 nothing moves") {
  const Tensor x = random_tensor({4, 3, 5}, 1);
  for (const bool training : {false, true}) {
    const float amount = training ? 0.0f : 0.5f;
    for (const SharedLayer& layer :
         {GaussianNoise({.stddev = amount}), GaussianDropout({.rate = amount}),
          SpatialDropout1D({.rate = amount}), AlphaDropout({.rate = amount})}) {
      const Run found = run_layer(layer, x, training);
      CHECK(found.y == x.values);
      CHECK(found.dx == all(x.shape, 2).values);
    }
  }
}

TEST_CASE("wrong amounts and shapes are errors that name the layer") {
  CHECK_THROWS_WITH(GaussianNoise({.name = "n", .stddev = 1.5f}),
                    "n: stddev: expected a number between 0 and 1, found 1.5");
  CHECK_THROWS_WITH(GaussianDropout({.rate = 1}),
                    "GaussianDropout: rate: expected a number of at least 0 and below 1, found 1");
  CHECK_THROWS_WITH(SpatialDropout1D({}), Catch::StartsWith("SpatialDropout1D: rate: "));
  CHECK_THROWS_WITH(SpatialDropout2D({.rate = 0.5f})(Input({7, 3})),
                    Catch::StartsWith("SpatialDropout2D: expected images"));
  CHECK_THROWS_WITH(UnitNormalization({.axis = 0})(Input({3})),
                    "UnitNormalization: `axis` is 0, but the vectors of an input of shape (batch, "
                    "3) can be dimensions 1 to 1");
}

TEST_CASE("vectors along a dimension become as long as 1") {
  const auto input = Input({2, 2});
  for (const int axis : {1, -1}) {
    const Graph graph = make_graph({input}, {UnitNormalization({.axis = axis})(input)});
    const Tensor x =
        axis == 1 ? Tensor({1, 2, 2}, {3, -5, 4, 12}) : Tensor({1, 2, 2}, {3, 4, -5, 12});
    const std::vector<double> y =
        run_graph(graph, {.inputs = {x}}).values.at(graph.outputs[0]).values;
    const std::vector<double> rows{0.6, 0.8, -5.0 / 13, 12.0 / 13};
    for (std::size_t i = 0; i < 4; ++i) {
      CHECK(y[i] == Approx(rows[axis == 1 ? i / 2 + i % 2 * 2 : i]));
    }
    check_graph_gradients(graph,
                          {.inputs = {x}, .output_gradients = {random_tensor({1, 2, 2}, 4)}});
  }
  // 1e-13 is below the least length: times 1e12, as Keras gives.
  const Graph graph = make_graph({input}, {UnitNormalization()(input)});
  const Tensor x({1, 2, 2}, {1e-13, 0, 0, 0});
  const std::vector<double> y =
      run_graph(graph, {.inputs = {x}}).values.at(graph.outputs[0]).values;
  CHECK(y[0] == Approx(0.1));
  CHECK(y[3] == 0);
}

}  // namespace meshwork::noise_test
