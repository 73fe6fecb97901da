// The product, the bias, and what they are joined with.
#include <cmath>

#include "collectives/error.h"
#include "runtime/device/kernels/activation.h"
#include "runtime/graph/operations/activation.h"
#include "runtime/graph/operations/bias.h"
#include "runtime/graph/operations/identity.h"
#include "runtime/graph/operations/product.h"
#include "runtime/graph/operations/softmax.h"
#include "tests/support/strategy_validator.h"

using namespace meshwork;
using namespace meshwork::test;

namespace {

double applied(Activation activation, double x) {
  switch (activation) {
    case Activation::relu:
      return x > 0 ? x : 0;
    case Activation::sigmoid:
      return 1 / (1 + std::exp(-x));
    case Activation::tanh:
      return std::tanh(x);
    default:
      return x;
  }
}

// y (rows, outputs) = activation(x (rows, features) * kernel (features, outputs) + bias (outputs))
Tensor product(const Tensor& x, const Tensor& kernel, const Tensor* bias, Activation activation) {
  const std::int64_t features = kernel.shape[0];
  const std::int64_t outputs = kernel.shape[1];
  Shape shape = x.shape;
  shape.back() = outputs;
  Tensor y(shape);
  for (std::size_t at = 0; at < y.values.size(); ++at) {
    const std::int64_t row = static_cast<std::int64_t>(at) / outputs;
    const std::int64_t column = static_cast<std::int64_t>(at) % outputs;
    double sum = bias ? bias->values[column] : 0;
    for (std::int64_t i = 0; i < features; ++i) {
      sum += x.values[row * features + i] * kernel.values[i * outputs + column];
    }
    y.values[at] = applied(activation, sum);
  }
  return y;
}

OperationCase product_case(const Shape& x, std::int64_t outputs, bool bias) {
  OperationCase what;
  what.inputs = {random_tensor(x, 1), random_tensor({x.back(), outputs}, 2)};
  if (bias) {
    what.inputs.push_back(random_tensor({outputs}, 3));
  }
  Shape y = x;
  y.back() = outputs;
  what.output_gradient = random_tensor(y, 4);
  return what;
}

}  // namespace

TEST_CASE("a product is the sum over features, on any number of leading dimensions") {
  for (const Shape& shape : {Shape{5, 7}, Shape{3, 2, 5}, Shape{2, 3, 1, 4}}) {
    const OperationCase what = product_case(shape, 3, false);
    const OperationResult found = run_whole(ProductOperation(), what);
    CHECK(difference(found.output,
                     product(what.inputs[0], what.inputs[1], nullptr, Activation::linear),
                     1e-6) == "");
  }
}

TEST_CASE("the gradients of a product of two by two matrices are as worked by hand") {
  const OperationCase what{.inputs = {Tensor({2, 2}, {1, 2, 3, 4}), Tensor({2, 2}, {5, 6, 7, 8})},
                           .output_gradient = Tensor({2, 2}, {1, 0, 0, 1})};
  const OperationResult found = run_whole(ProductOperation(), what);
  CHECK(found.output.values == std::vector<double>{19, 22, 43, 50});
  CHECK(found.gradients[0]->values == std::vector<double>{5, 7, 6, 8});  // dy * transpose(kernel)
  CHECK(found.gradients[1]->values == std::vector<double>{1, 3, 2, 4});  // transpose(x) * dy
}

TEST_CASE("a product's gradients agree with differences and its rule with the truth") {
  const ProductOperation operation;
  check_gradients(operation, product_case({5, 7}, 4, false));
  check_strategies(operation, product_case({5, 7}, 4, false));
  check_strategies(operation, product_case({5, 3, 4}, 2, false));
}

TEST_CASE("a product with a bias and an activation in it is their sequence") {
  for (const Activation activation :
       {Activation::linear, Activation::relu, Activation::sigmoid, Activation::tanh}) {
    for (const bool bias : {false, true}) {
      INFO(name_of(activation) << (bias ? " with bias" : ""));
      const ProductOperation operation({bias, activation});
      const OperationCase what = product_case({5, 7}, 4, bias);
      CHECK(difference(run_whole(operation, what).output,
                       product(what.inputs[0], what.inputs[1], bias ? &what.inputs[2] : nullptr,
                               activation),
                       1e-6) == "");
      check_gradients(operation, what);
      check_strategies(operation, what);
    }
  }
}

TEST_CASE("a product multiplies its input's gradient by the derivative at it, however spread") {
  // The last one packs what it multiplies where blocks of x are no blocks of the kernel.
  const std::vector<std::pair<Shape, std::size_t>> cases{
      {{5, 7}, 1}, {{5, 3, 4}, 1}, {{5, 3, 4}, 2}};
  for (const auto& [shape, contracted] : cases) {
    const ProductOperation operation({}, contracted);
    REQUIRE(operation.takes_derivative(0, Activation::tanh));
    OperationCase what;
    const std::int64_t features = contracted == 1 ? shape.back() : element_count(shape) / shape[0];
    what.inputs = {random_tensor(shape, 1), random_tensor({features, 3}, 2)};
    what.output_gradient =
        random_tensor(operation.output_shape(std::vector<Shape>{shape, {features, 3}}), 4);
    const Tensor plain = *run_whole(operation, what).gradients[0];
    what.derivative = Activation::tanh;
    Tensor expected = plain;
    for (std::size_t i = 0; i < expected.values.size(); ++i) {
      expected.values[i] *= 1 - what.inputs[0].values[i] * what.inputs[0].values[i];
    }
    CHECK(difference(*run_whole(operation, what).gradients[0], expected, 1e-6) == "");
    check_strategies(operation, what);
  }
  CHECK_FALSE(ProductOperation().takes_derivative(1, Activation::relu));
  CHECK_FALSE(ProductOperation().takes_derivative(0, Activation::softmax));
}

TEST_CASE("a product takes the bias and the activation that follow it, and no more") {
  const ProductOperation product;
  const auto with_bias = product.fused_with(BiasOperation(), 0);
  REQUIRE(with_bias);
  CHECK(with_bias->kind() == "product+bias");
  const auto with_relu = with_bias->fused_with(ActivationOperation(Activation::relu), 0);
  REQUIRE(with_relu);
  CHECK(with_relu->kind() == "product+bias+relu");
  CHECK(product.fused_with(BiasOperation({.activation = Activation::tanh}), 0)->kind() ==
        "product+bias+tanh");
  CHECK(product.fused_with(ActivationOperation(Activation::sigmoid), 0)->kind() ==
        "product+sigmoid");
  CHECK(with_relu->fused_with(IdentityOperation(), 0)->kind() == "product+bias+relu");

  CHECK_FALSE(product.fused_with(BiasOperation(), 1));  // it would be the bias itself
  CHECK_FALSE(with_bias->fused_with(BiasOperation(), 0));
  CHECK_FALSE(with_relu->fused_with(ActivationOperation(Activation::relu), 0));
  CHECK_FALSE(product.fused_with(ActivationOperation(Activation::gelu), 0));
  CHECK_FALSE(product.fused_with(SoftmaxOperation(), 0));
  CHECK_FALSE(product.fused_with(ProductOperation(), 0));
}

TEST_CASE("a bias is added to every row, and its gradient is the sum over them") {
  const OperationCase what{
      .inputs = {Tensor({2, 3}, {1, 2, 3, 4, 5, 6}), Tensor({3}, {10, 20, 30})},
      .output_gradient = Tensor({2, 3}, {1, 2, 3, 4, 5, 6})};
  const OperationResult found = run_whole(BiasOperation(), what);
  CHECK(found.output.values == std::vector<double>{11, 22, 33, 14, 25, 36});
  CHECK(found.gradients[0]->values == what.output_gradient->values);
  CHECK(found.gradients[1]->values == std::vector<double>{5, 7, 9});
}

TEST_CASE("a bias agrees with differences and with the truth, whatever follows it") {
  for (const Activation activation :
       {Activation::linear, Activation::relu, Activation::sigmoid, Activation::tanh}) {
    const BiasOperation operation({.activation = activation});
    const OperationCase what{.inputs = {random_tensor({5, 3, 7}, 1), random_tensor({7}, 2)},
                             .output_gradient = random_tensor({5, 3, 7}, 3)};
    check_gradients(operation, what);
    check_strategies(operation, what);
  }
  const auto joined = BiasOperation().fused_with(ActivationOperation(Activation::tanh), 0);
  REQUIRE(joined);
  CHECK(joined->kind() == "bias+tanh");
  CHECK_FALSE(joined->fused_with(ActivationOperation(Activation::tanh), 0));
  CHECK_FALSE(BiasOperation().fused_with(ActivationOperation(Activation::gelu), 0));
}

TEST_CASE("operands that do not fit a product or a bias are errors that say what would") {
  const auto shape_of_product = [](std::vector<Shape> inputs) {
    return ProductOperation().output_shape(inputs);
  };
  CHECK(shape_of_product({{-1, 7}, {7, 3}}) == Shape{-1, 3});
  CHECK_THROWS_WITH(shape_of_product({{-1, 7}, {6, 3}}),
                    Catch::Contains("needs a kernel of shape (7, outputs), found (6, 3)"));
  CHECK_THROWS_WITH(shape_of_product({{-1}, {6, 3}}), Catch::Contains("at least two dimensions"));
  CHECK_THROWS_WITH(shape_of_product({{-1, 7}}), Catch::Contains("expected 2 inputs, found 1"));
  CHECK_THROWS_WITH(BiasOperation().output_shape(std::vector<Shape>{{-1, 7}, {6}}),
                    Catch::Contains("as long as its last dimension, found (6)"));
}

TEST_CASE("what backward reads of a product and a bias") {
  CHECK(ProductOperation({.bias = true}).backward_reads(0));
  CHECK(ProductOperation({.bias = true}).backward_reads(1));
  CHECK_FALSE(ProductOperation({.bias = true}).backward_reads(2));
  CHECK_FALSE(BiasOperation().backward_reads(0));
  CHECK_FALSE(BiasOperation().backward_reads(1));
}
