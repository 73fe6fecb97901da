// Runs that go on on another device than the one that they were begun on: from the processor to the
// device under test and back; where that is the processor, to a device that is apart.
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "layers/dense.h"
#include "layers/dropout.h"
#include "runtime/train/losses/categorical_crossentropy.h"
#include "runtime/train/metrics/categorical_accuracy.h"
#include "runtime/train/optimizers/adam.h"
#include "tests/support/added_device.h"
#include "tests/support/apart_device.h"
#include "tests/support/one_rank.h"

namespace meshwork::devices_test {

using namespace meshwork::test;

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t rows = 61;

std::shared_ptr<const Source> samples() {
  std::vector<float> labels = random_floats(rows, 2, 0, 7);
  for (float& label : labels) label = std::floor(label);
  return std::make_shared<ArraySource>(
      std::vector<Array>{Array("x", random_floats(rows * 9, 1), {rows, 9}),
                         Array("t", std::move(labels), {rows}, FieldRole::target)});
}

/// A directory that is there and empty, for all ranks.
std::string directory_for(const DeviceMesh& mesh, const std::string& name) {
  const fs::path directory = fs::current_path() / name;
  check_mpi(MPI_Barrier(mesh.all().native()), "MPI_Barrier");
  if (mesh.rank() == 0) {
    fs::remove_all(directory);
    fs::create_directories(directory);
  }
  check_mpi(MPI_Barrier(mesh.all().native()), "MPI_Barrier");
  return directory.string();
}

struct Outcome {
  std::map<std::string, std::vector<double>> history;
  std::vector<std::vector<float>> weights;
};

/// Three epochs, each of them a run of its own, on its own device, that goes on where the last one
/// was saved.
Outcome trained_on(const std::vector<std::string>& devices, DeviceMesh& mesh,
                   const std::string& directory) {
  Outcome outcome;
  for (std::size_t epoch = 0; epoch < devices.size(); ++epoch) {
    const auto input = Input({9});
    auto x = Dense({.name = "d1", .units = 13, .activation = Activation::relu})(input);
    x = Dropout({.name = "drop", .rate = 0.4})(x);
    x = Dense({.name = "d2", .units = 7})(x);
    Model model(input, x, spread_over(mesh, {{"d1/kernel", {unsharded, "data"}}}),
                {.seed = 5, .device = devices[epoch]});
    model.compile({.loss = SparseCategoricalCrossentropy({.from_logits = true}),
                   .optimizer = Adam({.learning_rate = 0.01}),
                   .metrics = {SparseCategoricalAccuracy()}});
    FitOptions options{.epochs = static_cast<std::int64_t>(epoch) + 1,
                       .batch_size = 8,
                       .validation = samples(),
                       .verbose = Verbosity::silent};
    options.checkpoint = {.directory = directory, .resume = Resume::automatic};
    outcome.history = model.fit(samples(), options).history;
    outcome.weights = variables_of(model);
  }
  return outcome;
}

}  // namespace

TEST_CASE("a run that goes from device to device is the run that stays") {
  const std::string kind(make_device({})->traits().kind);
  std::optional<test::AddedDevice> added;
  if (kind == "cpu") added.emplace(apart_traits("somewhere else"), make_apart_device);
  DeviceMesh mesh({{"data", -1}});
  const Outcome stays = trained_on({"cpu", "cpu", "cpu"}, mesh, directory_for(mesh, "stays"));
  const std::string other = kind == "cpu" ? "somewhere else" : "auto";
  const Outcome goes = trained_on({"cpu", other, "cpu"}, mesh, directory_for(mesh, "goes"));
  // Bit for bit, where the kernels are the processor's, and one rank has no sums whose order the
  // transport chooses.
  if (mesh.shape().rank_count() == 1 && kind != "cuda") {
    CHECK(goes.history == stays.history);
    CHECK(goes.weights == stays.weights);
  }
  REQUIRE(goes.history.at("loss").size() == 3);
  for (std::size_t epoch = 0; epoch < 3; ++epoch) {
    CHECK(goes.history.at("loss")[epoch] == Approx(stays.history.at("loss")[epoch]).epsilon(1e-5));
  }
  for (std::size_t i = 0; i < stays.weights.size(); ++i) {
    CHECK(difference(goes.weights[i], stays.weights[i], 1e-4) == "");
  }
}

}  // namespace meshwork::devices_test
