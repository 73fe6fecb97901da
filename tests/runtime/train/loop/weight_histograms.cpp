// What callbacks see of weights. Histograms: each rank counts what it holds, and the result is that of
// the whole weights.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "layers/dense.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/one_rank.h"

namespace meshwork::weight_histograms_test {

using namespace meshwork::test;

namespace {

class Asks final : public Callback {
 public:
  std::vector<WeightHistogram> found;
  std::vector<float> kernel;
  std::string class_name() const override { return "Asks"; }
  bool decides_alike() const override { return true; }
  void on_train_begin(Training& training) override {
    found = training.weight_histograms();
    kernel = training.weights("d1/kernel");
    CHECK_THROWS_WITH(training.weights("d1/kernl"),
                      Catch::Contains("no variable \"d1/kernl\"; did you mean \"d1/kernel\""));
    training.stop();  // after a batch: what is not finite spreads
  }
};

}  // namespace

TEST_CASE("histograms count every element once, however variables are split") {
  const int ranks = Communicator::world().size();
  std::vector<std::pair<std::vector<MeshAxis>, LayoutEntries>> spreads{
      {{{"data", ranks}, {"model", 1}}, {}},
      {{{"data", 1}, {"model", ranks}},
       {{"d1/kernel", {unsharded, "model"}}, {"d1/bias", {"model"}}}},
      {{{"data", ranks}}, {{".*/kernel", {"data", unsharded}}, {".*/bias", {"data"}}}}};
  if (ranks % 2 == 0) {
    spreads.push_back({{{"data", ranks / 2}, {"model", 2}}, {{"d1/kernel", {"model", "data"}}}});
  }
  const std::int64_t rows = 16;
  const auto source = std::make_shared<ArraySource>(
      std::vector<Array>{Array("x", random_floats(rows * 7, 1), {rows, 7}),
                         Array("t", random_floats(rows * 3, 2), {rows, 3}, FieldRole::target)});
  for (const auto& [axes, layouts] : spreads) {
    DeviceMesh mesh(axes);
    INFO(to_string(layouts) << " on " << to_string(mesh.shape()));
    const auto x = Input({7});
    auto y = Dense({.name = "d1", .units = 11})(x);
    y = Dense({.name = "resting", .units = 5, .trainable = false})(y);
    y = Dense({.name = "d2", .units = 3})(y);
    Model model(x, y, spread_over(mesh, layouts), {.seed = 3});
    model.compile({.loss = MeanSquaredError(), .optimizer = SGD()});
    // Not finite: no range has them.
    std::vector<float> bias(11, 0.5f);
    bias[3] = std::numeric_limits<float>::infinity();
    bias[4] = std::numeric_limits<float>::quiet_NaN();
    model.set_variable("d1/bias", bias);
    const std::vector<std::vector<float>> all = variables_of(model);
    const std::vector<float> kernel_before = model.variable("d1/kernel");
    const auto asks = std::make_shared<Asks>();
    (void)model.fit(source, {.batch_size = 16, .callbacks = {asks}, .verbose = Verbosity::silent});
    const std::vector<Variable>& variables = model.graph().variables;
    REQUIRE(asks->found.size() == variables.size());
    CHECK(asks->kernel == (mesh.rank() == 0 ? kernel_before : std::vector<float>()));
    for (std::size_t v = 0; v < variables.size(); ++v) {
      INFO(variables[v].path);
      const WeightHistogram& found = asks->found[v];
      CHECK(found.path == variables[v].path);
      std::vector<float> values = all[v];
      std::erase_if(values, [](float value) { return !std::isfinite(value); });
      const auto [least, greatest] = std::minmax_element(values.begin(), values.end());
      CHECK(found.least == *least);
      CHECK(found.greatest == *greatest);
      std::vector<double> counts(WeightHistogram::buckets);
      for (const float value : values) {
        std::size_t bucket = WeightHistogram::buckets - 1;
        while (bucket > 0 && *greatest > *least && value < found.edge(bucket)) --bucket;
        counts[bucket] += 1;
      }
      double apart = 0;  // a value at an edge may fall to either side
      for (std::size_t i = 0; i < counts.size(); ++i)
        apart += std::abs(counts[i] - found.counts[i]);
      CHECK(apart <= 2);
      double sum = 0;
      for (const double count : found.counts) sum += count;
      CHECK(sum == static_cast<double>(values.size()));
    }
  }
}

}  // namespace meshwork::weight_histograms_test
