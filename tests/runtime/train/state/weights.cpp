// Weights in files: saved on one mesh they are the same on every other, in both formats; the
// optimizer's state too; and what does not fit is said before anything is changed.
#include "runtime/train/state/weights.h"
#include "runtime/device/kernels/activation.h"

#include <filesystem>

#include "collectives/error.h"
#include "layers/activation.h"
#include "layers/batch_normalization.h"
#include "layers/dense.h"
#include "runtime/checkpoint/keras_weights.h"
#include "runtime/train/losses/categorical_crossentropy.h"
#include "runtime/train/metrics/categorical_accuracy.h"
#include "runtime/train/optimizers/adam.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/one_rank.h"

namespace {
int communicators_made = 0;
}

// The program's own, which stand before MPI's.
extern "C" {
int MPI_Comm_split(MPI_Comm from, int color, int key, MPI_Comm* made) {
  ++communicators_made;
  return PMPI_Comm_split(from, color, key, made);
}
int MPI_Comm_split_type(MPI_Comm from, int type, int key, MPI_Info info, MPI_Comm* made) {
  ++communicators_made;
  return PMPI_Comm_split_type(from, type, key, info, made);
}
int MPI_Comm_dup(MPI_Comm from, MPI_Comm* made) {
  ++communicators_made;
  return PMPI_Comm_dup(from, made);
}
}  // extern "C"

namespace meshwork::weights_test {

using namespace meshwork::test;

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t rows = 48;

std::shared_ptr<const Source> samples() {
  std::vector<float> labels = random_floats(rows, 2, 0, 5);
  for (float& label : labels) label = std::floor(label);
  return std::make_shared<ArraySource>(
      std::vector<Array>{Array("x", random_floats(rows * 9, 1), {rows, 9}),
                         Array("t", std::move(labels), {rows}, FieldRole::target)});
}

Model make_model(DeviceMesh& mesh, const LayoutEntries& layouts, std::uint64_t seed,
                 const Optimizer& optimizer = Adam({.learning_rate = 0.01}),
                 std::int64_t units = 13) {
  const auto input = Input({9});
  auto x = Dense({.name = "d1", .units = units, .activation = Activation::relu})(input);
  x = BatchNormalization({.name = "n"})(x);
  x = Dense({.name = "d2", .units = 5})(x);
  Model model(input, x, spread_over(mesh, layouts), {.seed = seed});
  model.compile({.loss = SparseCategoricalCrossentropy({.from_logits = true}),
                 .optimizer = optimizer,
                 .metrics = {SparseCategoricalAccuracy()}});
  return model;
}

struct Spread {
  std::vector<MeshAxis> axes;
  LayoutEntries layouts;
};

// Meshes of all ranks, with weights that are split by columns, by rows, over all ranks, or whole.
std::vector<Spread> spreads() {
  const std::int64_t ranks = Communicator::world().size();
  std::vector<Spread> all{
      {{{"data", ranks}, {"model", 1}}, {}},
      {{{"data", 1}, {"model", ranks}},
       {{"d1/kernel", {unsharded, "model"}}, {"d2/kernel", {"model", unsharded}}}},
      {{{"data", ranks}, {"model", 1}}, {{"d1/kernel", {"data", unsharded}}}}};
  if (ranks % 2 == 0) {
    all.push_back({{{"data", 2}, {"model", ranks / 2}},
                   {{"d1/kernel", {"data", "model"}}, {"d1/bias", {{"model", "data"}}}}});
  }
  return all;
}

void fit(Model& model, std::int64_t epochs) {
  (void)model.fit(
      samples(),
      {.epochs = epochs, .batch_size = 16, .shuffle = false, .verbose = Verbosity::silent});
}

fs::path file_called(const std::string& name) {
  return fs::current_path() / name;
}

// What loading says; "" if it does not throw.
std::string refusal(Model& model, const fs::path& file, LoadWeightsOptions options = {}) {
  try {
    (void)model.load_weights(file, options);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

void on_root(const std::function<void()>& action) {
  if (Communicator::world().rank() == 0) action();
  check_mpi(MPI_Barrier(Communicator::world().native()), "MPI_Barrier");
}

}  // namespace

TEST_CASE("weights that are saved on one mesh are the same on every other, in both formats") {
  for (const std::string name : {"weights.h5", "a.weights.h5"}) {
    for (const Spread& saved : spreads()) {
      DeviceMesh mesh(saved.axes);
      Model model = make_model(mesh, saved.layouts, 1);
      fit(model, 1);
      const auto expected = variables_of(model);
      model.save_weights(file_called(name));
      for (const Spread& loaded : spreads()) {
        INFO(name << ": from " << test::to_string(saved.layouts) << " to "
                  << test::to_string(loaded.layouts));
        DeviceMesh other_mesh(loaded.axes);
        Model other = make_model(other_mesh, loaded.layouts, 2);
        REQUIRE(variables_of(other) != expected);
        const LoadedWeights report = other.load_weights(file_called(name));
        CHECK(variables_of(other) == expected);
        CHECK(report.keras == (name == "a.weights.h5"));
        CHECK_FALSE(report.optimizer);
        CHECK(report.updates == 3);
        CHECK(other.iteration() == 0);
        CHECK(difference(other.evaluate(samples()), model.evaluate(samples()), 1e-5) == "");
      }
    }
  }
}

TEST_CASE("variables are gathered and saved for Keras without making a communicator") {
  const std::string file = "gathered.weights.h5";
  for (const Spread& spread : spreads()) {
    INFO(test::to_string(spread.layouts));
    const int before = communicators_made;
    DeviceMesh mesh(spread.axes);
    Model model = make_model(mesh, spread.layouts, 1);
    fit(model, 1);
    CHECK(communicators_made > before);
    const int planned = communicators_made;
    const auto values = variables_of(model);
    model.save_weights(file_called(file));
    CHECK(communicators_made == planned);
    Model other = make_model(mesh, {}, 2);
    (void)other.load_weights(file_called(file));
    CHECK(variables_of(other) == values);
  }
}

TEST_CASE("with the optimizer's state, training goes on as if it had not been interrupted") {
  for (const Optimizer& optimizer : {Adam({.learning_rate = 0.01, .amsgrad = true}),
                                     SGD({.learning_rate = 0.05, .momentum = 0.9})}) {
    for (const std::string name : {"weights.h5", "a.weights.h5"}) {
      for (const Spread& spread : spreads()) {
        INFO(optimizer.class_name() << ", " << name << ", " << test::to_string(spread.layouts));
        DeviceMesh mesh(spread.axes);
        Model straight = make_model(mesh, spread.layouts, 1, optimizer);
        fit(straight, 1);
        straight.save_weights(file_called(name));
        fit(straight, 1);
        Model other = make_model(mesh, spread.layouts, 2, optimizer);
        const LoadedWeights report = other.load_weights(file_called(name), {.optimizer = true});
        CHECK(report.optimizer);
        CHECK(other.iteration() == 3);
        fit(other, 1);
        CHECK(variables_of(other) == variables_of(straight));
      }
    }
  }
}

TEST_CASE("an optimizer of Keras's that has updated nothing makes the model's begin anew") {
  DeviceMesh mesh({{"data", -1}});
  Model straight = make_model(mesh, {}, 1);
  straight.optimizer().set_learning_rate(0.02);
  const fs::path weights = file_called("weights_alone.weights.h5");
  straight.save_weights(weights);
  CHECK(KerasWeightsReader(weights).find(keras_iteration_place) == nullptr);
  // The same with the optimizer as Keras has it before the first update, and with half of one.
  const auto with_updates = [&](const char* name, float updates) {
    const KerasWeightsReader reader(weights);
    KerasWeightsWriter writer(file_called(name));
    for (const KerasArray& array : reader.arrays()) {
      std::vector<float> values(static_cast<std::size_t>(element_count(array.shape)));
      reader.read(array, whole(array.shape), values);
      writer.write(array.place, array.shape, values);
    }
    const float rate = 0.02f;
    writer.write(keras_iteration_place, {}, std::span(&updates, 1));
    writer.write(keras_rate_place, {}, std::span(&rate, 1));
    writer.finish();
  };
  on_root([&] {
    with_updates("begun.weights.h5", 0);
    with_updates("half.weights.h5", 0.5f);
  });
  Model other = make_model(mesh, {}, 2);
  fit(other, 1);
  CHECK_THAT(refusal(other, file_called("half.weights.h5"), {.optimizer = true}),
             Catch::Contains("optimizer/vars/0 is 0.5, which is no number of updates"));
  const LoadedWeights report =
      other.load_weights(file_called("begun.weights.h5"), {.optimizer = true});
  CHECK(report.optimizer);
  CHECK(other.iteration() == 0);
  fit(straight, 1);
  fit(other, 1);
  CHECK(difference(other.evaluate(samples()), straight.evaluate(samples()), 1e-6) == "");
}

TEST_CASE("what is loaded says whose optimizer's state it left in the file, or took up") {
  DeviceMesh mesh({{"data", -1}});
  Model model = make_model(mesh, {}, 1);
  fit(model, 1);
  const auto said = [&](const fs::path& file, LoadWeightsOptions options = {}) {
    Model other = make_model(mesh, {}, 2);
    return describe(other.load_weights(file, options));
  };
  const fs::path checkpoint = file_called("weights.h5");
  const fs::path keras = file_called("a.weights.h5");
  model.save_weights(checkpoint);
  model.save_weights(keras);
  CHECK(said(checkpoint) ==
        "8 variables of " + checkpoint.string() + "; not its optimizer's state (Adam, 3 steps)");
  CHECK(said(checkpoint, {.optimizer = true}) ==
        "8 variables of " + checkpoint.string() + "; and its optimizer's state (Adam, 3 steps)");
  CHECK(said(keras) ==
        "8 variables of " + keras.string() + "; not its optimizer's state (3 steps)");
  model.save_weights(keras, {.optimizer = false});
  CHECK(said(keras) == "8 variables of " + keras.string());
}

TEST_CASE("a rate that was set is loaded with the optimizer") {
  DeviceMesh mesh({{"data", -1}});
  for (const std::string name : {"weights.h5", "a.weights.h5"}) {
    Model model = make_model(mesh, {}, 1);
    fit(model, 1);
    model.optimizer().set_learning_rate(0.004);
    model.save_weights(file_called(name));
    Model other = make_model(mesh, {}, 2);
    (void)other.load_weights(file_called(name), {.optimizer = true});
    CHECK(static_cast<float>(other.optimizer().learning_rate(3)) == 0.004f);
  }
}

TEST_CASE("of a directory the newest checkpoint is loaded, and a damaged one is an error") {
  DeviceMesh mesh({{"data", -1}});
  const fs::path folder = file_called("directory");
  on_root([&] { fs::remove_all(folder); });
  Model model = make_model(mesh, {}, 1);
  (void)model.fit(samples(), {.epochs = 2,
                              .batch_size = 16,
                              .verbose = Verbosity::silent,
                              .checkpoint = {.directory = folder}});
  Model other = make_model(mesh, {}, 2);
  const LoadedWeights loaded = other.load_weights(folder);
  CHECK(loaded.file.filename() == "step-000000006.h5");
  CHECK(variables_of(other) == variables_of(model));
  on_root([&] { fs::resize_file(folder / "step-000000006.h5", 5000); });
  const std::string said = refusal(other, folder);
  CHECK_THAT(said, Catch::Contains("the newest checkpoint in") && Catch::Contains("is damaged") &&
                       Catch::Contains("step-000000003.h5"));
  on_root([&] { fs::remove_all(folder), fs::create_directories(folder); });
  CHECK_THAT(refusal(other, folder), Catch::Contains("there are no checkpoints in this directory"));
}

TEST_CASE("all that does not fit is said at once, and the model is as it was") {
  DeviceMesh mesh({{"data", -1}});
  Model model = make_model(mesh, {}, 1);
  fit(model, 1);
  for (const std::string name : {"weights.h5", "a.weights.h5"}) {
    model.save_weights(file_called(name));
    INFO(name);
    Model wide = make_model(mesh, {}, 2, Adam(), 14);
    const auto before = variables_of(wide);
    const std::string said = refusal(wide, file_called(name));
    CHECK_THAT(said, Catch::Contains("these are not the weights of this model") &&
                         Catch::Contains("d1/kernel has shape (9, 14)") &&
                         Catch::Contains("(9, 13)") && Catch::Contains("n/moving_variance") &&
                         Catch::Contains("d2/kernel has shape (14, 5)"));
    CHECK(variables_of(wide) == before);

    const auto input = Input({9});
    Model small(input, Dense({.name = "d1", .units = 13})(input), spread_over(mesh));
    CHECK_THAT(refusal(small, file_called(name)),
               Catch::Contains(name == "weights.h5"
                                   ? "the file has d2/kernel (13, 5), the model does not"
                                   : "the file has layers/dense_1/vars/0 (13, 5), the model has "
                                     "nothing for it"));
    small.save_weights(file_called("small-" + name));
    CHECK_THAT(
        refusal(model, file_called("small-" + name)),
        Catch::Contains(name == "weights.h5" ? "the model has d2/kernel (13, 5), the file does not"
                                             : "the model has d2/kernel (13, 5), the file has no "
                                               "layers/dense_1/vars/0"));
  }
}

TEST_CASE("an optimizer of another kind keeps its state to itself") {
  DeviceMesh mesh({{"data", -1}});
  Model model = make_model(mesh, {}, 1);
  fit(model, 1);
  model.save_weights(file_called("weights.h5"));
  model.save_weights(file_called("a.weights.h5"));
  Model other = make_model(mesh, {}, 2, SGD({.learning_rate = 0.1, .momentum = 0.9}));
  CHECK_THAT(refusal(other, file_called("weights.h5"), {.optimizer = true}),
             Catch::Contains("the optimizer is SGD, the file's is Adam"));
  CHECK_THAT(refusal(other, file_called("a.weights.h5"), {.optimizer = true}),
             Catch::Contains("SGD has 8 arrays of its own (iteration, learning rate, momentum for "
                             "each of 6 trained variables), the file has 14"));
  CHECK(refusal(other, file_called("a.weights.h5")) == "");
  // A file without one leaves the optimizer as it is.
  model.save_weights(file_called("b.weights.h5"), {.optimizer = false});
  CHECK_FALSE(other.load_weights(file_called("b.weights.h5"), {.optimizer = true}).optimizer);
  CHECK(variables_of(other) == variables_of(model));
}

TEST_CASE("weights that Keras has written of a model as a class are those of the same layers") {
  DeviceMesh mesh({{"data", -1}});
  Model model = make_model(mesh, {}, 1);
  fit(model, 1);
  on_root([&] {
    KerasWeightsWriter writer(file_called("class.weights.h5"));
    const std::vector<float> values(9 * 13, 0.25f);
    for (const auto& [place, shape] :
         std::vector<std::pair<std::string, Shape>>{{"d1/vars/0", {9, 13}},
                                                    {"d1/vars/1", {13}},
                                                    {"d2/vars/0", {13, 5}},
                                                    {"d2/vars/1", {5}},
                                                    {"n/vars/0", {13}},
                                                    {"n/vars/1", {13}},
                                                    {"n/vars/2", {13}},
                                                    {"n/vars/3", {13}}}) {
      writer.write(place, shape,
                   std::span(values).first(static_cast<std::size_t>(element_count(shape))));
    }
    writer.finish();
  });
  CHECK(refusal(model, file_called("class.weights.h5")) == "");
  CHECK(model.variable("n/gamma") == std::vector<float>(13, 0.25f));
}

TEST_CASE("what is no file of weights is said on all ranks") {
  DeviceMesh mesh({{"data", -1}});
  Model model = make_model(mesh, {}, 1);
  CHECK_THAT(refusal(model, file_called("nowhere.h5")), Catch::Contains("there is no such file"));
  CHECK_THROWS_WITH(model.save_weights(file_called("weights.txt")),
                    Catch::Contains("names that end with .weights.h5"));
  CHECK_THROWS_WITH(model.save_weights(file_called("nowhere/a.weights.h5")),
                    Catch::Contains("cannot be created"));
  const auto input = Input({9});
  Model plain(input, Dense({.units = 2})(input), spread_over(mesh));
  CHECK_THROWS_WITH(plain.load_weights(file_called("nowhere.h5"), {.optimizer = true}),
                    Catch::Contains("call compile first"));
}

}  // namespace meshwork::weights_test
