// Activations, affine, dropout, add and identity.
#include <cmath>
#include <limits>

#include "collectives/error.h"
#include "runtime/device/kernels/activation.h"
#include "runtime/device/philox.h"
#include "runtime/graph/operations/activation.h"
#include "runtime/graph/operations/add.h"
#include "runtime/graph/operations/affine.h"
#include "runtime/graph/operations/dropout.h"
#include "runtime/graph/operations/identity.h"
#include "runtime/graph/operations/pair.h"
#include "runtime/graph/operations/rectifier.h"
#include "runtime/graph/operations/slope.h"
#include "tests/support/activation_formulas.h"
#include "tests/support/strategy_validator.h"

namespace meshwork::elementwise_test {

using namespace meshwork::test;

namespace {

// Random numbers of magnitude 0.05 to 3, away from the kink of relu.
Tensor away_from_zero(const Shape& shape, unsigned seed) {
  Tensor tensor = random_tensor(shape, seed, -3, 3);
  for (double& value : tensor.values) {
    value += value < 0 ? -0.0625 : 0.0625;
    value = static_cast<float>(value);
  }
  return tensor;
}

// The same, away from every multiple of a half: all kinks of activations are there.
Tensor away_from_halves(const Shape& shape, unsigned seed) {
  Tensor tensor = random_tensor(shape, seed, -8, 8);
  for (double& value : tensor.values) {
    const double half = std::floor(value) / 2;
    value = static_cast<float>(half + 0.0625 + (value / 2 - half) * 0.75);
  }
  return tensor;
}

}  // namespace

TEST_CASE("activations follow their formulas, their derivatives and their rules") {
  for (const Activation activation : elementwise_activations()) {
    if (activation == Activation::linear) continue;  // the identity
    INFO(name_of(activation));
    const ActivationOperation operation(activation);
    const OperationCase what{.inputs = {away_from_halves({5, 3, 7}, 1)},
                             .output_gradient = random_tensor({5, 3, 7}, 2)};
    Tensor expected = what.inputs[0];
    for (double& value : expected.values) {
      value = activation_formula(activation, value);
    }
    CHECK(difference(run_whole(operation, what).output, expected, 1e-6) == "");
    check_gradients(operation, what);
    check_strategies(operation, what);
    CHECK(operation.backward_reads(0) == !differentiable_from_output(activation));
  }
}

TEST_CASE("a rectifier has a slope below its threshold and a limit above, and its own derivative") {
  const RectifierOperation operation({.slope = 0.25f, .threshold = 1, .limit = 2});
  const OperationCase what{.inputs = {Tensor({2, 3}, {-3, 1, 1.5, 2, 5, 0})},
                           .output_gradient = Tensor({2, 3}, {4, 4, 4, 4, 4, 4})};
  const OperationResult found = run_whole(operation, what);
  CHECK(found.output.values == std::vector<double>{-1, 0, 1.5, 2, 2, -0.25});
  CHECK(found.gradients[0]->values == std::vector<double>{1, 1, 4, 0, 0, 1});
  const OperationCase smooth{.inputs = {away_from_zero({5, 3, 7}, 1)},
                             .output_gradient = random_tensor({5, 3, 7}, 2)};
  check_gradients(RectifierOperation({.slope = 0.25f}), smooth);
  check_strategies(operation, smooth);
}

TEST_CASE("elu bends to its own alpha, and is joined to nothing then") {
  const ActivationOperation operation(Activation::elu, 0.25f);
  const OperationCase what{.inputs = {Tensor({4}, {2, 0, -1, -30})},
                           .output_gradient = Tensor({4}, {4, 4, 4, 4})};
  const OperationResult found = run_whole(operation, what);
  CHECK(found.output.values[0] == 2);
  CHECK(found.output.values[2] == Approx(0.25 * std::expm1(-1)));
  CHECK(found.output.values[3] == Approx(-0.25));
  CHECK(found.gradients[0]->values[2] == Approx(std::exp(-1)));
  CHECK_FALSE(operation.fusible().is_epilogue);
  CHECK(operation.fusible().ends_in == Activation::linear);
  check_gradients(operation, {.inputs = {away_from_zero({5, 3, 7}, 1)},
                              .output_gradient = random_tensor({5, 3, 7}, 2)});
}

TEST_CASE("functions of two tensors have their gradients, however spread") {
  for (const PairFunction function : {PairFunction::product, PairFunction::difference,
                                      PairFunction::maximum, PairFunction::minimum}) {
    const PairOperation operation(function);
    Tensor a = random_tensor({5, 3, 7}, 1), b = random_tensor({5, 3, 7}, 2);
    for (std::size_t i = 0; i < a.values.size(); ++i) {
      // Not so near each other that a step changes which is larger.
      if (std::abs(a.values[i] - b.values[i]) < 0.0625) a.values[i] += 0.25;
    }
    const OperationCase what{.inputs = {a, b}, .output_gradient = random_tensor({5, 3, 7}, 3)};
    check_gradients(operation, what);
    check_strategies(operation, what, 0);
  }
  CHECK(run_whole(PairOperation(PairFunction::difference),
                  {.inputs = {Tensor({2}, {5, 1}), Tensor({2}, {3, 4})}})
            .output.values == std::vector<double>{2, -3});
}

TEST_CASE("a learned slope has a gradient summed over all that share it, however spread") {
  for (const std::size_t shared : {0, 1}) {
    const SlopeOperation operation(shared);
    const OperationCase what{.inputs = {away_from_zero({5, 3, 7}, 1),
                                        random_tensor(shared == 0 ? Shape{3, 7} : Shape{1, 7}, 2)},
                             .output_gradient = random_tensor({5, 3, 7}, 3)};
    check_gradients(operation, what);
    check_strategies(operation, what);
  }
}

TEST_CASE("every activation has an operation") {
  CHECK(make_activation(Activation::linear)->kind() == "identity");
  CHECK(make_activation(Activation::softmax)->kind() == "softmax");
  CHECK(make_activation(Activation::gelu)->kind() == "gelu");
}

TEST_CASE("affine scales and moves, and its gradient is scaled") {
  const AffineOperation operation(0.5f, -3);
  const OperationCase what{.inputs = {Tensor({2, 2}, {0, 2, 4, 255})},
                           .output_gradient = Tensor({2, 2}, {1, -2, 0, 8})};
  const OperationResult found = run_whole(operation, what);
  CHECK(found.output.values == std::vector<double>{-3, -2, -1, 124.5});
  CHECK(found.gradients[0]->values == std::vector<double>{0.5, -1, 0, 4});
  check_strategies(
      operation,
      {.inputs = {random_tensor({5, 7}, 1)}, .output_gradient = random_tensor({5, 7}, 2)}, 0);
}

TEST_CASE("dropout keeps by the global index and divides what it keeps") {
  const float rate = 0.25f;
  OperationCase what{.inputs = {random_tensor({5, 7, 3}, 1, 1, 2)},
                     .output_gradient = random_tensor({5, 7, 3}, 2, 1, 2)};
  what.key = random_key(7, "drop/dropout");
  what.step = 11;
  const OperationResult found = run_whole(DropoutOperation(rate), what);
  for (std::size_t i = 0; i < found.output.values.size(); ++i) {
    const bool kept = philox_word(what.key, i, 11) >= 0x40000000u;
    CHECK(found.output.values[i] == Approx(kept ? what.inputs[0].values[i] / 0.75 : 0));
    CHECK(found.gradients[0]->values[i] ==
          Approx(kept ? what.output_gradient->values[i] / 0.75 : 0));
  }
  check_strategies(DropoutOperation(rate), what, 0);
}

TEST_CASE("dropout at rate 1 gives zeros, at rate 0 and outside training nothing moves") {
  OperationCase what{.inputs = {random_tensor({5, 7}, 1)},
                     .output_gradient = random_tensor({5, 7}, 2)};
  CHECK(magnitude(run_whole(DropoutOperation(1), what).output) == 0);
  const OperationResult kept = run_whole(DropoutOperation(0), what);
  CHECK(kept.output.values == what.inputs[0].values);
  CHECK(kept.gradients[0]->values == what.output_gradient->values);
  check_strategies(DropoutOperation(0), what, 0);

  what.training = false;
  what.output_gradient.reset();
  CHECK(run_whole(DropoutOperation(0.5f), what).output.values == what.inputs[0].values);

  const std::unique_ptr<Device> device = make_device({.kind = "cpu"});
  Meeting meeting(1);
  ReferenceLowering lowering(DropoutOperation(0.5f), what, MeshShape({{"all", 1}}, 1), {}, 0,
                             *device, meeting);
  CHECK(lowering.output_is_an_input());
  CHECK(lowering.labels().empty());
}

TEST_CASE("add sums any number of inputs and hands its gradient to each") {
  for (int count = 1; count <= 4; ++count) {
    OperationCase what{.output_gradient = random_tensor({5, 3}, 9)};
    Tensor sum({5, 3});
    for (int i = 0; i < count; ++i) {
      what.inputs.push_back(random_tensor({5, 3}, static_cast<unsigned>(i)));
      for (std::size_t at = 0; at < sum.values.size(); ++at) {
        sum.values[at] += what.inputs.back().values[at];
      }
    }
    const AddOperation operation(count);
    const OperationResult found = run_whole(operation, what);
    CHECK(difference(found.output, sum, 1e-6) == "");
    for (int i = 0; i < count; ++i) {
      CHECK(found.gradients[i]->values == what.output_gradient->values);
    }
    check_strategies(operation, what, 0);
  }
  CHECK_THROWS_WITH(AddOperation(2).output_shape(std::vector<Shape>{{-1, 3}, {-1, 4}}),
                    "expected inputs of equal shapes, found (batch, 3) for input 0 and (batch, 4) "
                    "for input 1");
}

TEST_CASE("the identity moves nothing") {
  const OperationCase what{.inputs = {random_tensor({5, 3}, 1)},
                           .output_gradient = random_tensor({5, 3}, 2)};
  CHECK(run_whole(IdentityOperation(), what).output.values == what.inputs[0].values);
  check_strategies(IdentityOperation(), what, 0);
}

}  // namespace meshwork::elementwise_test
