#include "runtime/graph/operations/category_encoding.h"

#include "tests/support/strategy_validator.h"

namespace meshwork::category_encoding_test {

using namespace meshwork::test;

namespace {

// Numbers from 0 to 6, several of them equal in most rows.
OperationCase categories(const Shape& shape) {
  Tensor x(shape);
  for (std::size_t i = 0; i < x.values.size(); ++i) x.values[i] = static_cast<double>(i * i % 7);
  return {.inputs = {x}};
}

}  // namespace

TEST_CASE("categories are encoded equally, however numbers and columns are spread") {
  for (const bool each : {true, false}) {
    for (const bool counts : {true, false}) {
      INFO((each ? "each, " : "together, ") << (counts ? "counts" : "marks"));
      const CategoryEncodingOperation operation(7, each, counts);
      OperationCase what = categories({3, 2, 5});
      what.output_gradient =
          random_tensor(operation.output_shape(std::vector<Shape>{what.inputs[0].shape}), 2);
      check_strategies(operation, what, 0);
      const OperationResult whole = run_whole(operation, what);
      CHECK(whole.gradients[0]->values == std::vector<double>(what.inputs[0].values.size(), 0));
    }
  }
}

TEST_CASE("a split of the numbers of a row adds counts, and takes the maximum of marks") {
  const std::vector<Shape> shapes{{-1, 5}};
  const auto own = [&](bool each, bool counts) {
    const CategoryEncodingOperation operation(7, each, counts);
    return operation.own_reductions(operation.rule(shapes)).size();
  };
  CHECK(own(false, false) == 1);
  CHECK(own(false, true) == 0);
  CHECK(own(true, false) == 0);
  CHECK(CategoryEncodingOperation(7, false, true).rule(shapes).output == "bo");
  CHECK(CategoryEncodingOperation(7, true, true).rule(shapes).output == "bto");
}

}  // namespace meshwork::category_encoding_test
