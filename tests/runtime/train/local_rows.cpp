// Steps on rows that each rank has are steps on the whole batch, bit for bit, wherever the rows are.
#include <numeric>

#include "collectives/error.h"
#include "layers/convolution.h"
#include "layers/dense.h"
#include "layers/flatten.h"
#include "runtime/train/losses/categorical_crossentropy.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/metrics/accuracy.h"
#include "runtime/train/optimizers/adam.h"
#include "tests/support/one_rank.h"

namespace meshwork::local_rows_test {

using namespace meshwork::test;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr std::int64_t features = 5;

Communicator world() {
  return Communicator::world();
}

Model make_model(DeviceMesh& mesh, const LayoutEntries& layouts = {},
                 std::optional<std::string> batch_axis = std::nullopt) {
  const auto x = Input({features});
  auto y = Dense({.name = "a", .units = 6, .activation = Activation::tanh})(x);
  y = Dense({.name = "b", .units = 2})(y);
  Model model(x, y, spread_over(mesh, layouts, std::move(batch_axis)), {.seed = 3});
  model.compile({.loss = MeanSquaredError(), .optimizer = Adam({.learning_rate = 0.01})});
  return model;
}

// Rows of all ranks, and where those of this rank begin.
struct Rows {
  std::vector<std::int64_t> begins{0};
  std::vector<float> inputs, targets, weights;

  explicit Rows(const std::vector<std::int64_t>& counts, unsigned seed = 7) {
    for (const std::int64_t count : counts) begins.push_back(begins.back() + count);
    inputs = random_floats(all() * features, seed);
    targets = random_floats(all() * 2, seed + 1);
    weights = random_floats(all(), seed + 2, 0, 2);
  }
  [[nodiscard]] std::int64_t all() const { return begins.back(); }
  [[nodiscard]] std::int64_t begin() const {
    return begins[static_cast<std::size_t>(world().rank())];
  }
  [[nodiscard]] std::int64_t own() const {
    return begins[static_cast<std::size_t>(world().rank()) + 1] - begin();
  }
  template <class Value>
  [[nodiscard]] std::span<const Value> own(const std::vector<Value>& values) const {
    const std::int64_t row = static_cast<std::int64_t>(values.size()) / all();
    return std::span(values).subspan(static_cast<std::size_t>(begin() * row),
                                     static_cast<std::size_t>(own() * row));
  }
  [[nodiscard]] BatchView whole() const {
    return {.rows = all(), .inputs = {inputs}, .targets = {targets}};
  }
  [[nodiscard]] LocalBatch local() const {
    if (own() == 0) return {};
    return {.rows = own(), .inputs = {own(inputs)}, .targets = {own(targets)}};
  }
};

// So many rows for each rank, of which some are none.
std::vector<std::vector<std::int64_t>> distributions() {
  const auto ranks = static_cast<std::size_t>(world().size());
  std::vector<std::int64_t> even(ranks, 3), uneven(ranks), last(ranks, 0);
  std::iota(uneven.begin(), uneven.end(), 1);
  last.back() = 4;
  std::vector<std::int64_t> falling(uneven.rbegin(), uneven.rend());
  return {even, uneven, falling, last};
}

}  // namespace

TEST_CASE("steps on rows of the ranks are those on the whole batch, on every mesh") {
  const int ranks = world().size();
  struct Case {
    std::vector<MeshAxis> axes;
    LayoutEntries layouts;
    std::optional<std::string> batch_axis = std::nullopt;
  };
  std::vector<Case> cases{{{{"data", ranks}}, {}},
                          {{{"data", 1}, {"model", ranks}}, {{"a/kernel", {unsharded, "model"}}}},
                          {{{"model", ranks}}, {{"input", {unsharded, "model"}}}, ""}};
  if (ranks == 4)
    cases.push_back({{{"data", 2}, {"model", 2}}, {{"b/kernel", {"model", unsharded}}}});
  for (const Case& one : cases) {
    DeviceMesh mesh(one.axes, world());
    for (const std::vector<std::int64_t>& counts : distributions()) {
      Model expected = make_model(mesh, one.layouts, one.batch_axis);
      Model found = make_model(mesh, one.layouts, one.batch_axis);
      for (unsigned step = 0; step < 3; ++step) {
        const Rows rows(counts, 7 + step);
        CHECK(found.train_local_step(rows.local()) == expected.train_step(rows.whole()));
        CHECK(found.evaluate_local_step(rows.local()) == expected.evaluate_step(rows.whole()));
        const std::vector<float> all = expected.predict_step(rows.whole()).front();
        const std::vector<float> own = found.predict_local_step(rows.local()).front();
        const std::span<const float> truth = rows.own(all);
        CHECK(own == std::vector<float>(truth.begin(), truth.end()));
      }
      CHECK(variables_of(found) == variables_of(expected));
    }
  }
}

TEST_CASE("the rows of a rank may be doubles, which are rounded") {
  DeviceMesh mesh({{"data", -1}}, world());
  for (const std::vector<std::int64_t>& counts : distributions()) {
    Model expected = make_model(mesh), found = make_model(mesh);
    const Rows rows(counts);
    std::vector<double> inputs(rows.inputs.begin(), rows.inputs.end());
    // Less than half of a float's last place more: it is rounded away.
    for (double& value : inputs) value *= 1 + 1e-9;
    LocalBatch local = rows.local();
    if (rows.own() > 0) local.inputs = {rows.own(inputs)};
    CHECK(found.train_local_step(local) == expected.train_step(rows.whole()));
  }
}

TEST_CASE("weights of the rows of the ranks are those of the whole batch") {
  DeviceMesh mesh({{"data", -1}}, world());
  for (const std::vector<std::int64_t>& counts : distributions()) {
    Model expected = make_model(mesh), found = make_model(mesh);
    const Rows rows(counts);
    BatchView whole = rows.whole();
    whole.weights = rows.weights;
    LocalBatch local = rows.local();
    if (rows.own() > 0) local.weights = rows.own(rows.weights);
    CHECK(found.train_local_step(local) == expected.train_step(whole));
  }
}

TEST_CASE("images whose rows lie on ranks reach ranks that have other rows of pixels") {
  const int ranks = world().size();
  DeviceMesh mesh({{"rows", ranks}}, world());
  const auto model = [&] {
    const auto x = Input({8, 4, 1}, "images");
    auto y = Conv2D({.name = "conv", .filters = 2, .kernel_size = {3, 3}})(x);
    y = Dense({.name = "out", .units = 3})(Flatten()(y));
    Model made(x, y, spread_over(mesh, {{"images", {unsharded, "rows", unsharded, unsharded}}}, ""),
               {.seed = 5});
    made.compile({.loss = SparseCategoricalCrossentropy({.from_logits = true}),
                  .optimizer = Adam(),
                  .metrics = {Accuracy()}});
    return made;
  };
  Model expected = model(), found = model();
  const std::int64_t rows = 2 * ranks;
  const std::vector<float> images = random_floats(rows * 32, 3);
  std::vector<float> classes(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < classes.size(); ++i) classes[i] = static_cast<float>(i % 3);
  const auto rank = static_cast<std::size_t>(world().rank());
  const Logs logs =
      found.train_local_step({.rows = 2,
                              .inputs = {std::span(images).subspan(64 * rank, 64)},
                              .targets = {std::span<const float>(classes).subspan(2 * rank, 2)}});
  CHECK(logs == expected.train_step({.rows = rows, .inputs = {images}, .targets = {classes}}));
}

TEST_CASE("what is wrong with the rows of one rank is an error on all") {
  DeviceMesh mesh({{"data", -1}}, world());
  Model model = make_model(mesh);
  const Rows rows(std::vector<std::int64_t>(static_cast<std::size_t>(world().size()), 2));
  const bool last = world().rank() + 1 == world().size();
  LocalBatch wrong = rows.local();
  if (last) wrong.rows = 3;
  CHECK_THROWS_WITH(model.train_local_step(wrong),
                    ContainsSubstring("input 0 of 3 rows has 10 values, expected 5 a row"));
  wrong = rows.local();
  if (last) wrong.targets.clear();
  CHECK_THROWS_WITH(model.train_local_step(wrong),
                    ContainsSubstring("0 targets, expected 1 and 1"));
  CHECK_THROWS_WITH(model.train_local_step({}), ContainsSubstring("no rank has a row"));
  if (world().size() > 1) {
    wrong = rows.local();
    if (last) wrong.weights = rows.own(rows.weights);
    CHECK_THROWS_WITH(model.train_local_step(wrong), ContainsSubstring("have weights"));
  }
  // The model is as it was.
  Model other = make_model(mesh);
  CHECK(model.train_local_step(rows.local()) == other.train_local_step(rows.local()));
}

}  // namespace meshwork::local_rows_test
