// Contractions, the bias, and what they are joined with. Equations are compared with a plain einsum
// in double precision.
#include <cmath>
#include <map>
#include <string>

#include "collectives/error.h"
#include "runtime/device/kernels/activation.h"
#include "runtime/graph/operations/activation.h"
#include "runtime/graph/operations/bias.h"
#include "runtime/graph/operations/contraction.h"
#include "runtime/graph/operations/identity.h"
#include "runtime/graph/operations/softmax.h"
#include "runtime/graph/rewrites/rewrites.h"
#include "tests/support/activation_formulas.h"
#include "tests/support/strategy_validator.h"

namespace meshwork::contraction_test {

using namespace meshwork::test;

namespace {

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
    y.values[at] = activation_formula(activation, sum);
  }
  return y;
}

// y = the sum over all letters that y lacks of a * b, one term after the other.
Tensor einsum(const std::string& equation, const Tensor& a, const Tensor& b) {
  const std::size_t comma = equation.find(',');
  const std::size_t arrow = equation.find("->");
  const std::string letters[] = {equation.substr(0, comma),
                                 equation.substr(comma + 1, arrow - comma - 1),
                                 equation.substr(arrow + 2)};
  std::map<char, std::int64_t> lengths;
  for (std::size_t d = 0; d < letters[0].size(); ++d) lengths[letters[0][d]] = a.shape[d];
  for (std::size_t d = 0; d < letters[1].size(); ++d) lengths[letters[1][d]] = b.shape[d];
  Shape shape;
  for (const char letter : letters[2]) shape.push_back(lengths.at(letter));
  Tensor y(shape);
  std::int64_t terms = 1;
  for (const auto& [letter, length] : lengths) terms *= length;
  for (std::int64_t term = 0; term < terms; ++term) {
    std::map<char, std::int64_t> at;
    std::int64_t rest = term;
    for (const auto& [letter, length] : lengths) {
      at[letter] = rest % length;
      rest /= length;
    }
    const auto index = [&](const std::string& of) {
      std::int64_t place = 0;
      for (const char letter : of) place = place * lengths.at(letter) + at.at(letter);
      return place;
    };
    y.values[index(letters[2])] += a.values[index(letters[0])] * b.values[index(letters[1])];
  }
  return y;
}

OperationCase einsum_case(const std::string& equation,
                          const std::map<char, std::int64_t>& lengths) {
  const auto shaped = [&](const std::string& letters) {
    Shape shape;
    for (const char letter : letters) shape.push_back(lengths.at(letter));
    return shape;
  };
  const std::size_t comma = equation.find(',');
  const std::size_t arrow = equation.find("->");
  return {.inputs = {random_tensor(shaped(equation.substr(0, comma)), 1),
                     random_tensor(shaped(equation.substr(comma + 1, arrow - comma - 1)), 2)},
          .output_gradient = random_tensor(shaped(equation.substr(arrow + 2)), 3)};
}

// "a,b->y" in the order that gives a gradient.
std::string turned(const std::string& equation, bool of_a) {
  const std::size_t comma = equation.find(',');
  const std::size_t arrow = equation.find("->");
  const std::string a = equation.substr(0, comma);
  const std::string b = equation.substr(comma + 1, arrow - comma - 1);
  const std::string y = equation.substr(arrow + 2);
  return of_a ? y + "," + b + "->" + a : a + "," + y + "->" + b;
}

const std::map<char, std::int64_t> uneven{{'b', 2}, {'t', 3}, {'s', 5}, {'h', 3}, {'k', 2},
                                          {'d', 4}, {'i', 5}, {'o', 3}, {'e', 2}};

// Dense, heads and back, queries with keys, weights with values; and orders of letters that are no
// product of matrices as they stand: summed letters apart or in another order, an innermost letter
// that repeats, letters of one operand on both sides of others.
const std::vector<std::string> equations{
    "bi,io->bo",       "bti,io->bto",   "btd,dhk->bthk",   "bthk,hkd->btd", "bthk,bshk->bhts",
    "bhts,bshk->bthk", "bi,oi->bo",     "ib,io->bo",       "ib,oi->bo",     "bi,io->ob",
    "btd,dhk->bhtk",   "bhtk,hkd->btd", "bhtk,khd->btd",   "bkth,hdk->bdt", "tb,sb->tsb",
    "tb,sb->bts",      "bt,bs->tbs",    "bth,bhs->stbh",   "bk,bk->b",      "b,o->bo",
    "b,o->ob",         "ti,ois->tos",   "htie,ieob->bohte"};

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
    const OperationResult found =
        run_whole(ContractionOperation(dense_equation(shape.size())), what);
    CHECK(difference(found.output,
                     product(what.inputs[0], what.inputs[1], nullptr, Activation::linear),
                     1e-6) == "");
  }
}

TEST_CASE("a contraction and its gradients are plain sums over the letters that are lacking") {
  for (const std::string& equation : equations) {
    INFO(equation);
    const OperationCase what = einsum_case(equation, uneven);
    const OperationResult found = run_whole(ContractionOperation(equation), what);
    CHECK(difference(found.output, einsum(equation, what.inputs[0], what.inputs[1]), 1e-6) == "");
    const Tensor& dy = *what.output_gradient;
    CHECK(difference(*found.gradients[0], einsum(turned(equation, true), dy, what.inputs[1]),
                     1e-6) == "");
    CHECK(difference(*found.gradients[1], einsum(turned(equation, false), what.inputs[0], dy),
                     1e-6) == "");
  }
}

TEST_CASE("a contraction's rule agrees with the truth, whichever letters are split") {
  for (const std::string& equation : equations) {
    INFO(equation);
    check_strategies(ContractionOperation(equation), einsum_case(equation, uneven));
  }
  check_gradients(ContractionOperation("bthk,bshk->bhts"), einsum_case("bthk,bshk->bhts", uneven));
  check_gradients(ContractionOperation("btd,dhk->bhtk"), einsum_case("btd,dhk->bhtk", uneven));
}

TEST_CASE("a contraction that is no single product takes bias and activation along behind it") {
  for (const std::string equation : {"btd,dhk->bthk", "btd,dhk->bhtk", "bi,io->ob"}) {
    OperationCase what = einsum_case(equation, uneven);
    what.inputs.push_back(random_tensor({what.output_gradient->shape.back()}, 5));
    for (const Activation activation : {Activation::relu, Activation::tanh}) {
      INFO(equation << " " << name_of(activation));
      Tensor expected = einsum(equation, what.inputs[0], what.inputs[1]);
      for (std::size_t i = 0; i < expected.values.size(); ++i) {
        const auto column = i % what.inputs[2].values.size();
        expected.values[i] =
            activation_formula(activation, expected.values[i] + what.inputs[2].values[column]);
      }
      const ContractionOperation operation(equation, {true, activation});
      CHECK(difference(run_whole(operation, what).output, expected, 1e-6) == "");
      check_gradients(operation, what);
      check_strategies(operation, what);
    }
  }
}

TEST_CASE("an equation that is none is an error that says why") {
  CHECK_THROWS_WITH(ContractionOperation("bi,io"), Catch::Contains("like bti,io->bto"));
  CHECK_THROWS_WITH(ContractionOperation("bi,io->b"),
                    Catch::Contains("has the letter 'o' in one operand alone"));
  CHECK_THROWS_WITH(ContractionOperation("i,i->"), Catch::Contains("leaves no dimension"));
  CHECK_THROWS_WITH(ContractionOperation("bii,io->bo"), Catch::Contains("twice in one operand"));
  CHECK_THROWS_WITH(ContractionOperation("bhwc,(hw)o->bco"), Catch::Contains("does not end with"));
}

TEST_CASE("the gradients of a product of two by two matrices are as worked by hand") {
  const OperationCase what{.inputs = {Tensor({2, 2}, {1, 2, 3, 4}), Tensor({2, 2}, {5, 6, 7, 8})},
                           .output_gradient = Tensor({2, 2}, {1, 0, 0, 1})};
  const OperationResult found = run_whole(ContractionOperation("bi,io->bo"), what);
  CHECK(found.output.values == std::vector<double>{19, 22, 43, 50});
  CHECK(found.gradients[0]->values == std::vector<double>{5, 7, 6, 8});  // dy * transpose(kernel)
  CHECK(found.gradients[1]->values == std::vector<double>{1, 3, 2, 4});  // transpose(x) * dy
}

TEST_CASE("a product's gradients agree with differences and its rule with the truth") {
  const ContractionOperation operation("bi,io->bo");
  check_gradients(operation, product_case({5, 7}, 4, false));
  check_strategies(operation, product_case({5, 7}, 4, false));
  check_strategies(ContractionOperation("bti,io->bto"), product_case({5, 3, 4}, 2, false));
}

TEST_CASE("a product with a bias and an activation in it is their sequence") {
  for (const Activation activation :
       {Activation::linear, Activation::relu, Activation::sigmoid, Activation::tanh,
        Activation::elu, Activation::exponential, Activation::softsign}) {
    for (const bool bias : {false, true}) {
      INFO(name_of(activation) << (bias ? " with bias" : ""));
      const ContractionOperation operation("bi,io->bo", {bias, activation});
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
  const std::vector<std::pair<Shape, std::string>> cases{
      {{5, 7}, "bi,io->bo"}, {{5, 3, 4}, "bti,io->bto"}, {{5, 3, 4}, "btu,(tu)o->bo"}};
  for (const auto& [shape, equation] : cases) {
    const ContractionOperation operation(equation);
    REQUIRE(operation.fusible().takes_derivative);
    OperationCase what;
    const std::int64_t features =
        equation.find('(') == std::string::npos ? shape.back() : element_count(shape) / shape[0];
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
}

TEST_CASE("a product takes the bias and the activation that follow it, and no more") {
  const ContractionOperation product("bi,io->bo");
  const auto with_bias = joined(product, BiasOperation());
  REQUIRE(with_bias);
  CHECK(with_bias->kind() == "product+bias");
  const auto with_relu = joined(*with_bias, ActivationOperation(Activation::relu));
  REQUIRE(with_relu);
  CHECK(with_relu->kind() == "product+bias+relu");
  CHECK(joined(product, BiasOperation({.activation = Activation::tanh}))->kind() ==
        "product+bias+tanh");
  CHECK(joined(product, ActivationOperation(Activation::sigmoid))->kind() == "product+sigmoid");
  CHECK(joined(*with_relu, IdentityOperation())->kind() == "product+bias+relu");

  CHECK_FALSE(joined(*with_bias, BiasOperation()));
  CHECK_FALSE(joined(*with_relu, ActivationOperation(Activation::relu)));
  CHECK_FALSE(joined(product, ActivationOperation(Activation::gelu)));
  CHECK_FALSE(joined(product, SoftmaxOperation()));
  CHECK_FALSE(joined(product, product));
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
  const auto with_tanh = joined(BiasOperation(), ActivationOperation(Activation::tanh));
  REQUIRE(with_tanh);
  CHECK(with_tanh->kind() == "bias+tanh");
  CHECK_FALSE(joined(*with_tanh, ActivationOperation(Activation::tanh)));
  CHECK_FALSE(joined(BiasOperation(), ActivationOperation(Activation::gelu)));
}

TEST_CASE("operands that do not fit a product or a bias are errors that say what would") {
  const auto shape_of_product = [](std::vector<Shape> inputs) {
    return ContractionOperation("bi,io->bo").output_shape(inputs);
  };
  CHECK(shape_of_product({{-1, 7}, {7, 3}}) == Shape{-1, 3});
  CHECK_THROWS_WITH(shape_of_product({{-1, 7}, {6, 3}}),
                    "a product bi,io->bo of an input of shape (batch, 7) cannot have one of shape "
                    "(6, 3)");
  CHECK_THROWS_WITH(shape_of_product({{-1, 7}}), Catch::Contains("expected 2 inputs, found 1"));
  CHECK_THROWS_WITH(BiasOperation().output_shape(std::vector<Shape>{{-1, 7}, {6}}),
                    Catch::Contains("as long as its last dimension, found (6)"));
}

TEST_CASE("what backward reads of a product and a bias") {
  CHECK(ContractionOperation("bi,io->bo", {.bias = true}).backward_reads(0));
  CHECK(ContractionOperation("bi,io->bo", {.bias = true}).backward_reads(1));
  CHECK_FALSE(ContractionOperation("bi,io->bo", {.bias = true}).backward_reads(2));
  CHECK_FALSE(BiasOperation().backward_reads(0));
  CHECK_FALSE(BiasOperation().backward_reads(1));
}

}  // namespace meshwork::contraction_test
