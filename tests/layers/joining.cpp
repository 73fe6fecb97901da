// Add, Concatenate and the other layers that make one value of several.
#include "collectives/error.h"
#include "layers/add.h"
#include "layers/concatenate.h"
#include "layers/dense.h"
#include "layers/dot.h"
#include "layers/merging.h"
#include "tests/support/graph_runner.h"

namespace meshwork::joining_test {

using namespace meshwork::test;

TEST_CASE("a residual connection adds, and its gradients add") {
  const auto x = Input({4});
  const auto y = Dense({.name = "d1", .units = 4, .activation = Activation::tanh})(x);
  const Graph graph = make_graph({x}, {Add()({x, y, x})});
  check_graph_gradients(graph, {.inputs = {random_tensor({3, 4}, 1)},
                                .variables = {random_tensor({4, 4}, 2), random_tensor({4}, 3)},
                                .output_gradients = {random_tensor({3, 4}, 4)}});
}

TEST_CASE("branches are concatenated along any dimension, counted from either end") {
  const auto a = Input({2, 3}, "a");
  const auto b = Input({2, 5}, "b");
  for (const int axis : {-1, 2}) {
    const auto y = Concatenate({.axis = axis})({a, b});
    CHECK(y.shape() == Shape{-1, 2, 8});
    const Graph graph = make_graph({a, b}, {y});
    const GraphCase what{.inputs = {random_tensor({4, 2, 3}, 1), random_tensor({4, 2, 5}, 2)},
                         .output_gradients = {random_tensor({4, 2, 8}, 3)}};
    const Tensor found = run_graph(graph, what).values.at(graph.outputs[0]);
    for (std::size_t row = 0; row < 8; ++row) {
      for (std::size_t i = 0; i < 8; ++i) {
        CHECK(found.values[row * 8 + i] == (i < 3 ? what.inputs[0].values[row * 3 + i]
                                                  : what.inputs[1].values[row * 5 + i - 3]));
      }
    }
    check_graph_gradients(graph, what);
  }
  CHECK(Concatenate({.axis = -2})({Input({4, 3}), Input({1, 3})}).shape() == Shape{-1, 5, 3});
}

TEST_CASE("merging layers take their inputs from left to right") {
  const auto a = Input({2}, "a"), b = Input({2}, "b"), c = Input({2}, "c");
  const auto merged = [&](const SharedLayer& layer, const std::vector<SymbolicTensor>& inputs) {
    const Graph graph = make_graph(inputs, {layer(inputs)});
    GraphCase what{.inputs = {Tensor({1, 2}, {3, -4}), Tensor({1, 2}, {5, -6})}};
    if (inputs.size() > 2) what.inputs.push_back(Tensor({1, 2}, {7, 1}));
    return run_graph(graph, what).values.at(graph.outputs[0]).values;
  };
  CHECK(merged(Multiply(), {a, b, c}) == std::vector<double>{105, 24});
  CHECK(merged(Average(), {a, b}) == std::vector<double>{4, -5});
  CHECK(merged(Maximum(), {a, b, c}) == std::vector<double>{7, 1});
  CHECK(merged(Minimum(), {a, b, c}) == std::vector<double>{3, -6});
  CHECK(merged(Subtract(), {a, b}) == std::vector<double>{-2, 2});
}

TEST_CASE("gradients of merging layers of three inputs are those of their values") {
  const auto a = Input({3}, "a"), b = Input({3}, "b"), c = Input({3}, "c");
  for (const SharedLayer& layer : {Multiply(), Average(), Maximum(), Minimum()}) {
    const Graph graph = make_graph({a, b, c}, {layer({a, b, c})});
    check_graph_gradients(graph,
                          {.inputs = {Tensor({1, 3}, {3, -4, 0.5}), Tensor({1, 3}, {5, -6, 0.25}),
                                      Tensor({1, 3}, {-2, 1, 0.75})},
                           .output_gradients = {random_tensor({1, 3}, 4)}});
  }
}

TEST_CASE("samples are multiplied and summed along a dimension of each") {
  const auto a = Input({2, 3}, "a"), b = Input({4, 2}, "b");
  const Graph graph = make_graph({a, b}, {Dot({.axes = {1, 2}})({a, b})});
  const GraphCase what{.inputs = {random_tensor({2, 2, 3}, 1), random_tensor({2, 4, 2}, 2)},
                       .output_gradients = {random_tensor({2, 3, 4}, 3)}};
  const Tensor found = run_graph(graph, what).values.at(graph.outputs[0]);
  REQUIRE(found.shape == Shape{2, 3, 4});
  for (std::size_t n = 0; n < 2; ++n) {
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t j = 0; j < 4; ++j) {
        double sum = 0;
        for (std::size_t k = 0; k < 2; ++k) {
          sum +=
              what.inputs[0].values[n * 6 + k * 3 + i] * what.inputs[1].values[n * 8 + j * 2 + k];
        }
        CHECK(found.values[n * 12 + i * 4 + j] == Approx(sum).margin(1e-6));
      }
    }
  }
  check_graph_gradients(graph, what);
}

TEST_CASE("the product of vectors is one number, and of vectors of length 1 the cosine") {
  const auto a = Input({2}, "a"), b = Input({2}, "b");
  const GraphCase what{.inputs = {Tensor({2, 2}, {3, 4, 1, 0}), Tensor({2, 2}, {4, 3, 0, 2})},
                       .output_gradients = {Tensor({2, 1}, {1, 2})}};
  for (const bool normalize : {false, true}) {
    const Graph graph = make_graph({a, b}, {Dot({.axes = -1, .normalize = normalize})({a, b})});
    const Tensor found = run_graph(graph, what).values.at(graph.outputs[0]);
    CHECK(found.shape == Shape{2, 1});
    CHECK(found.values[0] == Approx(normalize ? 0.96 : 24));
    CHECK(found.values[1] == Approx(0).margin(1e-6));
    check_graph_gradients(graph, what);
  }
  CHECK_THROWS_WITH(Dot({.name = "d", .axes = {1, 1}})({Input({3}), Input({4})}),
                    "d: expected `axes` of equal lengths, found 3 and 4");
  CHECK_THROWS_WITH(Dot({})({a, b}), Catch::Contains("`axes` has 0, but the dimensions of"));
}

TEST_CASE("inputs that cannot be joined are errors that name the layer") {
  CHECK_THROWS_WITH(
      Add({.name = "sum"})({Input({3}), Input({4})}),
      "sum: expected inputs of equal shapes, found (batch, 3) for input 0 and (batch, "
      "4) for input 1");
  CHECK_THROWS_WITH(Multiply({.name = "m"})({Input({3}), Input({4})}),
                    "m: expected inputs of equal shapes, found (batch, 3) for input 0 and (batch, "
                    "4) for input 1");
  CHECK_THROWS_WITH(Subtract({.name = "s"})({Input({3}), Input({3}), Input({3})}),
                    "s: expected two inputs, found 3");
  CHECK_THROWS_WITH(Maximum({.name = "m"})(Input({3})), "m: expected at least two inputs, found 1");
  CHECK_THROWS_WITH(Concatenate({.name = "c", .axis = 0})({Input({3}), Input({3})}),
                    "c: `axis` 0 is the batch of inputs of shape (batch, 3); batches cannot be "
                    "concatenated");
  CHECK_THROWS_WITH(Concatenate({.axis = -2})({Input({3}), Input({3})}),
                    Catch::Contains("is the batch"));
  CHECK_THROWS_WITH(
      Concatenate({.axis = 2})({Input({3}), Input({3})}),
      "Concatenate: `axis` is 2, but inputs of shape (batch, 3) have dimensions 0 to 1");
  CHECK_THROWS_WITH(Concatenate({.axis = 1})({Input({3, 2}), Input({4, 1})}),
                    Catch::Contains("differ in dimension 1 only"));
  CHECK_THROWS_WITH(Concatenate()({Input({3}), Input({3, 1})}),
                    Catch::Contains("differ in dimension 1 only"));
}

}  // namespace meshwork::joining_test
