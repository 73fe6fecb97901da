// ActivityRegularization: the penalty is in the loss and in the gradient once, on every mesh.
#include "layers/activity_regularization.h"

#include <cstdint>
#include <vector>

#include "layers/dense.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/one_rank.h"

namespace meshwork::activity_regularization_test {

using namespace meshwork::test;

TEST_CASE("what passes by is charged as the mean of the samples, on every mesh") {
  // Rows of (3, 4) give y = (5, -5), which is the target. A sample costs 0.1 * 10 + 0.01 * 50 =
  // 1.5, and the derivatives of y are 0.2 and -0.2.
  constexpr std::int64_t rows = 7;
  std::vector<float> features, targets;
  for (std::int64_t row = 0; row < rows; ++row) {
    features.insert(features.end(), {3, 4});
    targets.insert(targets.end(), {5, -5});
  }
  const int ranks = Communicator::world().size();
  const std::vector<std::pair<std::vector<MeshAxis>, LayoutEntries>> spreads{
      {{{"data", ranks}}, {}},
      {{{"data", ranks}}, {{"line/kernel", {"data", unsharded}}}},
      {{{"data", 1}, {"model", ranks}}, {{"line/kernel", {unsharded, "model"}}}},
      {{{"data", 1}, {"model", ranks}}, {{"line/kernel", {"model", unsharded}}}}};
  for (const auto& [axes, layouts] : spreads) {
    DeviceMesh mesh(axes);
    INFO(to_string(layouts) << " on " << to_string(mesh.shape()));
    const auto input = Input({2});
    const auto line = Dense({.name = "line", .units = 2, .use_bias = false})(input);
    Model model(input, ActivityRegularization({.l1 = 0.1f, .l2 = 0.01f})(line),
                spread_over(mesh, layouts), {.check_plan = true});
    model.compile({.loss = MeanSquaredError(), .optimizer = SGD({.learning_rate = 1.0})});
    model.set_variable("line/kernel", std::vector<float>{1, -1, 0.5f, -0.5f});
    const BatchView batch{.rows = rows, .inputs = {features}, .targets = {targets}};
    CHECK(model.evaluate_step(batch).at("loss") == Approx(1.5).epsilon(1e-6));
    CHECK(model.train_step(batch).at("loss") == Approx(1.5).epsilon(1e-6));
    CHECK(difference(model.variable("line/kernel"), std::vector<float>{0.4f, -0.4f, -0.3f, 0.3f},
                     1e-6) == "");
  }
}

TEST_CASE("a penalty on activity is finite and not negative") {
  CHECK_THROWS_WITH(ActivityRegularization({.l1 = -1}), Catch::Contains("l1"));
  CHECK_THROWS_WITH(ActivityRegularization({.l2 = -1}), Catch::Contains("l2"));
}

}  // namespace meshwork::activity_regularization_test
