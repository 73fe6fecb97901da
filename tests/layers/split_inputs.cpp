// Inputs that a layout map lays out, and targets that follow the output that they are compared
// with: each rank reads its block of every image and nothing else, and the numbers are those of one
// rank.
#include "layers/add.h"
#include "layers/convolution.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/one_rank.h"

namespace meshwork::split_inputs_test {

using namespace meshwork::test;

namespace {

constexpr std::int64_t samples = 10, batch = 4, rows = 7, columns = 5;
constexpr double tolerance = 1e-5;  // sums of some hundred products, in another order

// Remembers how many elements of each field were asked for.
class Counted final : public Source {
 public:
  explicit Counted(std::shared_ptr<const Source> source)
      : Source(source->rows(), source->fields(), "counted"),
        source_(std::move(source)),
        read_(source_->fields().size()) {}
  std::string fingerprint() const override { return source_->fingerprint(); }
  [[nodiscard]] std::int64_t elements_read(int field) const { return read_[field]; }

 private:
  void read_rows(int field, std::span<const std::int64_t> rows, const Block& block,
                 std::byte* destination) const override {
    read_[field] += static_cast<std::int64_t>(rows.size()) * element_count(shape_of(block));
    source_->read(field, rows, block, destination);
  }
  std::shared_ptr<const Source> source_;
  mutable std::vector<std::int64_t> read_;
};

std::shared_ptr<Counted> images() {
  std::vector<Array> arrays{
      Array("left", random_floats(samples * rows * columns * 2, 1), {samples, rows, columns, 2}),
      Array("right", random_floats(samples * rows * columns * 2, 2), {samples, rows, columns, 2}),
      Array("masks", random_floats(samples * rows * columns, 3), {samples, rows, columns, 1},
            FieldRole::target)};
  return std::make_shared<Counted>(std::make_shared<ArraySource>(std::move(arrays)));
}

SharedLayer conv(const std::string& name, std::int64_t filters, std::int64_t kernel) {
  return Conv2D(
      {.name = name, .filters = filters, .kernel_size = kernel, .padding = Padding::same});
}

Model model_over(Distribution distribution) {
  const auto left = Input({rows, columns, 2}, "left");
  const auto right = Input({rows, columns, 2}, "right");
  const auto both = Add({.name = "both"})({conv("near", 3, 3)(left), conv("far", 3, 5)(right)});
  Model model({left, right}, {conv("pixels", 1, 1)(both)}, std::move(distribution), {.seed = 5});
  model.compile({.loss = MeanSquaredError(), .optimizer = SGD({.learning_rate = 0.1})});
  return model;
}

struct Outcome {
  Logs before, after;
  std::vector<std::vector<float>> variables;
  std::vector<float> predicted;
};

Outcome train(Distribution distribution) {
  Model model = model_over(std::move(distribution));
  Outcome outcome;
  outcome.before = model.evaluate(images(), {.batch_size = batch});
  (void)model.fit(images(), {.epochs = 3, .batch_size = batch, .verbose = Verbosity::silent});
  outcome.after = model.evaluate(images(), {.batch_size = batch});
  outcome.variables = variables_of(model);
  outcome.predicted = model.predict(images(), {.batch_size = batch});
  return outcome;
}

struct Setting {
  std::vector<MeshAxis> axes;
  std::string batch_axis;
  TensorLayout image;
};

std::vector<Setting> settings(int ranks) {
  std::vector<Setting> all{{{{"rows", ranks}}, "", {unsharded, "rows", unsharded, unsharded}}};
  if (ranks % 2 == 0) {
    all.push_back(
        {{{"rows", 2}, {"columns", ranks / 2}}, "", {unsharded, "rows", "columns", unsharded}});
    all.push_back(
        {{{"data", 2}, {"rows", ranks / 2}}, "data", {"data", "rows", unsharded, unsharded}});
  }
  return all;
}

LayoutEntries entries_of(const Setting& setting) {
  return {{"left|right", setting.image}, {"(near|far|both|pixels)/output", setting.image}};
}

}  // namespace

TEST_CASE("inputs that are laid out train as on one rank") {
  DeviceMesh self = alone();
  const Outcome one = train(spread_over(self));
  CHECK(one.after.at("loss") < one.before.at("loss"));
  for (const Setting& setting : settings(Communicator::world().size())) {
    DeviceMesh mesh(setting.axes);
    INFO(meshwork::to_string(mesh.shape()));
    const Outcome found = train(spread_over(mesh, entries_of(setting), setting.batch_axis));
    CHECK(difference(found.before, one.before, tolerance) == "");
    CHECK(difference(found.after, one.after, tolerance) == "");
    for (std::size_t v = 0; v < one.variables.size(); ++v) {
      CHECK(difference(found.variables[v], one.variables[v], tolerance) == "");
    }
    CHECK(difference(found.predicted, one.predicted, tolerance) == "");
  }
}

TEST_CASE("a rank reads its block of inputs and targets and nothing else") {
  for (const Setting& setting : settings(Communicator::world().size())) {
    DeviceMesh mesh(setting.axes);
    INFO(meshwork::to_string(mesh.shape()));
    Model model = model_over(spread_over(mesh, entries_of(setting), setting.batch_axis));
    const std::shared_ptr<Counted> source = images();
    const Layout layout = resolve(setting.image, mesh.shape(), "");
    std::int64_t places = 0;  // of all batches
    for (std::int64_t begin = 0; begin < samples; begin += batch) {
      const Shape shape{std::min(batch, samples - begin), rows, columns, 1};
      places += element_count(shape_of(block_of(layout, shape, mesh.shape(), mesh.rank())));
    }
    (void)model.evaluate(source, {.batch_size = batch, .prefetch = false});
    CHECK(source->elements_read(0) == 2 * places);
    CHECK(source->elements_read(1) == 2 * places);
    CHECK(source->elements_read(2) == places);

    const Shape whole{batch, rows, columns, 1};
    const std::int64_t block =
        element_count(shape_of(block_of(layout, whole, mesh.shape(), mesh.rank())));
    const PlanReport report = model.plan(source, batch);
    CHECK(report.batch_bytes == (2 + 2 + 1) * block * 4);
    REQUIRE(report.fed.size() == 3);
    CHECK(report.fed[0].path == "left");
    CHECK(report.fed[0].reason == "key left|right");
    CHECK(report.fed[0].bytes == 2 * block * 4);
    CHECK(report.fed[2].path == "target");
    CHECK(report.fed[2].layout == layout.canonical(mesh.shape()));
    CHECK(report.fed[2].reason == "as pixels/output");
    CHECK_THAT(to_text(report), Catch::Contains("inputs and targets"));
  }
}

TEST_CASE("a layout that does not fit an input, and a name like an input's, are errors") {
  DeviceMesh self = alone();
  CHECK_THROWS_WITH(model_over(spread_over(self, {{"left", {unsharded, "alone"}}})),
                    Catch::Contains("left: the layout [~, alone] has 2 dimensions"));
  CHECK_THROWS_WITH(
      model_over(spread_over(self, {{"lift", {unsharded, "alone", unsharded, unsharded}}})),
      Catch::Contains("\"lift\" matches nothing") && Catch::Contains("left"));
}

}  // namespace meshwork::split_inputs_test
