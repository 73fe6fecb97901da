// What a run may write over, and what not.
#include "launch/run_files.h"

#include <fstream>

#include "collectives/error.h"
#include "launch/predictions.h"
#include "runtime/checkpoint/keras_weights.h"
#include "tests/support/catch.h"

namespace meshwork::run_files_test {
namespace {

namespace fs = std::filesystem;

void put(const fs::path& file, const std::string& text) {
  std::ofstream(file) << text;
}
bool no_kind(const fs::path&) {
  return false;
}

// So many outputs of three numbers.
std::vector<PredictedOutput> named(std::size_t count) {
  std::vector<PredictedOutput> outputs;
  for (std::size_t i = 0; i < count; ++i) outputs.push_back({"o" + std::to_string(i), {3}});
  return outputs;
}

}  // namespace

TEST_CASE("what is read is not written over, by whatever name") {
  put("run.yaml", "seed: 1");
  fs::create_directories("folder");
  fs::remove("link");
  fs::remove("hard");
  fs::create_symlink("run.yaml", "link");
  fs::create_hard_link("run.yaml", "hard");
  for (const bool overwrite : {false, true}) {
    RunFiles files(overwrite);
    files.read("run.yaml", "the configuration");
    for (const char* name : {"run.yaml", "./folder/../run.yaml", "link", "hard"}) {
      CHECK_THROWS_WITH(
          files.write(name, "the log", [](const fs::path&) { return true; }),
          std::string(name) + ": is the configuration of this run; the log would overwrite it");
    }
    CHECK_NOTHROW(files.write("other.csv", "the log", no_kind));
  }
}

TEST_CASE("two outputs do not go to one file, also before it is there") {
  fs::create_directories("folder");
  fs::remove("new.csv");
  RunFiles files(true);
  files.write("new.csv", "the log", no_kind);
  CHECK_THROWS_WITH(files.write("folder/../new.csv", "predictions", no_kind),
                    "folder/../new.csv: the log and predictions would both be written to it");
}

TEST_CASE("two outputs do not fill one folder, by whatever name") {
  fs::create_directories("folder");
  RunFiles files(true);
  files.fill("runs", "the first");
  CHECK_NOTHROW(files.fill("runs/second", "the second"));
  CHECK_THROWS_WITH(files.fill("folder/../runs", "the third"),
                    "folder/../runs: the first and the third would both fill it; give each a "
                    "folder of its own");
}

TEST_CASE("a file of another kind is replaced where that is asked for, an empty one always") {
  put("notes.csv", "dear diary");
  put("empty.csv", "");
  CHECK_THROWS_WITH(RunFiles(false).write("notes.csv", "predictions", is_predictions),
                    "notes.csv: exists and is not predictions; --overwrite replaces it");
  CHECK_NOTHROW(RunFiles(true).write("notes.csv", "predictions", is_predictions));
  CHECK_NOTHROW(RunFiles(false).write("empty.csv", "predictions", is_predictions));
}

TEST_CASE("predictions, and Keras's weights, are known again") {
  for (const std::size_t outputs : {1, 2}) {
    for (const char* name : {"out.csv", "out.h5"}) {
      const auto file = make_prediction_file(name, 2, named(outputs));
      file->write(0, std::vector(outputs, std::vector<float>(6, 1.0F)));
      file->finish();
      CHECK(is_predictions(name));
      CHECK_FALSE(is_keras_weights(name));
    }
  }
  put("voltages.csv", "output_voltage,output_0\n1,2\n");
  CHECK_FALSE(is_predictions("voltages.csv"));
  KerasWeightsWriter writer("model.weights.h5");
  const std::vector<float> values(6, 1.0F);
  writer.write("layers/dense/vars/0", {6}, values);
  writer.finish();
  CHECK(is_keras_weights("model.weights.h5"));
  CHECK_FALSE(is_predictions("model.weights.h5"));
  CHECK_FALSE(is_checkpoint_of_ours("model.weights.h5"));
  put("text.h5", "no HDF5");
  CHECK_FALSE(is_predictions("text.h5"));
  CHECK_FALSE(is_keras_weights("text.h5"));
}

}  // namespace meshwork::run_files_test
