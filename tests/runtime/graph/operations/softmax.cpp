// Softmax, whole and with its classes split.
#include "runtime/graph/operations/softmax.h"

#include <cmath>
#include <limits>

#include "collectives/error.h"
#include "tests/support/strategy_validator.h"

namespace meshwork::softmax_test {

using namespace meshwork::test;

namespace {

Tensor softmax(const Tensor& x) {
  Tensor y = x;
  const std::size_t classes = static_cast<std::size_t>(x.shape.back());
  for (std::size_t row = 0; row < x.values.size(); row += classes) {
    double sum = 0;
    for (std::size_t k = 0; k < classes; ++k) {
      sum += std::exp(x.values[row + k]);
    }
    for (std::size_t k = 0; k < classes; ++k) {
      y.values[row + k] = std::exp(x.values[row + k]) / sum;
    }
  }
  return y;
}

OperationCase softmax_case(const Shape& shape) {
  return {.inputs = {random_tensor(shape, 1, -4, 4)}, .output_gradient = random_tensor(shape, 2)};
}

}  // namespace

TEST_CASE("softmax is over the last dimension, of any number of dimensions") {
  for (const Shape& shape : {Shape{5, 7}, Shape{3, 2, 4}, Shape{4, 1}}) {
    const OperationCase what = softmax_case(shape);
    CHECK(difference(run_whole(SoftmaxOperation(), what).output, softmax(what.inputs[0]), 1e-6) ==
          "");
  }
}

TEST_CASE("softmax agrees with differences, and with the truth where classes are split") {
  check_gradients(SoftmaxOperation(), softmax_case({5, 7}));
  check_strategies(SoftmaxOperation(), softmax_case({5, 7}));
  check_strategies(SoftmaxOperation(), softmax_case({3, 4, 5}));
}

TEST_CASE("softmax of large logits does not overflow, on any split") {
  const OperationCase what{.inputs = {Tensor({2, 4}, {1000, 1001, 999, -1000, -500, -500, 200, 0})},
                           .output_gradient = random_tensor({2, 4}, 3)};
  const OperationResult found = run_whole(SoftmaxOperation(), what);
  CHECK(found.output.values[1] == Approx(1 / (1 + std::exp(-1.0) + std::exp(-2.0))));
  CHECK(found.output.values[6] == Approx(1));
  check_strategies(SoftmaxOperation(), what);
}

TEST_CASE("fewer classes than ranks leave ranks without a class and change nothing") {
  check_strategies(SoftmaxOperation(), softmax_case({5, 2}));
}

TEST_CASE("classes are completed by the operation itself") {
  const Rule rule = SoftmaxOperation().rule(std::vector<Shape>{{4, 5, 6}});
  CHECK(rule.output == rule.inputs[0]);
  CHECK(rule.own == std::string(1, rule.output.back()));
  CHECK(rule.whole.empty());
  CHECK_THROWS_WITH(SoftmaxOperation().output_shape(std::vector<Shape>{{-1}}),
                    Catch::Contains("batch and classes, found shape (batch)"));
}

}  // namespace meshwork::softmax_test
