// Dense and Activation: values, gradients, variables, options.
#include "layers/dense.h"

#include <cmath>

#include "collectives/error.h"
#include "layers/activation.h"
#include "layers/initializers/glorot.h"
#include "layers/initializers/he.h"
#include "layers/initializers/ones.h"
#include "layers/initializers/zeros.h"
#include "layers/regularizers/l1_l2.h"
#include "tests/support/graph_runner.h"

namespace meshwork::dense_test {

using namespace meshwork::test;

namespace {

double applied(Activation activation, double x) {
  switch (activation) {
    case Activation::relu:
      return x > 0 ? x : 0;
    case Activation::gelu:
      return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
    case Activation::sigmoid:
      return 1 / (1 + std::exp(-x));
    case Activation::tanh:
      return std::tanh(x);
    default:
      return x;
  }
}

// activation(x * kernel + bias), with softmax over the last dimension.
Tensor dense(const Tensor& x, const Tensor& kernel, const Tensor& bias, Activation activation) {
  const std::size_t features = static_cast<std::size_t>(kernel.shape[0]);
  const std::size_t units = static_cast<std::size_t>(kernel.shape[1]);
  Shape shape = x.shape;
  shape.back() = kernel.shape[1];
  Tensor y(shape);
  for (std::size_t row = 0; row < y.values.size() / units; ++row) {
    double total = 0;
    for (std::size_t unit = 0; unit < units; ++unit) {
      double sum = bias.values.empty() ? 0 : bias.values[unit];
      for (std::size_t i = 0; i < features; ++i) {
        sum += x.values[row * features + i] * kernel.values[i * units + unit];
      }
      y.values[row * units + unit] =
          activation == Activation::softmax ? std::exp(sum) : applied(activation, sum);
      total += y.values[row * units + unit];
    }
    for (std::size_t unit = 0; activation == Activation::softmax && unit < units; ++unit) {
      y.values[row * units + unit] /= total;
    }
  }
  return y;
}

constexpr Activation all_activations[] = {Activation::linear, Activation::relu,
                                          Activation::gelu,   Activation::sigmoid,
                                          Activation::tanh,   Activation::softmax};

}  // namespace

TEST_CASE(
    "dense is a product, a bias and an activation, and its gradients agree with differences") {
  for (const Activation activation : all_activations) {
    for (const Shape& sample : {Shape{5}, Shape{2, 3}}) {
      const auto x = Input(sample);
      const auto y = Dense({.name = "d1", .units = 4, .activation = activation})(x);
      const Graph graph = make_graph({x}, {y});
      Shape shape = sample;
      shape.insert(shape.begin(), 3);
      const GraphCase what{
          .inputs = {random_tensor(shape, 1)},
          .variables = {random_tensor({sample.back(), 4}, 2), random_tensor({4}, 3, 0.1, 0.5)},
          .output_gradients = {random_tensor(graph.shape_of(graph.outputs[0], 3), 4)}};
      const Tensor found = run_graph(graph, what).values.at(graph.outputs[0]);
      CHECK(difference(found,
                       dense(what.inputs[0], what.variables[0], what.variables[1], activation),
                       2e-6) == "");
      if (activation != Activation::relu) {  // its kink is tested where inputs can be kept away
        check_graph_gradients(graph, what);
      }
    }
  }
}

TEST_CASE("dense without a bias has a kernel alone") {
  const auto x = Input({5});
  const Graph graph = make_graph({x}, {Dense({.name = "d1", .units = 4, .use_bias = false})(x)});
  REQUIRE(graph.variables.size() == 1);
  CHECK(graph.variables[0].path == "d1/kernel");
  const GraphCase what{.inputs = {random_tensor({3, 5}, 1)},
                       .variables = {random_tensor({5, 4}, 2)},
                       .output_gradients = {random_tensor({3, 4}, 4)}};
  CHECK(difference(run_graph(graph, what).values.at(graph.outputs[0]),
                   dense(what.inputs[0], what.variables[0], {}, Activation::linear), 1e-6) == "");
  check_graph_gradients(graph, what);
}

TEST_CASE("dense has Keras's variables, and its options reach them") {
  const auto x = Input({5});
  const Graph plain = make_graph({x}, {Dense({.name = "d1", .units = 4})(x)});
  CHECK(plain.variables[0].options.shape == Shape{5, 4});
  CHECK(plain.variables[0].options.initializer == GlorotUniform());
  CHECK_FALSE(plain.variables[0].options.regularizer.active());
  CHECK(plain.variables[1].options.shape == Shape{4});
  CHECK(plain.variables[1].options.initializer == Zeros());

  const Graph chosen = make_graph({x}, {Dense({.units = 4,
                                               .kernel_initializer = HeNormal(),
                                               .bias_initializer = Ones(),
                                               .kernel_regularizer = L2(0.5f),
                                               .bias_regularizer = L1(0.25f)})(x)});
  CHECK(chosen.variables[0].options.initializer == HeNormal());
  CHECK(chosen.variables[0].options.regularizer == L2(0.5f));
  CHECK(chosen.variables[1].options.initializer == Ones());
  CHECK(chosen.variables[1].options.regularizer == L1(0.25f));
}

TEST_CASE("a layer that is called twice gathers the gradients of both calls") {
  const auto a = Input({3}, "a");
  const SharedLayer d1 = Dense({.name = "d1", .units = 3, .activation = Activation::tanh});
  const Graph graph = make_graph({a}, {d1(d1(a))});
  check_graph_gradients(graph, {.inputs = {random_tensor({4, 3}, 1)},
                                .variables = {random_tensor({3, 3}, 2), random_tensor({3}, 3)},
                                .output_gradients = {random_tensor({4, 3}, 4)}});
}

TEST_CASE("dense needs a positive number of units") {
  CHECK_THROWS_WITH(Dense(), "Dense: units: expected a positive integer, found 0");
  CHECK_THROWS_WITH(Dense({.name = "d1", .units = -3}), Catch::StartsWith("d1: units: "));
}

TEST_CASE("an activation is a layer of its own, with Keras's class name") {
  for (const Activation activation : all_activations) {
    const auto x = Input({5});
    const Graph graph = make_graph({x}, {ActivationLayer({.activation = activation})(x)});
    CHECK(graph.layers[0].path == "activation");
    CHECK(graph.layers[0].class_name == "Activation");
    Tensor identity({5, 5});
    for (std::size_t i = 0; i < 5; ++i) {
      identity.values[i * 6] = 1;
    }
    const GraphCase what{.inputs = {random_tensor({3, 5}, 1, -3, 3)},
                         .output_gradients = {random_tensor({3, 5}, 4)}};
    CHECK(difference(run_graph(graph, what).values.at(graph.outputs[0]),
                     dense(what.inputs[0], identity, {}, activation), 1e-6) == "");
  }
  CHECK_THROWS_WITH(ActivationLayer({.activation = Activation::softmax})(Input({})),
                    Catch::Contains("softmax needs at least two dimensions"));
}

}  // namespace meshwork::dense_test
