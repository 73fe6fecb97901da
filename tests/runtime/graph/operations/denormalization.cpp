#include "runtime/graph/operations/denormalization.h"

#include "tests/support/strategy_validator.h"

namespace meshwork::denormalization_test {

using namespace meshwork::test;

TEST_CASE("each channel gets its deviation and its mean, however spread") {
  const DenormalizationOperation operation;
  const OperationCase worked{.inputs = {Tensor({2, 3}, {1, 2, -1, 0, 0.5, 3}),
                                        Tensor({3}, {10, 0, -1}), Tensor({3}, {4, 0.25, 0})},
                             .output_gradient = Tensor({2, 3}, {1, 2, 3, 4, 5, 6}),
                             .wanted = {true, false, false}};
  const OperationResult found = run_whole(operation, worked);
  CHECK(found.output.values == std::vector<double>{12, 1, -1, 10, 0.25, -1});
  CHECK(found.gradients[0]->values == std::vector<double>{2, 1, 0, 8, 2.5, 0});
  const OperationCase what{.inputs = {random_tensor({5, 2, 7}, 1), random_tensor({7}, 2),
                                      random_tensor({7}, 3, 0.25, 9)},
                           .output_gradient = random_tensor({5, 2, 7}, 4),
                           .wanted = {true, false, false}};
  check_gradients(operation, what);
  check_strategies(operation, what, 0);
}

}  // namespace meshwork::denormalization_test
