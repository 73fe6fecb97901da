// What a model promises beyond its loop: single steps equal fit's, predictions keep their order,
// weights outlive what is made anew, penalties and clips count once on every mesh; and what is
// wrong is said.
#include "runtime/train/model.h"
#include "layers/initializers/ones.h"
#include "layers/initializers/random_normal.h"
#include "layers/initializers/zeros.h"
#include "layers/regularizers/l1_l2.h"
#include "runtime/device/kernels/activation.h"

#include <array>
#include <numeric>
#include <optional>
#include <stdexcept>

#include "layers/activation.h"
#include "layers/add.h"
#include "layers/dense.h"
#include "layers/dropout.h"
#include "runtime/train/losses/categorical_crossentropy.h"
#include "runtime/train/losses/mean_absolute_error.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/metrics/categorical_accuracy.h"
#include "runtime/train/optimizers/adam.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/aside.h"
#include "tests/support/one_rank.h"

namespace meshwork::model_test {

using namespace meshwork::test;

namespace {

using Floats = std::vector<float>;

// Every way to lay two weights in one column on the mesh: whole, split over either axis, over both.
std::vector<LayoutEntries> column_layouts(const std::string& path) {
  return {{},
          {{path, {"data", unsharded}}},
          {{path, {"model", unsharded}}},
          {{path, {{"model", "data"}, unsharded}}}};
}

std::vector<std::vector<MeshAxis>> meshes() {
  const std::int64_t ranks = Communicator::world().size();
  std::vector<std::vector<MeshAxis>> all{{{"data", ranks}, {"model", 1}}};
  if (ranks > 1) {
    all.push_back({{"data", 1}, {"model", ranks}});
  }
  if (ranks > 3 && ranks % 2 == 0) {
    all.push_back({{"data", 2}, {"model", ranks / 2}});
  }
  return all;
}

// Does `check` on every mesh, for every layout of the two weights of a column, called `path`.
void on_every_mesh(const std::string& path,
                   const std::function<void(DeviceMesh&, const LayoutEntries&)>& check) {
  for (const std::vector<MeshAxis>& axes : meshes()) {
    DeviceMesh mesh(axes);
    for (const LayoutEntries& entries : column_layouts(path)) {
      INFO(meshwork::to_string(mesh.shape()) << ", " << test::to_string(entries));
      check(mesh, entries);
    }
  }
}

// y = w1 x1 + w2 x2 (+ b)
Model column(DeviceMesh& mesh, const LayoutEntries& entries, const CompileOptions& options,
             bool bias = false, Regularizer regularizer = {}) {
  const auto x = Input({2});
  Model model(x,
              Dense({.name = "line",
                     .units = 1,
                     .use_bias = bias,
                     .kernel_initializer = Zeros(),
                     .kernel_regularizer = regularizer})(x),
              spread_over(mesh, entries));
  model.compile(options);
  return model;
}

// 8 rows of (3, 4) far below their targets: the derivative of |p - t| is -3, -4, and -1 for a bias.
Logs step_on_rows(Model& model) {
  Floats features;
  for (int row = 0; row < 8; ++row) {
    features.insert(features.end(), {3, 4});
  }
  const Floats targets(8, 1e6f);
  return model.train_step({.rows = 8, .inputs = {features}, .targets = {targets}});
}

std::string line_after(const Optimizer& optimizer, bool bias, const Floats& expected) {
  std::string wrong;
  on_every_mesh("line/kernel", [&](DeviceMesh& mesh, const LayoutEntries& entries) {
    Model model =
        column(mesh, entries, {.loss = MeanAbsoluteError(), .optimizer = optimizer}, bias);
    (void)step_on_rows(model);
    Floats found = model.variable("line/kernel");
    if (bias) {
      found.push_back(model.variable("line/bias")[0]);
    }
    wrong += difference(found, expected, 1e-6);
  });
  return wrong;
}

SymbolicTensor classifier(const SymbolicTensor& input) {
  auto x = Dense({.name = "d1", .units = 5, .activation = Activation::relu})(input);
  x = Dropout({.rate = 0.25f})(x);
  return Dense({.name = "d2", .units = 3})(x);
}

struct Samples {
  std::int64_t rows;
  Floats features, targets;

  explicit Samples(std::int64_t count) : rows(count), features(random_floats(count * 4, 3)) {
    for (std::int64_t row = 0; row < rows; ++row) {
      targets.push_back(static_cast<float>(row % 3));
    }
  }
  [[nodiscard]] std::shared_ptr<const Source> source(const Shape& target = {}) const {
    Shape target_shape{rows};
    target_shape.insert(target_shape.end(), target.begin(), target.end());
    std::vector<Array> arrays{Array("features", features, {rows, 4}),
                              Array("targets", targets, target_shape, FieldRole::target)};
    return std::make_shared<ArraySource>(std::move(arrays));
  }
  [[nodiscard]] BatchView batch(std::int64_t first, std::int64_t count) const {
    return {.rows = count,
            .inputs = {std::span(features).subspan(static_cast<std::size_t>(first * 4),
                                                   static_cast<std::size_t>(count * 4))},
            .targets = {std::span(targets).subspan(static_cast<std::size_t>(first),
                                                   static_cast<std::size_t>(count))}};
  }
};

Model classifying(DeviceMesh& mesh, const LayoutEntries& entries = {}) {
  const auto x = Input({4});
  Model model(x, classifier(x), spread_over(mesh, entries), {.seed = 9});
  model.compile({.loss = SparseCategoricalCrossentropy({.from_logits = true}),
                 .optimizer = Adam({.learning_rate = 0.01}),
                 .metrics = {SparseCategoricalAccuracy()}});
  return model;
}

// Throws behind the second batch, on every rank.
class Throwing final : public Callback {
 public:
  std::string class_name() const override { return "Throwing"; }
  void on_train_batch_end(Training&) override {
    if (++batches_ == 2) throw std::runtime_error("enough");
  }

 private:
  int batches_ = 0;
};

const LayoutEntries split_weights{{"d1/kernel", {unsharded, "model"}},
                                  {"d2/kernel", {"model", unsharded}}};

}  // namespace

TEST_CASE("steps on the user's batches give what fit gives") {
  const Samples samples(19);
  for (const std::vector<MeshAxis>& axes : meshes()) {
    DeviceMesh mesh(axes);
    Model fitted = classifying(mesh, split_weights);
    const History history =
        fitted.fit(samples.source(),
                   {.epochs = 2, .batch_size = 9, .shuffle = false, .verbose = Verbosity::silent});
    Model stepped = classifying(mesh, split_weights);
    double loss = 0;
    double right = 0;
    // The last batch has one row: some ranks of the batch axis have none.
    for (int epoch = 0; epoch < 2; ++epoch) {
      loss = right = 0;
      for (const auto& [first, count] : {std::array<std::int64_t, 2>{0, 9}, {9, 9}, {18, 1}}) {
        const Logs logs = stepped.train_step(samples.batch(first, count));
        CHECK(logs.names() == std::vector<std::string>{"loss", "sparse_categorical_accuracy"});
        loss += logs.at("loss") * static_cast<double>(count) / 19;
        right += logs.at("sparse_categorical_accuracy") * static_cast<double>(count) / 19;
      }
    }
    CHECK(variables_of(stepped) == variables_of(fitted));
    CHECK(loss == Approx(history.at("loss").back()).epsilon(1e-12));
    CHECK(right == Approx(history.at("sparse_categorical_accuracy").back()).epsilon(1e-12));
    CHECK(stepped.iteration() == 6);
    CHECK(stepped.evaluate_step(samples.batch(0, 19)) ==
          fitted.evaluate(samples.source(), {.batch_size = 19}));
    CHECK(stepped.iteration() == 6);
  }
}

TEST_CASE(
    "a fit that a callback ends by an error leaves nothing under way, and the model goes on") {
  const Samples samples(19);
  for (const std::vector<MeshAxis>& axes : meshes()) {
    DeviceMesh mesh(axes);
    Model stepped = classifying(mesh, split_weights);
    (void)stepped.train_step(samples.batch(0, 9));
    (void)stepped.train_step(samples.batch(9, 9));
    Model thrown = classifying(mesh, split_weights);
    CHECK_THROWS_WITH(thrown.fit(samples.source(), {.batch_size = 9,
                                                    .shuffle = false,
                                                    .callbacks = {std::make_shared<Throwing>()},
                                                    .verbose = Verbosity::silent}),
                      "enough");
    CHECK(thrown.iteration() == 2);
    CHECK(variables_of(thrown) == variables_of(stepped));
    CHECK(thrown.train_step(samples.batch(18, 1)) == stepped.train_step(samples.batch(18, 1)));
    CHECK(variables_of(thrown) == variables_of(stepped));
  }
}

TEST_CASE("predictions come in the order of the samples, on every rank") {
  for (const std::vector<MeshAxis>& axes : meshes()) {
    DeviceMesh mesh(axes);
    const auto x = Input({1});
    Model model(x, Dense({.units = 1, .use_bias = false, .kernel_initializer = Ones()})(x),
                DataParallel(mesh));
    Floats numbers(21);
    std::iota(numbers.begin(), numbers.end(), 0.0f);
    std::vector<Array> arrays{Array("x", numbers, {21, 1})};
    const auto source = std::make_shared<ArraySource>(std::move(arrays));
    CHECK(model.predict(source, {.batch_size = 9}) == numbers);
    std::vector<std::pair<std::int64_t, std::size_t>> received;
    model.predict(source,
                  [&](std::int64_t first, std::span<const std::vector<float>> outputs) {
                    received.emplace_back(first, outputs.front().size());
                    CHECK(outputs.front().front() == static_cast<float>(first));
                  },
                  {.batch_size = 9});
    CHECK(received == std::vector<std::pair<std::int64_t, std::size_t>>{{0, 9}, {9, 9}, {18, 3}});
  }
}

TEST_CASE("compiling again keeps the weights and begins with a new optimizer") {
  const Samples samples(18);
  DeviceMesh mesh({{"data", -1}});
  Model model = classifying(mesh);
  (void)model.train_step(samples.batch(0, 9));
  (void)model.train_step(samples.batch(9, 9));
  const std::vector<Floats> weights = variables_of(model);
  model.compile({.loss = SparseCategoricalCrossentropy({.from_logits = true}),
                 .optimizer = Adam({.learning_rate = 0.02})});
  CHECK(variables_of(model) == weights);
  CHECK(model.iteration() == 0);
  (void)model.train_step(samples.batch(0, 9));
  // Adam's first step has the size of its rate, whatever the gradient, where that is not 0.
  const std::vector<Floats> after = variables_of(model);
  double largest = 0;
  for (std::size_t v = 0; v < weights.size(); ++v) {
    for (std::size_t i = 0; i < weights[v].size(); ++i) {
      largest = std::max(largest, std::abs(double{after[v][i]} - double{weights[v][i]}));
    }
  }
  CHECK(largest == Approx(0.02).epsilon(1e-3));
}

TEST_CASE("targets of another shape that means the same change nothing") {
  const Samples samples(18);
  DeviceMesh mesh({{"data", -1}});
  Model one = classifying(mesh);
  Model other = classifying(mesh);
  const FitOptions options{.batch_size = 9, .verbose = Verbosity::silent};
  (void)one.fit(samples.source(), options);
  (void)one.fit(samples.source(), options);
  (void)other.fit(samples.source(), options);
  (void)other.fit(samples.source({1}), options);
  CHECK(variables_of(other) == variables_of(one));
}

TEST_CASE("weights that were set before data is seen are those that training begins with") {
  on_every_mesh("line/kernel", [](DeviceMesh& mesh, const LayoutEntries& entries) {
    Model model = column(mesh, entries,
                         {.loss = MeanAbsoluteError(), .optimizer = SGD({.learning_rate = 1.0})});
    const Floats start{10, 20};
    model.set_variable("line/kernel", start);
    CHECK(model.variable("line/kernel") == start);
    (void)step_on_rows(model);
    CHECK(model.variable("line/kernel") == Floats{13, 24});
  });
}

TEST_CASE("a penalty is in the loss and in the gradient once, on every mesh") {
  // 0.1 (2 + 3) + 0.01 (4 + 9) = 0.63; derivatives 0.1 + 0.02 * 2 and -0.1 - 0.02 * 3.
  const Floats zeros(16, 0.0f);
  const Floats targets(8, 0.0f);
  const BatchView batch{.rows = 8, .inputs = {zeros}, .targets = {targets}};
  on_every_mesh("line/kernel", [&](DeviceMesh& mesh, const LayoutEntries& entries) {
    Model model = column(mesh, entries,
                         {.loss = MeanSquaredError(),
                          .optimizer = SGD({.learning_rate = 1.0}),
                          .metrics = {MeanAbsoluteError()}},
                         false, L1L2({.l1 = 0.1f, .l2 = 0.01f}));
    const Floats start{2, -3};
    model.set_variable("line/kernel", start);
    const Logs logs = model.evaluate_step(batch);
    CHECK(logs.at("loss") == Approx(0.63).epsilon(1e-6));
    CHECK(logs.at("mean_absolute_error") == 0);
    CHECK(model.train_step(batch).at("loss") == Approx(0.63).epsilon(1e-6));
    CHECK(difference(model.variable("line/kernel"), Floats{1.86f, -2.84f}, 1e-6) == "");
  });
}

TEST_CASE("clipping and decay are those of whole variables, on every mesh") {
  const Optimizer plain = SGD({.learning_rate = 1.0});
  CHECK(line_after(plain, true, {3, 4, 1}) == "");
  CHECK(line_after(SGD({.learning_rate = 1.0, .clipvalue = 3.5}), true, {3, 3.5, 1}) == "");
  // The norm of (3, 4) is 5; the bias has 1, and none to spare.
  CHECK(line_after(SGD({.learning_rate = 1.0, .clipnorm = 1}), true, {0.6f, 0.8f, 1}) == "");
  CHECK(line_after(SGD({.learning_rate = 1.0, .clipnorm = 6}), true, {3, 4, 1}) == "");
  const float global = 1 / std::sqrt(26.0f);
  CHECK(line_after(SGD({.learning_rate = 1.0, .global_clipnorm = 1}), true,
                   {3 * global, 4 * global, global}) == "");
  on_every_mesh("line/kernel", [](DeviceMesh& mesh, const LayoutEntries& entries) {
    // w - 0.5 * 0.1 w + 0.5 g, with w = (10, 20) and g = (3, 4).
    Model model = column(mesh, entries,
                         {.loss = MeanAbsoluteError(),
                          .optimizer = SGD({.learning_rate = 0.5, .weight_decay = 0.1})});
    model.set_variable("line/kernel", Floats{10, 20});
    (void)step_on_rows(model);
    CHECK(difference(model.variable("line/kernel"), Floats{11, 21}, 1e-6) == "");
  });
}

TEST_CASE("a variable that does not lead to the loss has its penalty's gradient, each step anew") {
  DeviceMesh mesh({{"data", -1}});
  const auto x = Input({1});
  const auto aside = Dense({.name = "aside",
                            .units = 1,
                            .use_bias = false,
                            .kernel_initializer = Ones(),
                            .kernel_regularizer = L2(0.25f)});
  Model model(x, Aside(Dense({.name = "used", .units = 1}), {aside})(x), DataParallel(mesh));
  model.compile({.loss = MeanSquaredError(), .optimizer = SGD({.learning_rate = 1.0})});
  const Floats zeros(8, 0.0f);
  // w - 0.5 w, three times.
  for (const float expected : {0.5f, 0.25f, 0.125f}) {
    (void)model.train_step({.rows = 8, .inputs = {zeros}, .targets = {zeros}});
    CHECK(model.variable("all/aside/kernel") == Floats{expected});
  }
}

TEST_CASE("weight decay and clipping leave a variable alone that leads to no loss") {
  DeviceMesh mesh({{"data", -1}});
  const auto x = Input({1});
  const auto aside = Dense({.name = "aside", .units = 1, .kernel_initializer = Ones()});
  Model model(x, Aside(Dense({.name = "used", .units = 1}), {aside})(x), DataParallel(mesh));
  model.compile({.loss = MeanSquaredError(),
                 .optimizer = AdamW({.learning_rate = 0.1, .weight_decay = 0.5, .clipnorm = 1})});
  const Floats ones(8, 1.0f);
  const Floats before = model.variable("all/used/kernel");
  for (int step = 0; step < 3; ++step) {
    (void)model.train_step({.rows = 8, .inputs = {ones}, .targets = {ones}});
  }
  CHECK(model.variable("all/aside/kernel") == Floats{1});
  CHECK(model.variable("all/used/kernel") != before);
}

TEST_CASE("a loss on a model of several outputs is an error that names them") {
  DeviceMesh mesh({{"data", -1}});
  const auto x = Input({2});
  const auto left = Dense({.name = "left", .units = 3})(x);
  const auto right = Dense({.name = "right", .units = 1})(x);
  Model model({x}, {left, right}, DataParallel(mesh));
  CHECK_THROWS_WITH(
      model.compile({.loss = MeanSquaredError()}),
      Catch::StartsWith("the model has 2 outputs, \"left\" and \"right\", and one loss"));
  // It is not compiled; what needs no loss works.
  CHECK_THROWS_WITH(model.optimizer(), Catch::Contains("call compile first"));
  const Floats ones(8, 1.0f);
  const auto data = std::make_shared<ArraySource>(std::vector<Array>{Array("x", ones, {4, 2})});
  CHECK(model.output_shapes() == std::vector<Shape>{{3}, {1}});
  CHECK(model.predict(data, {.batch_size = 4}).size() == 4 * 3);
}

TEST_CASE("layers with variables are of one model at a time") {
  DeviceMesh mesh({{"data", -1}});
  const auto x = Input({2});
  const auto shared = Dense({.name = "shared", .units = 3});
  const auto hidden = ActivationLayer({.name = "bend", .activation = Activation::relu})(shared(x));
  const auto left = Dense({.name = "left", .units = 1})(hidden);
  const auto right = Dense({.name = "right", .units = 1})(hidden);
  std::optional<Model> first(std::in_place, x, left, DataParallel(mesh));
  CHECK_THROWS_WITH(
      Model(x, right, DataParallel(mesh)),
      Catch::StartsWith("the layer \"shared\" is in the model from \"shared\" to \"left\" already, "
                        "and the model from \"shared\" to \"right\" would not share its weights"));
  CHECK_THROWS_WITH(Model(x, left, DataParallel(mesh)),
                    Catch::Contains("a second model of the same layers would not share"));
  // Those without variables may be in both; and the refused model took none.
  const auto own = Dense({.name = "own", .units = 3})(x);
  const auto bend = ActivationLayer({.name = "bend", .activation = Activation::relu});
  const Model one(x, bend(own), DataParallel(mesh));
  const Model other(x, bend(Dense({.name = "other", .units = 3})(x)), DataParallel(mesh));
  // A model that was moved still has them; one that is gone does not.
  std::optional<Model> moved(std::move(*first));
  first.reset();
  CHECK_THROWS_WITH(Model(x, right, DataParallel(mesh)), Catch::Contains("\"shared\" is in"));
  moved.reset();
  Model second(x, right, DataParallel(mesh));
  CHECK(second.variable("shared/kernel").size() == 6);
}

TEST_CASE("a layout that does not fit is an error that names its key") {
  DeviceMesh mesh({{"data", -1}, {"model", 1}});
  const auto make = [&](const LayoutEntries& entries, UnmatchedLayouts unmatched) {
    LayoutMap layouts(mesh);
    for (const auto& [key, layout] : entries) {
      layouts.insert(key, layout, "configs/a.yaml:7:3");
    }
    const auto x = Input({4});
    return Model(x, classifier(x),
                 ModelParallel(mesh, std::move(layouts), {.unmatched_layouts = unmatched}));
  };
  CHECK_THROWS_WITH(make({{"d1/kernel", {"model"}}}, UnmatchedLayouts::error),
                    Catch::Contains("d1/kernel") && Catch::Contains("configs/a.yaml:7:3"));
  CHECK_THROWS_WITH(make({{"d1/kernle", {unsharded, "model"}}}, UnmatchedLayouts::error),
                    Catch::Contains("d1/kernle") && Catch::Contains("\"kernel\"") &&
                        Catch::Contains("configs/a.yaml:7:3"));
  CHECK_NOTHROW(make({{"d1/kernle", {unsharded, "model"}}}, UnmatchedLayouts::warn));
  CHECK_THROWS_WITH(DataParallel(mesh, {.batch_axis = "dada"}),
                    Catch::Contains("batch_axis") && Catch::Contains("data"));
}

TEST_CASE("a key that fits no block of a deep model names three tensors and counts the rest") {
  DeviceMesh mesh({{"data", -1}, {"model", 1}});
  LayoutMap layouts(mesh);
  layouts.insert("block.*/kernel", {"model"}, "configs/a.yaml:7:3");
  layouts.insert("block_[0-3]/bias", {unsharded, "model"}, "configs/a.yaml:8:3");
  layouts.insert("block_[0-2]/output", {"model"}, "configs/a.yaml:9:3");
  const auto x = Input({4});
  SymbolicTensor y = x;
  for (int i = 0; i < 6; ++i) y = Dense({.name = fmt::format("block_{}", i), .units = 4})(y);
  CHECK_THROWS_WITH(
      Model(x, y, ModelParallel(mesh, std::move(layouts))),
      Catch::Contains("configs/a.yaml:7:3: block_2/kernel: the layout [model]") &&
          !Catch::Contains("block_3/kernel") &&
          Catch::Contains("configs/a.yaml:7:3: layout key \"block.*/kernel\" does not fit 3 more "
                          "tensors either") &&
          Catch::Contains("configs/a.yaml:8:3: layout key \"block_[0-3]/bias\" does not fit 1 more "
                          "tensor either") &&
          Catch::Contains("configs/a.yaml:9:3: block_2/output") &&
          !Catch::Contains("configs/a.yaml:9:3: layout key"));
}

TEST_CASE("what is asked for wrongly is an error that says what there is") {
  const Samples samples(18);
  DeviceMesh mesh({{"data", -1}});
  Model model = classifying(mesh);
  CHECK_THROWS_WITH(model.variable("d1/kernle"), Catch::Contains("d1/kernel"));
  CHECK_THROWS_WITH(model.set_variable("d1/kernel", Floats(3)),
                    Catch::Contains("d1/kernel") && Catch::Contains("(4, 5)"));
  CHECK_THROWS_WITH(model.train_step({.rows = 9, .inputs = {}, .targets = {samples.targets}}),
                    Catch::Contains("1 inputs"));
  CHECK_THROWS_WITH(model.train_step({.rows = 0, .inputs = {samples.features}, .targets = {}}),
                    Catch::Contains("at least one row"));
  CHECK_THROWS(model.train_step({.rows = 9, .inputs = {samples.features}, .targets = {}}));
  // The model is as good as before.
  CHECK_NOTHROW(model.train_step(samples.batch(0, 9)));
}

TEST_CASE("prediction needs neither a loss nor targets, and looks at none") {
  const Samples samples(18);
  DeviceMesh mesh({{"data", -1}});
  const auto x = Input({4});
  Model model(x, classifier(x), DataParallel(mesh), {.seed = 9});
  const Floats predicted = model.predict(samples.source(), {.batch_size = 9});
  CHECK(predicted.size() == 18 * 3);
  Model compiled = classifying(mesh);
  (void)compiled.evaluate(samples.source(), {.batch_size = 9});
  std::vector<Array> arrays{Array("features", samples.features, {18, 4}),
                            Array("others", Floats(18 * 7), {18, 7}, FieldRole::target)};
  CHECK(compiled.predict(std::make_shared<ArraySource>(std::move(arrays)), {.batch_size = 9}) ==
        predicted);
}

TEST_CASE("ranks that would do different things are told so before the first step") {
  const Communicator world = Communicator::world();
  if (world.size() == 1) {
    return;
  }
  DeviceMesh mesh({{"model", -1}});
  LayoutMap layouts(mesh);
  const bool of_variable = GENERATE(true, false);
  if (world.rank() == 0) {
    layouts[of_variable ? "d1/kernel" : "d1/output"] = {unsharded, "model"};
  }
  const Samples samples(12);
  const auto input = Input({4});
  const auto output = Dense({.name = "d2", .units = 3})(Dense({.name = "d1", .units = 4})(input));
  Model model(input, output, ModelParallel(mesh, layouts, {.batch_axis = ""}));
  model.compile({.loss = SparseCategoricalCrossentropy({.from_logits = true}), .optimizer = SGD()});
  CHECK_THROWS_WITH(
      model.fit(samples.source(), {.batch_size = 12, .verbose = Verbosity::silent}),
      Catch::Contains(of_variable ? "how variables are kept" : "collectives of a step") &&
          Catch::Contains("rank 0"));
}

TEST_CASE("ranks whose variables begin, or are penalized, in other ways are told which") {
  const Communicator world = Communicator::world();
  if (world.size() == 1) return;
  const bool begins = GENERATE(true, false);
  DenseOptions options{.name = "d", .units = 3};
  if (begins && world.rank() == 0) {
    options.kernel_initializer = RandomNormal({.stddev = 0.5});
  } else if (begins) {
    options.kernel_initializer = RandomNormal({.stddev = 0.25});
  } else if (world.rank() == 0) {
    options.kernel_regularizer = L2(0.5);
  }
  DeviceMesh mesh({{"data", -1}});
  const auto input = Input({4});
  Model model(input, Dense(options)(input), DataParallel(mesh));
  CHECK_THROWS_WITH(model.variable("d/kernel"),
                    Catch::Contains("how variables are kept") && Catch::Contains("d/kernel") &&
                        Catch::Contains(begins ? "stddev 0.25" : "regularizer none"));
}

TEST_CASE("an initializer that fails on one rank fails on all, with its name and the variable's") {
  const Communicator world = Communicator::world();
  Initializer moody{.name = "moody"};
  moody.values = [](const InitializedVariable&) -> ElementValue {
    if (Communicator::world().rank() == 0) throw std::runtime_error("it rains");
    return [](std::int64_t) { return 1.0; };
  };
  DeviceMesh mesh({{"data", -1}});
  const auto input = Input({4});
  Model model(input, Dense({.name = "d", .units = 3, .kernel_initializer = moody})(input),
              DataParallel(mesh));
  CHECK_THROWS_WITH(model.variable("d/kernel"),
                    Catch::Contains("d/kernel: the initializer \"moody\": it rains"));
}

}  // namespace meshwork::model_test
