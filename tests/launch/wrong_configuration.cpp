// Every wrong configuration gives one message with the place, before anything is trained, and the
// same on every rank.
#include <mpi.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "launch/session.h"
#include "tests/support/catch.h"

namespace meshwork::wrong_configuration_test {
namespace {

// Lines 1 to 17; columns count from 1.
const std::string right = R"(seed: 1
mesh: {data: -1, model: 1}
layout:
  d1/kernel: [~, model]
data:
  train: {kind: synthetic, rows: 32, features: {kind: normal, shape: [4, 4]}, targets: {kind: classes, classes: 3}}
  batch_size: 8
model:
  input: [4, 4]
  layers:
    - Flatten:
    - Dense: {name: d1, units: 5, activation: relu}
    - Dense: {name: d2, units: 3}
loss: {SparseCategoricalCrossentropy: {from_logits: true}}
optimizer: {SGD: {learning_rate: 0.1}}
metrics: [accuracy]
fit: {epochs: 1}
)";

Communicator world() {
  return Communicator::world();
}

std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

// Writes a file once for all ranks.
void write_file(const std::string& name, const std::string& content) {
  if (world().rank() == 0) {
    std::ofstream(name, std::ios::binary) << content;
  }
  MPI_Barrier(Communicator::world().native());
}

// What is wrong with `text`, or "" if it could be trained.
std::string problem_with(const std::string& text, std::vector<ConfigOverride> overrides = {}) {
  write_file("run.yaml", text);
  CommandLine line;
  line.config = "run.yaml";
  line.overrides = std::move(overrides);
  int argc = 0;
  char** argv = nullptr;
  Runtime runtime(argc, argv);
  std::string message;
  try {
    Session session(runtime, line);
    const RunData data = session.open_training();
    session.examine(data.training, DataPart::train, Mode::train);
    if (data.validation) {
      session.examine(data.validation, DataPart::validation, Mode::evaluate);
    }
    session.build();
  } catch (const Error& error) {
    message = error.what();
  }
  MPI_Barrier(Communicator::world().native());
  return message;
}

void require_problem(const std::string& text, const std::vector<std::string>& expected) {
  const std::string message = problem_with(text);
  INFO(text);
  INFO("message: " << message);
  for (const std::string& part : expected) {
    INFO("expected: " << part);
    CHECK(message.find(part) != std::string::npos);
  }
  CHECK(message.find('\n') == std::string::npos);
}

std::string big_endian(std::uint32_t value) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) {
    text += static_cast<char>(value >> shift & 0xff);
  }
  return text;
}

// IDX files of `rows` images of 4 by 4 bytes and as many labels.
std::string idx_images(std::uint32_t rows) {
  return std::string("\0\0\x08\x03", 4) + big_endian(rows) + big_endian(4) + big_endian(4) +
         std::string(rows * 16, 'x');
}
std::string idx_labels(const std::string& labels) {
  return std::string("\0\0\x08\x01", 4) + big_endian(static_cast<std::uint32_t>(labels.size())) +
         labels;
}

std::string with_files(const std::string& images, const std::string& labels) {
  const std::size_t begin = right.find("{kind: synthetic");
  const std::size_t end = right.find('\n', begin);
  return right.substr(0, begin) + "{kind: idx, images: " + images + ", labels: " + labels + "}" +
         right.substr(end);
}

}  // namespace

TEST_CASE("a right configuration is none of the wrong ones") {
  CHECK(problem_with(right) == "");
}

TEST_CASE("an unknown key is shown with the nearest one") {
  require_problem(with(right, "batch_size:", "batchsize:"),
                  {"run.yaml:7:3", "unknown key \"batchsize\"", "did you mean \"batch_size\"?"});
  require_problem(with(right, "fit:", "fitt:"),
                  {"run.yaml:17:1", "unknown key \"fitt\"", "did you mean \"fit\"?"});
  require_problem(with(right, "units: 3", "unit: 3"), {"run.yaml:13:25", "\"unit\"", "units"});
  require_problem(with(right, "rows: 32", "rows: 32, row: 1"), {"run.yaml:6:38", "\"row\""});
  require_problem(with(right, "epochs: 1", "epoch: 1"), {"run.yaml:17:7", "\"epochs\"?"});
}

TEST_CASE("a metric that does not fit the targets is pointed at itself, not the loss") {
  require_problem(with(right, "[accuracy]", "[accuracy, mse]"),
                  {"run.yaml:16:21", "metrics[1]", "expected targets of shape (batch, 3)"});
}

TEST_CASE("data of no kind is told which there are") {
  require_problem(
      with(right, "kind: synthetic, rows", "rows"),
      {"run.yaml:6:10", "key \"kind\" is missing", "one of ", "hdf5, idx,", "npy, npz, synthetic"});
}

TEST_CASE("what later versions may have is an unknown key") {
  require_problem(right + "log: {wandb: runs}\n", {"run.yaml:18:7", "\"wandb\""});
}

TEST_CASE("callbacks that cannot work in the run are found before it") {
  const auto with_callback = [](const std::string& callback) {
    return with(right, "fit: {epochs: 1}", "fit: {epochs: 1, callbacks: [" + callback + "]}");
  };
  require_problem(with_callback("{EarlyStopping: {monitor: accuracx}}"),
                  {"run.yaml:17:", "callbacks[0]", "\"accuracx\"", "did you mean \"accuracy\"?"});
  require_problem(with_callback("{ReduceLROnPlateau: {}}"),
                  {"callbacks[0]", "\"val_loss\"", "there is no validation data"});
  require_problem(with_callback("TerminateOnNaN, {CSVLogger: {filename: none/log.csv}}"),
                  {"callbacks[1]", "none/log.csv", "there is no folder none"});
  require_problem(with_callback("{CSVLogger: {filename: .}}"), {"callbacks[0]", "is a folder"});
  require_problem(right + "checkpoint: {directory: a, best: lose}\n",
                  {"run.yaml:18:", "\"lose\"", "did you mean \"loss\"?"});
}

TEST_CASE("a value of a wrong type is shown with what was expected") {
  require_problem(with(right, "units: 5", "units: five"),
                  {"run.yaml:12:32", "expected a positive integer", "found \"five\""});
  require_problem(with(right, "batch_size: 8", "batch_size: 8.5"), {"run.yaml:7:15", "8.5"});
  require_problem(with(right, "batch_size: 8", "batch_size: 0"), {"run.yaml:7:15", "positive"});
  require_problem(right + "precision: bfloat32\n",
                  {"run.yaml:18:12", "\"bfloat32\"", "float32, tf32, bfloat16"});
  require_problem(right + "precision: bf16\n",
                  {"run.yaml:18:12", "\"bf16\"", "did you mean \"bfloat16\"?"});
  for (const char* name : {"fp32", "f32", "float", "32"}) {
    require_problem(right + "precision: " + name + "\n",
                    {"run.yaml:18:12", name, "did you mean \"float32\"?"});
  }
  require_problem(right + "precision: bloat16\n",
                  {"run.yaml:18:12", "\"bloat16\"", "did you mean \"bfloat16\"?"});
  require_problem(with(right, "seed: 1", "seed: 1\nprecison: bfloat16"),
                  {"run.yaml:2:1", "\"precison\"", "did you mean \"precision\"?"});
  require_problem(right + "kernels: timd\n",
                  {"run.yaml:18:10", "\"timd\"", "did you mean \"timed\"?", "name of a file"});
  require_problem(right + "kernels: [timed]\n", {"run.yaml:18:10", "a list"});
  require_problem(with(right, "seed: 1", "seed: [1]"), {"run.yaml:1:7", "a list"});
  require_problem(with(right, "input: [4, 4]", "input: [4, ~]"), {"run.yaml:9:14"});
  require_problem(with(right, "learning_rate: 0.1", "learning_rate: fast"), {"run.yaml:15:34"});
  require_problem(with(right, "metrics: [accuracy]", "metrics: accuracy"), {"run.yaml:16:10"});
  require_problem(with(right, "[~, model]", "model"), {"run.yaml:4:14", "a list"});
  require_problem(with(right, "model: 1}", "model: 0}"), {"run.yaml:2:25", "size 0"});
}

TEST_CASE("an unknown class is shown with the nearest one") {
  require_problem(with(right, "Dense: {name: d2", "Dens: {name: d2"),
                  {"run.yaml:13:7", "unknown layer \"Dens\"", "did you mean \"Dense\"?"});
  require_problem(with(right, "SGD", "SDG"), {"run.yaml:15:13", "\"SDG\"", "\"SGD\""});
  require_problem(with(right, "accuracy", "acuracy"), {"run.yaml:16:11", "acuracy"});
  require_problem(with(right, "kind: synthetic", "kind: hdf"), {"run.yaml:6:17", "\"hdf5\""});
  require_problem(with(right, "relu", "rela"), {"run.yaml:12:47", "\"relu\""});
}

TEST_CASE("two layers of one name are an error at the second") {
  require_problem(with(right, "name: d2", "name: d1"),
                  {"run.yaml:13:21", "a layer \"d1\" already", "run.yaml:12:7"});
}

TEST_CASE("a mesh of another size than the job is an error that states both") {
  const int ranks = world().size();
  require_problem(with(right, "data: -1", "data: 5"), {"run.yaml:2:", "5", std::to_string(ranks)});
  require_problem(with(right, "{data: -1, model: 1}", "{data: -1, model: -1}"), {"run.yaml:2:"});
  require_problem(with(right, "data: -1, model: 1", "data: -1, data: 1"),
                  {"run.yaml:2:", "\"data\""});
  require_problem(with(right, "data: -1", "data: 2000000000, x: 2000000000"), {"run.yaml:2:"});
}

TEST_CASE("an axis that the mesh lacks is an error with those there are") {
  require_problem(with(right, "[~, model]", "[~, modl]"),
                  {"run.yaml:4:3", "\"modl\"", "\"model\""});
  require_problem(right + "batch_axis: dat\n", {"run.yaml:18:13", "\"dat\"", "\"data\""});
}

TEST_CASE("an axis that is used twice is an error") {
  require_problem(with(right, "[~, model]", "[model, model]"), {"run.yaml:4:3", "\"model\""});
}

TEST_CASE("a layout that matches nothing is an error with what there is") {
  require_problem(with(right, "d1/kernel:", "d1/kernl:"),
                  {"run.yaml:4:3", "d1/kernl", "matches nothing", "\"kernel\""});
  require_problem(with(right, "d1/kernel: [~, model]", "d1/kernel: [~, model]\n  d3/.*: [model]"),
                  {"run.yaml:5:3", "d3/.*"});
}

TEST_CASE("two layouts that match one path are an error that names both") {
  const std::string two =
      with(right, "d1/kernel: [~, model]", ".*1/kernel: [~, model]\n  d1/k.*: [~, model]");
  require_problem(two, {"d1/kernel", ".*1/kernel", "d1/k.*", "run.yaml:4:3", "run.yaml:5:3"});
}

TEST_CASE("a layout of the wrong rank is an error") {
  require_problem(with(right, "[~, model]", "[model]"),
                  {"run.yaml:4:3", "d1/kernel", "1 dimension"});
}

TEST_CASE("shapes that do not fit are an error at the layer") {
  require_problem(with(right, "- Flatten:", "- Reshape: {target_shape: [5, 4]}"),
                  {"run.yaml:11:7", "model.layers[0]"});
  require_problem(with(right, "shape: [4, 4]", "shape: [5, 4]"),
                  {"run.yaml:6:10", "(5, 4)", "(4, 4)"});
  require_problem(
      with(right, "targets: {kind: classes, classes: 3}", "targets: {kind: normal, shape: [7]}"),
      {"run.yaml:14:"});
}

TEST_CASE("a model of branches that do not meet is an error at its place") {
  require_problem(with(right, "{name: d2, units: 3}", "{name: d2, units: 3, inputs: d3}"),
                  {"run.yaml:13:43", "\"d3\""});
  require_problem(
      with(right, "{name: d1, units: 5, activation: relu}", "{name: d1, units: 5, inputs: d2}"),
      {"run.yaml:12:43", "further down"});
  require_problem(with(right, "{name: d2, units: 3}", "{name: d2, units: 3, inputs: input}"),
                  {"run.yaml:12:7", "is unused"});
  require_problem(with(right, "  layers:", "  output: d4\n  layers:"),
                  {"run.yaml:10:11", "\"d4\""});
}

TEST_CASE("data without what the loss compares with are an error") {
  require_problem(with(right, ", targets: {kind: classes, classes: 3}", ""),
                  {"run.yaml:6:10", "no targets"});
  require_problem(with(right, "loss: {SparseCategoricalCrossentropy: {from_logits: true}}\n", ""),
                  {"run.yaml:1:1", "\"loss\" is missing"});
  require_problem(with(right, "  train:", "  test:"), {"run.yaml:6:3", "\"train\" is missing"});
}

TEST_CASE("missing data files are an error") {
  require_problem(with_files("nowhere-images", "nowhere-labels"),
                  {"run.yaml:6:10", "nowhere-images"});
  const std::string hdf5 =
      with(with(right, "kind: synthetic, rows: 32, features: {kind: normal, shape: [4, 4]}",
                "kind: hdf5, features: \"nowhere.h5:/x\""),
           "targets: {kind: classes, classes: 3}", "targets: \"nowhere.h5:/y\"");
  require_problem(hdf5, {"run.yaml:6:10", "nowhere.h5"});
}

TEST_CASE("truncated, corrupt and foreign data files are an error") {
  write_file("labels", idx_labels(std::string(32, '\1')));
  write_file("images", idx_images(32));
  CHECK(problem_with(with_files("images", "labels")) == "");

  write_file("short-images", idx_images(32).substr(0, 300));
  require_problem(with_files("short-images", "labels"), {"run.yaml:6:10", "short-images"});
  write_file("text-images", "this is no data");
  require_problem(with_files("text-images", "labels"), {"run.yaml:6:10", "text-images"});
  // A gzip stream that ends in its middle is found by reading it.
  write_file("packed-images", std::string("\x1f\x8b\x08\0\0\0\0\0\0\3", 10));
  require_problem(with_files("packed-images", "labels"), {"run.yaml:6:10", "packed-images"});
  write_file("few-labels", idx_labels(std::string(31, '\1')));
  require_problem(with_files("images", "few-labels"), {"run.yaml:6:10", "32", "31"});
}

TEST_CASE("labels out of range are an error that names the sample, before training") {
  std::string labels(32, '\1');
  labels[29] = '\3';
  write_file("labels", idx_labels(labels));
  write_file("images", idx_images(32));
  require_problem(with_files("images", "labels"), {"run.yaml:6:10", "label 3", "29", "3 classes"});
}

TEST_CASE("a batch that is larger than the data is an error") {
  require_problem(with(right, "batch_size: 8", "batch_size: 33"), {"run.yaml:7:15", "33", "32"});
}

TEST_CASE("more ranks than rows in a batch are an error") {
  if (world().size() > 1) {
    require_problem(with(right, "batch_size: 8", "batch_size: 1"),
                    {"run.yaml:7:15", std::to_string(world().size())});
  }
}

TEST_CASE("validation data are checked as well") {
  require_problem(with(right, "epochs: 1", "epochs: 1, validation_split: 0.999"), {"run.yaml:17:"});
}

TEST_CASE("a device that is not in this build is an error at its place") {
  require_problem(right + "device: gpu\n", {"run.yaml:18:9", "\"gpu\""});
}

TEST_CASE("a precision that processors lack is an error at its place, with what they have") {
  require_problem(right + "device: cpu\nprecision: tf32\n",
                  {"run.yaml:19:12", "tf32", "float32 and bfloat16"});
}

TEST_CASE("an option that cannot be had here is an error at its place, not at the device's") {
  if (!make_device({})->is_faster_in(Precision::tf32)) {
    require_problem(right + "precision: tf32\n", {"run.yaml:18:12: precision: ", "tf32"});
  }
  if (make_device({})->traits().computes_in_host_memory) {
    require_problem(right + "collectives: nccl\n", {"run.yaml:18:14: collectives: "});
  }
  require_problem(right + "kernels: not/there/kernels.yaml\n",
                  {"run.yaml:18:10: kernels: ", "not/there/kernels.yaml cannot be written"});
  require_problem(right + "kernels: /dev/null\n",
                  {"run.yaml:18:10: kernels: ", "/dev/null is a pipe or a device"});
  write_file("records.yaml", "\"here\":\n  \"matmul 1x2x3\": \"gemm\\n\"\n");
  require_problem(right + "kernels: records.yaml\n",
                  {"run.yaml:18:10: kernels: ", "records.yaml:2:19", "on one line"});
}

TEST_CASE("overrides are named as the place of what they set") {
  const std::string message = problem_with(right, {ConfigOverride("model.layers.d1.units=-1")});
  INFO(message);
  CHECK(message.find("--set model.layers.d1.units") == 0);
}

TEST_CASE("a file that only one rank lacks is an error on all ranks") {
  if (world().size() > 1) {
    write_file("labels", idx_labels(std::string(32, '\1')));
    write_file("images", idx_images(32));
    // Each rank reads by a name of its own, as it would on a node of its own.
    const std::string own = "images-" + std::to_string(world().rank());
    if (world().rank() != 1) {
      std::filesystem::copy_file("images", own, std::filesystem::copy_options::overwrite_existing);
    }
    const std::string message =
        problem_with(with_files("images", "labels"), {ConfigOverride("data.train.images=" + own)});
    INFO(message);
    CHECK(message.find("rank 1") != std::string::npos);
    CHECK(message.find("images-1") != std::string::npos);
  }
}

}  // namespace meshwork::wrong_configuration_test
