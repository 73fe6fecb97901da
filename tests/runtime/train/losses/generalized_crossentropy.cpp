// Generalized cross-entropy: Keras's own numbers, numerical gradients, and every split of rows and
// classes against the whole.
#include "runtime/train/losses/generalized_crossentropy.h"

#include <cmath>

#include "collectives/error.h"
#include "tests/runtime/train/comparison_cases.h"

namespace meshwork::generalized_crossentropy_test {

using namespace meshwork::test;

namespace {

const Tensor probabilities({4, 3},
                           {0.7, 0.2, 0.1, 0.25, 0.5, 0.25, 0.05, 0.15, 0.8, 0.3, 0.3, 0.4});
const Tensor classes({4}, {0, 2, 1, 2});

OperationCase weighted_case(const Tensor& p, const Tensor& t, const Tensor& weights) {
  OperationCase what = training_case(p, t);
  what.inputs.push_back(weights);
  what.wanted.push_back(false);
  return what;
}

}  // namespace

TEST_CASE("generalized cross-entropy and its gradient are those of Keras 3.15") {
  const auto check = [](double q, double mean, double weighted, const Values& slopes) {
    const SharedLoss loss = CategoricalGeneralizedCrossEntropy({.q = q});
    CHECK(mean_of(*loss, probabilities, classes) == Approx(mean).epsilon(1e-6));
    Tensor gradient({4, 3});
    for (std::size_t row = 0; row < 4; ++row) {
      gradient.values[3 * row + static_cast<std::size_t>(classes.values[row])] = slopes[row];
    }
    CHECK(difference(gradient_of(*loss, probabilities, classes), gradient, 1e-6) == "");
    const OperationCase what = weighted_case(probabilities, classes, Tensor({4}, {1, 2, 0.5, 0}));
    const OperationResult found = run_whole(*loss->weighted_operation({4, 3}, {4}, {4}), what);
    CHECK(found.output.values[0] / 4 == Approx(weighted).epsilon(1e-6));
    CHECK(found.gradients[0]->values[5] == Approx(2 * slopes[1]));
  };
  check(0.5, 0.8217930793762207, 0.7348453998565674,
        {-0.29880714416503906, -0.5, -0.64549720287323, -0.3952847123146057});
  check(0.75, 0.7123863697052002, 0.6356977820396423,
        {-0.27331632375717163, -0.3535533845424652, -0.4017142057418823, -0.31435835361480713});
}

TEST_CASE("generalized cross-entropy agrees with the truth over every split of rows and classes") {
  for (const Shape& shape : {Shape{5, 7}, Shape{3, 2, 5}}) {
    const Tensor p = random_distributions(shape, 1);
    const Tensor t = random_classes(Shape(shape.begin(), shape.end() - 1), shape.back(), 2);
    const SharedLoss loss = CategoricalGeneralizedCrossEntropy({.q = 0.7});
    check_strategies(*operation_of(*loss, p, t), training_case(p, t));
    const Tensor weights = random_tensor({shape.front()}, 3, 0, 2);
    check_strategies(*loss->weighted_operation(shape, t.shape, weights.shape),
                     weighted_case(p, t, weights));
  }
}

TEST_CASE("what generalized cross-entropy does not take is an error") {
  for (const double q : {0.0, 1.0, -0.5}) {
    CHECK_THROWS_WITH(CategoricalGeneralizedCrossEntropy({.q = q}),
                      Catch::Contains("q: expected a positive number below 1"));
  }
  CHECK_THROWS_WITH(CategoricalGeneralizedCrossEntropy()->operation({4, 3}, {4, 3}),
                    Catch::Contains("expected class numbers as targets"));
}

}  // namespace meshwork::generalized_crossentropy_test
