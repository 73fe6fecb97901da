// Documents: where they begin, and attention that keeps them apart, in every split of their rules.
#include "runtime/graph/operations/attention.h"
#include "runtime/graph/operations/document_starts.h"
#include "tests/support/strategy_validator.h"

namespace meshwork::documents_test {

using namespace meshwork::test;

TEST_CASE("documents begin at the same places in every split, for which numbers are brought") {
  Tensor numbers({3, 7}, {1, 9, 2, 3, 9, 9, 4,  //
                          9, 5, 6, 7, 8, 1, 9,  //
                          1, 2, 3, 4, 5, 6, 7});
  const DocumentStartsOperation operation(9);
  const OperationCase what{.inputs = {numbers}};
  CHECK(run_whole(operation, what).output.values == std::vector<double>{0, 0, 2, 2, 2, 5, 6,  //
                                                                        0, 1, 1, 1, 1, 1, 1,  //
                                                                        0, 0, 0, 0, 0, 0, 0});
  check_strategies(operation, what, 0);
}

TEST_CASE("attention within documents is the same in every split, and so are its gradients") {
  const Shape shape{2, 7, 3, 2};
  const AttentionOperation operation({.scale = 0.7f, .causal = true, .bounded = true});
  const Tensor starts({2, 7}, {0, 0, 2, 2, 2, 5, 6,  //
                               0, 1, 1, 1, 1, 1, 1});
  OperationCase what{
      .inputs = {random_tensor(shape, 1), random_tensor(shape, 2), random_tensor(shape, 3), starts},
      .output_gradient = random_tensor(shape, 4),
      .wanted = {true, true, true, false}};
  // Sums of up to seven products, in other orders.
  check_strategies(operation, what, 1e-5);
}

TEST_CASE("bounds that are not of the queries are an error") {
  const AttentionOperation operation({.causal = true, .bounded = true});
  const Shape x{2, 5, 3, 4};
  CHECK_THROWS_WITH(operation.output_shape(std::vector<Shape>{x, x, x, {2, 4}}),
                    Catch::Contains("expected the places at which documents begin, of (2, 5)"));
}

}  // namespace meshwork::documents_test
