// Muon against Keras 3.15's own numbers, on one rank and with its matrix split.
#include "runtime/train/optimizers/muon.h"

#include <cstdint>
#include <vector>

#include "layers/dense.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "tests/support/one_rank.h"

namespace meshwork::muon_test {

using namespace meshwork::test;

namespace {

// After three steps from (0.5, -0.25, 1; 0.75, 0.3, -0.6). Rows of features are those of an
// identity, so that the gradient is (w - t) / 3, or of the transpose (`high`) that of w^T.
std::vector<float> after_three_steps(DeviceMesh& mesh, const LayoutEntries& layouts,
                                     const MuonOptions& options, bool high = false) {
  const std::int64_t rows = high ? 3 : 2, columns = high ? 2 : 3;
  const auto oriented = [&](const std::vector<float>& wide) {
    std::vector<float> values;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < columns; ++column) {
        values.push_back(wide[high ? 3 * column + row : 3 * row + column]);
      }
    }
    return values;
  };
  const auto input = Input({rows});
  Model model(input, Dense({.name = "d", .units = columns, .use_bias = false})(input),
              spread_over(mesh, layouts), {.check_plan = true});
  model.compile({.loss = MeanSquaredError(), .optimizer = Muon(options)});
  model.set_variable("d/kernel", oriented({0.5f, -0.25f, 1, 0.75f, 0.3f, -0.6f}));
  // The mean over `rows` and `columns`: 2 / 6 of the difference.
  std::vector<float> features(static_cast<std::size_t>(rows * rows), 0);
  for (std::int64_t i = 0; i < rows; ++i) features[static_cast<std::size_t>(i * (rows + 1))] = 1;
  const std::vector<float> targets = oriented({0.1f, 0.4f, 0.2f, -0.3f, 0.8f, 0.5f});
  for (int step = 0; step < 3; ++step) {
    (void)model.train_step({.rows = rows, .inputs = {features}, .targets = {targets}});
  }
  return model.variable("d/kernel");
}

}  // namespace

TEST_CASE("Muon takes the steps that Keras takes, whatever the layout") {
  const int ranks = Communicator::world().size();
  const std::vector<std::pair<std::vector<MeshAxis>, LayoutEntries>> spreads{
      {{{"data", ranks}}, {}},
      {{{"data", ranks}}, {{"d/kernel", {"data", unsharded}}}},
      {{{"data", 1}, {"model", ranks}}, {{"d/kernel", {unsharded, "model"}}}},
      {{{"data", 1}, {"model", ranks}}, {{"d/kernel", {"model", unsharded}}}}};
  for (const auto& [axes, layouts] : spreads) {
    DeviceMesh mesh(axes);
    INFO(to_string(layouts) << " on " << to_string(mesh.shape()));
    const auto check = [&](const MuonOptions& options, const std::vector<float>& keras) {
      // The iteration makes roundings of small singular values up to 480 times larger.
      CHECK(difference(after_three_steps(mesh, layouts, options), keras, 2e-5) == "");
    };
    check({.learning_rate = 0.1},
          {0.47447145f, -0.20814958f, 0.94620609f, 0.67270935f, 0.33563671f, -0.5182054f});
    check({.learning_rate = 0.1, .weight_decay = {}, .nesterov = false, .rms_rate = {}},
          {0.42799902f, -0.13000208f, 0.84804922f, 0.52925557f, 0.40397501f, -0.3657158f});
    check({.learning_rate = 0.1, .exclude_layers = {"ker"}},
          {0.20694879f, 0.047073334f, 0.7011584f, 0.45070824f, 0.5946548f, -0.30079103f});
    // A matrix that is higher than wide: the same, transposed.
    CHECK(difference(after_three_steps(mesh, layouts, {.learning_rate = 0.1}, true),
                     std::vector<float>{0.47447145f, 0.67270935f, -0.20814958f, 0.33563671f,
                                        0.94620609f, -0.5182054f},
                     2e-5) == "");
  }
}

TEST_CASE("what Muon leaves out is a list of regular expressions") {
  CHECK_THROWS_WITH(
      Muon({.exclude_layers = {"(open"}}),
      "Muon: exclude_layers: expression \"(open\" is not a regular expression: parentheses that do "
      "not match, at character 1 (\"(open\")");
  CHECK_THROWS_WITH(Muon({.ns_steps = -1}), Catch::Contains("Muon: ns_steps"));
}

}  // namespace meshwork::muon_test
