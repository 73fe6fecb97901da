// Reshape and concatenate: what moves elements, or only says that they lie otherwise.
#include <algorithm>

#include "collectives/error.h"
#include "runtime/graph/operations/concatenate.h"
#include "runtime/graph/operations/reshape.h"
#include "tests/support/strategy_validator.h"

namespace meshwork::moving_test {

using namespace meshwork::test;

namespace {

// Dimensions of the input that keep their letter in the output and may be split, as pairs
// (dimension of the input, dimension of the output).
using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;
Pairs corresponding(const Shape& input, const Shape& sample) {
  const Rule rule = ReshapeOperation(sample).rule(std::vector<Shape>{input});
  REQUIRE(rule.inputs[0].size() == input.size());
  REQUIRE(rule.output.size() == sample.size() + 1);
  Pairs pairs;
  for (std::size_t from = 0; from < input.size(); ++from) {
    const std::size_t to = rule.output.find(rule.inputs[0][from]);
    const bool whole = rule.whole.find(rule.inputs[0][from]) != std::string::npos;
    CHECK(whole == (to == std::string::npos));
    if (to != std::string::npos) {
      pairs.emplace_back(from, to);
    }
  }
  return pairs;
}

}  // namespace

TEST_CASE("dimensions that a reshape leaves alone keep their letter") {
  CHECK(corresponding({9, 28, 28, 1}, {784}) == Pairs{{0, 0}});
  CHECK(corresponding({9, 784}, {28, 28}) == Pairs{{0, 0}});
  CHECK(corresponding({9, 784}, {784}) == Pairs{{0, 0}, {1, 1}});
  CHECK(corresponding({9, 7, 4, 5}, {7, 20}) == Pairs{{0, 0}, {1, 1}});
  CHECK(corresponding({9, 4, 5, 7}, {20, 7}) == Pairs{{0, 0}, {3, 2}});
  CHECK(corresponding({9, 4, 5}, {5, 4}) == Pairs{{0, 0}});
  CHECK(corresponding({9, 6, 4, 3}, {6, 2, 2, 3}) == Pairs{{0, 0}, {1, 1}, {3, 4}});
}

TEST_CASE("dimensions of length 1 come and go without a letter") {
  CHECK(corresponding({9, 5}, {5, 1, 1}) == Pairs{{0, 0}, {1, 1}});
  CHECK(corresponding({9, 1, 5, 1}, {5}) == Pairs{{0, 0}, {2, 1}});
  CHECK(corresponding({9, 4, 1, 6}, {1, 4, 6}) == Pairs{{0, 0}, {1, 2}, {3, 3}});
  CHECK(corresponding({9}, {1}) == Pairs{{0, 0}});
  CHECK(corresponding({9, 1}, {}) == Pairs{{0, 0}});
}

TEST_CASE("the letters do not depend on the length of the batch") {
  for (const std::int64_t batch : {-1, 0, 1, 4, 784}) {
    CHECK(corresponding({batch, 4, 5}, {20}) == Pairs{{0, 0}});
    CHECK(corresponding({batch, 4, 5}, {4, 5}) == Pairs{{0, 0}, {1, 1}, {2, 2}});
  }
}

TEST_CASE("a reshape moves no element, on any split that its rule allows") {
  const std::vector<std::pair<Shape, Shape>> cases{{{5, 3, 4}, {12}},
                                                   {{5, 12}, {4, 3}},
                                                   {{5, 7, 2, 3}, {7, 6}},
                                                   {{5, 2, 3, 7}, {6, 1, 7}},
                                                   {{5, 4, 3}, {4, 3}}};
  for (const auto& [from, sample] : cases) {
    Shape to = sample;
    to.insert(to.begin(), from[0]);
    const OperationCase what{.inputs = {random_tensor(from, 1)},
                             .output_gradient = random_tensor(to, 2)};
    const OperationResult found = run_whole(ReshapeOperation(sample), what);
    CHECK(found.output.shape == to);
    CHECK(found.output.values == what.inputs[0].values);
    CHECK(found.gradients[0]->values == what.output_gradient->values);
    check_strategies(ReshapeOperation(sample), what, 0);
  }
}

TEST_CASE("a reshape to another number of elements is an error") {
  CHECK_THROWS_WITH(ReshapeOperation({5, 5}).output_shape(std::vector<Shape>{{-1, 4, 6}}),
                    "cannot give an input of shape (batch, 4, 6), which has 24 elements a sample, "
                    "the shape (5, 5), which has 25");
  CHECK_THROWS_WITH(ReshapeOperation({0}).output_shape(std::vector<Shape>{{-1, 4}}),
                    Catch::Contains("lengths are positive"));
}

TEST_CASE("concatenation puts inputs one behind the other along any dimension but the batch") {
  const Tensor a({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Tensor b({2, 1, 2}, {10, 20, 30, 40});
  const Tensor c({2, 2, 1}, {-1, -2, -3, -4});
  CHECK(run_whole(ConcatenateOperation(2, 1), {.inputs = {a, b}}).output.values ==
        std::vector<double>{1, 2, 3, 4, 10, 20, 5, 6, 7, 8, 30, 40});
  CHECK(run_whole(ConcatenateOperation(2, 2), {.inputs = {a, c}}).output.values ==
        std::vector<double>{1, 2, -1, 3, 4, -2, 5, 6, -3, 7, 8, -4});
}

TEST_CASE("the gradient of a concatenation is cut where its inputs were joined") {
  const OperationCase along_1{.inputs = {random_tensor({5, 2, 3}, 1), random_tensor({5, 1, 3}, 2),
                                         random_tensor({5, 4, 3}, 3)},
                              .output_gradient = random_tensor({5, 7, 3}, 4)};
  check_gradients(ConcatenateOperation(3, 1), along_1);
  check_strategies(ConcatenateOperation(3, 1), along_1, 0);
  const OperationCase along_2{.inputs = {random_tensor({5, 3, 2}, 1), random_tensor({5, 3, 7}, 2)},
                              .output_gradient = random_tensor({5, 3, 9}, 4)};
  check_gradients(ConcatenateOperation(2, 2), along_2);
  check_strategies(ConcatenateOperation(2, 2), along_2, 0);
}

TEST_CASE("inputs that cannot be concatenated are errors that say why") {
  const auto shape = [](int dimension, std::vector<Shape> inputs) {
    return ConcatenateOperation(static_cast<int>(inputs.size()), dimension).output_shape(inputs);
  };
  CHECK(shape(1, {{-1, 3}, {-1, 4}}) == Shape{-1, 7});
  CHECK_THROWS_WITH(shape(0, {{-1, 3}, {-1, 3}}), Catch::Contains("it is one of 1 to 1"));
  CHECK_THROWS_WITH(shape(1, {{-1, 3, 2}, {-1, 4, 1}}),
                    Catch::Contains("differ in dimension 1 only, found (batch, 3, 2) for input 0 "
                                    "and (batch, 4, 1) for input 1"));
  CHECK_THROWS_WITH(shape(1, {{-1, 3}, {-1, 4, 1}}), Catch::Contains("differ in dimension 1 only"));
}

}  // namespace meshwork::moving_test
