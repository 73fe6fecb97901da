// OrthogonalRegularizer: Keras 3.15's own loss and gradient, whatever the layout.
#include <cstdint>
#include <vector>

#include "layers/convolution.h"
#include "layers/dense.h"
#include "layers/regularizers/orthogonal_regularizer.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/one_rank.h"

namespace meshwork::orthogonal_regularizer_test {

using namespace meshwork::test;

TEST_CASE("rows or columns that are not at right angles cost what they cost in Keras") {
  constexpr std::int64_t rows = 5;
  const std::vector<float> features(rows * 2, 0), targets(rows * 3, 0);  // nothing else is lost
  const int ranks = Communicator::world().size();
  const std::vector<std::pair<std::vector<MeshAxis>, LayoutEntries>> spreads{
      {{{"data", ranks}}, {}},
      {{{"data", ranks}}, {{"d/kernel", {"data", unsharded}}}},
      {{{"data", 1}, {"model", ranks}}, {{"d/kernel", {unsharded, "model"}}}},
      {{{"data", 1}, {"model", ranks}}, {{"d/kernel", {"model", unsharded}}}}};
  for (const auto& [axes, layouts] : spreads) {
    DeviceMesh mesh(axes);
    INFO(to_string(layouts) << " on " << to_string(mesh.shape()));
    const auto check = [&](bool of_rows, double loss, const std::vector<float>& stepped) {
      const auto input = Input({2});
      Model model(input,
                  Dense({.name = "d",
                         .units = 3,
                         .use_bias = false,
                         .kernel_regularizer =
                             OrthogonalRegularizer({.factor = 0.5f, .of_rows = of_rows})})(input),
                  spread_over(mesh, layouts), {.check_plan = true});
      model.compile({.loss = MeanSquaredError(), .optimizer = SGD({.learning_rate = 1.0})});
      model.set_variable("d/kernel", std::vector<float>{0.5f, -0.25f, 1, 0.75f, 0.3f, -0.6f});
      const BatchView batch{.rows = rows, .inputs = {features}, .targets = {targets}};
      CHECK(model.evaluate_step(batch).at("loss") == Approx(loss).epsilon(1e-6));
      CHECK(model.train_step(batch).at("loss") == Approx(loss).epsilon(1e-6));
      CHECK(difference(model.variable("d/kernel"), stepped, 1e-6) == "");
    };
    check(true, 0.13012004,
          {0.87486959f, -0.14466476f, 0.83889902f, 1.0632519f, 0.23012075f, -0.24337482f});
    check(false, 0.2126423,
          {0.49383539f, -0.45636922f, 0.95077235f, 0.75410974f, 0.12802574f, -0.68204612f});
  }
}

TEST_CASE("variables that are no matrices have no orthogonal rows") {
  CHECK_THROWS_WITH(
      Conv1D({.filters = 2,
              .kernel_size = 3,
              .kernel_regularizer = OrthogonalRegularizer({.factor = 0.1f})})(Input({5, 4})),
      Catch::Contains(
          "its variable \"kernel\": the rows or columns of a matrix can be orthogonal"));
}

}  // namespace meshwork::orthogonal_regularizer_test
