// Dropout: how much it drops, when, and that two uses draw apart.
#include "layers/dropout.h"

#include <cmath>
#include <limits>

#include "collectives/error.h"
#include "tests/support/graph_runner.h"

namespace meshwork::dropout_test {

using namespace meshwork::test;

namespace {

Tensor ones(const Shape& shape) {
  Tensor tensor(shape);
  for (double& value : tensor.values) {
    value = 1;
  }
  return tensor;
}

double kept(const Tensor& tensor) {
  double count = 0;
  for (const double value : tensor.values) {
    count += value != 0;
  }
  return count / static_cast<double>(tensor.values.size());
}

}  // namespace

TEST_CASE("dropout keeps the fraction it should, and the mean") {
  const auto x = Input({1000});
  for (const float rate : {0.1f, 0.4f, 0.9f}) {
    const Graph graph = make_graph({x}, {Dropout({.rate = rate})(x)});
    const Tensor y = run_graph(graph, {.inputs = {ones({20, 1000})}}).values.at(graph.outputs[0]);
    const double keep = 1 - static_cast<double>(rate);
    // Four standard deviations of a mean of 20,000 draws.
    CHECK(std::abs(kept(y) - keep) < 4 * std::sqrt(keep * (1 - keep) / 20000));
    for (const double value : y.values) {
      REQUIRE((value == 0 || value == Approx(1 / keep)));
    }
  }
}

TEST_CASE("dropout passes the gradient where it passed the value") {
  const auto x = Input({50});
  const Graph graph = make_graph({x}, {Dropout({.rate = 0.5f})(x)});
  const GraphValues found =
      run_graph(graph, {.inputs = {ones({4, 50})}, .output_gradients = {ones({4, 50})}});
  CHECK(found.gradients.at(graph.inputs[0]).values == found.values.at(graph.outputs[0]).values);
}

TEST_CASE("outside training and at rate 0 dropout changes nothing") {
  const auto x = Input({50});
  const Tensor values = random_tensor({4, 50}, 1);
  const Graph half = make_graph({x}, {Dropout({.rate = 0.5f})(x)});
  CHECK(
      run_graph(half, {.inputs = {values}, .training = false}).values.at(half.outputs[0]).values ==
      values.values);
  const Graph none = make_graph({x}, {Dropout({.rate = 0})(x)});
  CHECK(run_graph(none, {.inputs = {values}}).values.at(none.outputs[0]).values == values.values);
}

TEST_CASE("two dropouts, and two uses of one, draw different masks") {
  const auto x = Input({200});
  const SharedLayer shared = Dropout({.name = "shared", .rate = 0.5f});
  const Graph graph =
      make_graph({x}, {shared(x), shared(x), Dropout({.name = "other", .rate = 0.5f})(x)});
  const GraphValues found = run_graph(graph, {.inputs = {ones({4, 200})}});
  const auto values = [&](int output) { return found.values.at(graph.outputs[output]).values; };
  CHECK(values(0) != values(1));
  CHECK(values(0) != values(2));
  CHECK(values(1) != values(2));
}

TEST_CASE("a rate outside of 0 to 1 is an error, and so is none") {
  CHECK_THROWS_WITH(Dropout({.name = "drop", .rate = 1.5f}),
                    "drop: rate: expected a number between 0 and 1, found 1.5");
  CHECK_THROWS_WITH(Dropout({.rate = -0.5f}), Catch::StartsWith("Dropout: rate: "));
  CHECK_THROWS_AS(Dropout({.rate = std::numeric_limits<float>::quiet_NaN()}), Error);
  CHECK_THROWS_AS(Dropout({}), Error);
  CHECK_NOTHROW(Dropout({.rate = 1}));
}

}  // namespace meshwork::dropout_test
