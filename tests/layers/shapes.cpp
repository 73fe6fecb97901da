// Flatten, Reshape and Rescaling.
#include <cmath>
#include <limits>

#include "collectives/error.h"
#include "layers/flatten.h"
#include "layers/rescaling.h"
#include "layers/reshape.h"
#include "tests/support/graph_runner.h"

namespace meshwork::shapes_test {

using namespace meshwork::test;

namespace {

Shape shape_after(const SharedLayer& layer, const Shape& sample) {
  return layer(Input(sample)).shape();
}

}  // namespace

TEST_CASE("flatten leaves the batch and joins the rest in row-major order") {
  CHECK(shape_after(Flatten(), {28, 28, 1}) == Shape{-1, 784});
  CHECK(shape_after(Flatten(), {7}) == Shape{-1, 7});
  CHECK(shape_after(Flatten(), {}) == Shape{-1, 1});

  const auto x = Input({2, 3});
  const Graph graph = make_graph({x}, {Flatten()(x)});
  const GraphCase what{.inputs = {random_tensor({4, 2, 3}, 1)},
                       .output_gradients = {random_tensor({4, 6}, 2)}};
  const GraphValues found = run_graph(graph, what);
  CHECK(found.values.at(graph.outputs[0]).values == what.inputs[0].values);
  CHECK(found.gradients.at(graph.inputs[0]).values == what.output_gradients[0].values);
  CHECK(found.gradients.at(graph.inputs[0]).shape == Shape{4, 2, 3});
}

TEST_CASE("reshape gives samples their shape, with one length left open") {
  CHECK(shape_after(Reshape({.target_shape = {4, 6}}), {2, 12}) == Shape{-1, 4, 6});
  CHECK(shape_after(Reshape({.target_shape = {4, -1}}), {2, 12}) == Shape{-1, 4, 6});
  CHECK(shape_after(Reshape({.target_shape = {-1}}), {2, 12}) == Shape{-1, 24});
  CHECK(shape_after(Reshape({.target_shape = {}}), {1}) == Shape{-1});
  CHECK(shape_after(Reshape({.target_shape = {5, 1, 1}}), {5}) == Shape{-1, 5, 1, 1});

  const auto x = Input({2, 6});
  const Graph graph = make_graph({x}, {Reshape({.target_shape = {3, -1}})(x)});
  const GraphCase what{.inputs = {random_tensor({4, 2, 6}, 1)},
                       .output_gradients = {random_tensor({4, 3, 4}, 2)}};
  const GraphValues found = run_graph(graph, what);
  CHECK(found.values.at(graph.outputs[0]).values == what.inputs[0].values);
  CHECK(found.gradients.at(graph.inputs[0]).values == what.output_gradients[0].values);
}

TEST_CASE("a reshape that cannot be is an error that says why") {
  CHECK_THROWS_WITH(
      shape_after(Reshape({.name = "r", .target_shape = {5, 5}}), {4, 6}),
      "r: cannot give an input of shape (batch, 4, 6), which has 24 elements a sample, "
      "the shape (5, 5), which has 25");
  CHECK_THROWS_WITH(shape_after(Reshape({.target_shape = {5, -1}}), {4, 6}),
                    "Reshape: cannot give an input of shape (batch, 4, 6), which has 24 elements a "
                    "sample, the shape (5, -1): 5 does not divide them");
  CHECK_THROWS_WITH(Reshape({.name = "r", .target_shape = {-1, -1}}),
                    Catch::StartsWith("r: `target_shape` (-1, -1) leaves several lengths open"));
  CHECK_THROWS_WITH(Reshape({.target_shape = {0, 4}}), Catch::Contains("has a length of 0"));
}

TEST_CASE("rescaling is the same in training and outside") {
  const auto x = Input({2, 3});
  const Graph graph = make_graph({x}, {Rescaling({.scale = 1.0f / 255, .offset = -0.5f})(x)});
  for (const bool training : {false, true}) {
    const GraphCase what{.inputs = {random_tensor({4, 2, 3}, 1, 0, 255)},
                         .output_gradients = {random_tensor({4, 2, 3}, 2)},
                         .training = training};
    Tensor expected = what.inputs[0];
    for (double& value : expected.values) {
      value = value / 255 - 0.5;
    }
    CHECK(difference(run_graph(graph, what).values.at(graph.outputs[0]), expected, 1e-6) == "");
    check_graph_gradients(graph, what);
  }
  CHECK_THROWS_WITH(Rescaling({.scale = std::numeric_limits<float>::infinity()}),
                    Catch::Contains("expected a finite number, found"));
  CHECK_THROWS_WITH(Rescaling({.offset = std::nanf("")}),
                    Catch::Contains("expected a finite number, found"));
}

}  // namespace meshwork::shapes_test
