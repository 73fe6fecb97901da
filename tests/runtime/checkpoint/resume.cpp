// Runs that are cut off and go on, against runs that are not: weights, history and log file bit for
// bit on the same mesh, to rounding on another.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "collectives/exchange.h"
#include "collectives/wrong_input.h"
#include "layers/activation.h"
#include "layers/dense.h"
#include "layers/dropout.h"
#include "runtime/checkpoint/directory.h"
#include "runtime/checkpoint/reader.h"
#include "runtime/train/callbacks/csv_logger.h"
#include "runtime/train/callbacks/early_stopping.h"
#include "runtime/train/callbacks/learning_rate_scheduler.h"
#include "runtime/train/callbacks/reduce_lr_on_plateau.h"
#include "runtime/train/callbacks/swap_ema_weights.h"
#include "runtime/train/losses/categorical_crossentropy.h"
#include "runtime/train/metrics/categorical_accuracy.h"
#include "runtime/train/optimizers/adam.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/one_rank.h"

namespace meshwork::resume_test {

using namespace meshwork::test;

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t rows = 61;  // batches of 8, the last of 5
constexpr std::int64_t batches = 8;
constexpr std::int64_t epochs = 4;

std::shared_ptr<const Source> samples(unsigned seed = 1) {
  std::vector<float> labels = random_floats(rows, seed + 1, 0, 7);
  for (float& label : labels) label = std::floor(label);
  return std::make_shared<ArraySource>(
      std::vector<Array>{Array("x", random_floats(rows * 9, seed), {rows, 9}),
                         Array("t", std::move(labels), {rows}, FieldRole::target)});
}

// Which kind of run: all that has state beyond the weights.
struct Kind {
  const char* name;
  Optimizer optimizer;
  bool plateau;  // else a scheduler that goes by the rate so far
};

std::vector<Kind> kinds() {
  return {{"adam, plateau, best weights", Adam({.learning_rate = 0.01}), true},
          {"momentum, rate by rate", SGD({.learning_rate = 0.05, .momentum = 0.9}), false},
          {"schedule",
           SGD({.learning_rate = CosineDecay({.initial_learning_rate = 0.1, .decay_steps = 40}),
                .momentum = 0.5,
                .nesterov = true}),
           true},
          {"means of weights",
           Adam({.learning_rate = 0.01,
                 .ema = {.use = true, .momentum = 0.9, .overwrite_frequency = 5}}),
           true}};
}

Model make_model(DeviceMesh& mesh, const Kind& kind, const LayoutEntries& layouts,
                 Precision precision = Precision::float32) {
  const auto input = Input({9});
  auto x = Dense({.name = "d1", .units = 13, .activation = Activation::relu})(input);
  x = Dropout({.name = "drop", .rate = 0.4})(x);
  x = Dense({.name = "d2", .units = 7})(x);
  Model model(input, x, spread_over(mesh, layouts), {.seed = 5, .precision = precision});
  model.compile({.loss = SparseCategoricalCrossentropy({.from_logits = true}),
                 .optimizer = kind.optimizer,
                 .metrics = {SparseCategoricalAccuracy()}});
  return model;
}

// Asks to stop after so many updates.
class StopAfter final : public Callback {
 public:
  StopAfter(StopRequest& request, std::int64_t updates) : request_(request), updates_(updates) {}
  std::string class_name() const override { return "StopAfter"; }
  // Those that do not are asked after every step, so that the run stops just there; else the ranks
  // agree on fewer steps.
  bool decides_alike() const override { return updates_ % batches != 0; }
  void on_train_batch_end(Training& training) override {
    if (training.position().iteration >= updates_) request_.ask(15);
  }

 private:
  StopRequest& request_;
  std::int64_t updates_;
};

// Ends the run after so many updates, inside an epoch.
class EndAfter final : public Callback {
 public:
  explicit EndAfter(std::int64_t updates) : updates_(updates) {}
  std::string class_name() const override { return "EndAfter"; }
  void on_train_batch_end(Training& training) override {
    if (training.position().iteration == updates_) training.stop();
  }

 private:
  std::int64_t updates_;
};

// Says what the loss is on the validation data, by epoch.
class Dictated final : public Callback {
 public:
  explicit Dictated(std::vector<double> values) : values_(std::move(values)) {}
  std::string class_name() const override { return "Dictated"; }
  bool decides_alike() const override { return true; }
  void on_epoch_end(Training& training) override {
    training.logs().set("val_loss",
                        values_.at(static_cast<std::size_t>(training.position().epoch)));
  }

 private:
  std::vector<double> values_;
};

std::string content(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

struct Outcome {
  std::vector<std::vector<float>> weights;
  History history;
  std::string log;
};

// A directory for one run, on all ranks; emptied by rank 0.
fs::path run_directory(const DeviceMesh& mesh, const std::string& name) {
  const fs::path directory = fs::current_path() / name;
  check_mpi(MPI_Barrier(mesh.all().native()), "MPI_Barrier");
  if (mesh.rank() == 0) fs::remove_all(directory);
  check_mpi(MPI_Barrier(mesh.all().native()), "MPI_Barrier");
  if (mesh.rank() == 0) fs::create_directories(directory);
  check_mpi(MPI_Barrier(mesh.all().native()), "MPI_Barrier");
  return directory;
}

// One process of a run: to its end, or until it is asked to stop after `stop_after` updates. A
// callback of the user's ends the run after `end_after`.
Outcome part_of_run(DeviceMesh& mesh, const Kind& kind, const LayoutEntries& layouts,
                    const fs::path& directory, CheckpointOptions checkpoint,
                    std::optional<std::int64_t> stop_after = std::nullopt,
                    std::optional<std::int64_t> end_after = std::nullopt) {
  Model model = make_model(mesh, kind, layouts);
  StopRequest request;
  FitOptions options{.epochs = epochs,
                     .batch_size = 8,
                     .validation = samples(7),
                     .verbose = Verbosity::silent,
                     .checkpoint = checkpoint,
                     .stop_request = stop_after ? &request : nullptr};
  options.callbacks = {CSVLogger({.filename = directory / "log.csv"}),
                       EarlyStopping({.patience = 3, .restore_best_weights = true})};
  if (kind.plateau && kind.optimizer.schedule().is_constant()) {
    options.callbacks.push_back(ReduceLROnPlateau({.factor = 0.5, .patience = 1}));
  } else if (!kind.plateau) {
    options.callbacks.push_back(
        LearningRateScheduler({.schedule = [](std::int64_t, double rate) { return rate * 0.7; }}));
  }
  if (kind.optimizer.keeps_averages()) {
    options.callbacks.push_back(SwapEMAWeights({.swap_on_epoch = true}));
  }
  if (end_after) options.callbacks.push_back(std::make_shared<EndAfter>(*end_after));
  if (stop_after) options.callbacks.push_back(std::make_shared<StopAfter>(request, *stop_after));
  Outcome outcome;
  outcome.history = model.fit(samples(), std::move(options));
  for (const Variable& variable : model.graph().variables) {
    outcome.weights.push_back(model.variable(variable.path));
  }
  check_mpi(MPI_Barrier(mesh.all().native()), "MPI_Barrier");
  outcome.log = content(directory / "log.csv");
  return outcome;
}

bool same_bits(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].size() != b[i].size() ||
        std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(float)) != 0) {
      return false;
    }
  }
  return true;
}

DeviceMesh mesh_of_all() {
  const int size = Communicator::world().size();
  return size % 2 == 0 ? DeviceMesh({{"data", size / 2}, {"model", 2}})
                       : DeviceMesh({{"data", size}, {"model", 1}});
}

const LayoutEntries split_layouts{{"d1/kernel", {unsharded, "model"}},
                                  {"d1/bias", {"model"}},
                                  {"d2/kernel", {"model", unsharded}}};

}  // namespace

TEST_CASE("a run that is cut off twice inside epochs ends as one that was not, bit for bit") {
  DeviceMesh mesh = mesh_of_all();
  for (const Kind& kind : kinds()) {
    INFO(kind.name);
    const Outcome straight =
        part_of_run(mesh, kind, split_layouts, run_directory(mesh, "straight"), {});
    for (const auto& [writer, mode] :
         {std::pair{CheckpointWriter::parallel, CheckpointMode::asynchronous},
          std::pair{CheckpointWriter::plain, CheckpointMode::synchronous}}) {
      if (writer == CheckpointWriter::plain && !kind.plateau) {
        continue;  // one kind of run tells as much of the writer
      }
      const fs::path directory = run_directory(mesh, "resumed");
      const CheckpointOptions checkpoint{.directory = directory / "checkpoints",
                                         .every_epochs = 1,
                                         .resume = Resume::automatic,
                                         .mode = mode,
                                         .writer = writer,
                                         .verify = true};
      const Outcome first = part_of_run(mesh, kind, split_layouts, directory, checkpoint, 3);
      CHECK(first.history.stop_reason == 15);
      const Outcome second =
          part_of_run(mesh, kind, split_layouts, directory, checkpoint, batches + 5);
      CHECK(second.history.stop_reason == 15);
      CHECK(second.history.epoch.size() < static_cast<std::size_t>(epochs));
      const Outcome last = part_of_run(mesh, kind, split_layouts, directory, checkpoint);
      CHECK(last.history.stop_reason == 0);
      CHECK(same_bits(last.weights, straight.weights));
      CHECK(last.history.epoch == straight.history.epoch);
      CHECK(last.history.history == straight.history.history);
      CHECK(last.log == straight.log);
      // Once more: all is done, and stays as it is.
      const Outcome again = part_of_run(mesh, kind, split_layouts, directory, checkpoint);
      CHECK(same_bits(again.weights, straight.weights));
      CHECK(again.history.history == straight.history.history);
      CHECK(again.log == straight.log);
    }
  }
}

TEST_CASE("a run that is cut off after the last batch of an epoch ends that epoch") {
  DeviceMesh mesh = mesh_of_all();
  const Kind kind = kinds()[0];
  const Outcome straight = part_of_run(mesh, kind, {}, run_directory(mesh, "straight"), {});
  const fs::path directory = run_directory(mesh, "resumed");
  const CheckpointOptions checkpoint{.directory = directory / "checkpoints",
                                     .resume = Resume::automatic};
  (void)part_of_run(mesh, kind, {}, directory, checkpoint, 2 * batches);
  const Outcome last = part_of_run(mesh, kind, {}, directory, checkpoint);
  CHECK(same_bits(last.weights, straight.weights));
  CHECK(last.history.history == straight.history.history);
  CHECK(last.log == straight.log);
}

TEST_CASE("a run that a callback ends inside an epoch as it is cut off ends that epoch, once") {
  DeviceMesh mesh = mesh_of_all();
  const Kind kind = kinds()[0];
  constexpr std::int64_t end = batches + 3;
  const Outcome straight =
      part_of_run(mesh, kind, {}, run_directory(mesh, "straight"), {}, std::nullopt, end);
  REQUIRE(straight.history.epoch.size() == 2);
  const fs::path directory = run_directory(mesh, "resumed");
  const CheckpointOptions checkpoint{.directory = directory / "checkpoints",
                                     .resume = Resume::automatic};
  const Outcome first = part_of_run(mesh, kind, {}, directory, checkpoint, end, end);
  CHECK(first.history.stop_reason == 15);
  CHECK(first.history.epoch.size() == 1);
  for (int times = 0; times < 2; ++times) {
    const Outcome last = part_of_run(mesh, kind, {}, directory, checkpoint, std::nullopt, end);
    CHECK(same_bits(last.weights, straight.weights));
    CHECK(last.history.epoch == straight.history.epoch);
    CHECK(last.history.history == straight.history.history);
    CHECK(last.log == straight.log);
  }
}

TEST_CASE("a run goes on on another mesh with other layouts, equal to rounding") {
  DeviceMesh mesh = mesh_of_all();
  DeviceMesh other({{"model", -1}});
  const Kind kind = kinds()[0];
  const Outcome straight =
      part_of_run(mesh, kind, split_layouts, run_directory(mesh, "straight"), {});
  const fs::path directory = run_directory(mesh, "resumed");
  const CheckpointOptions checkpoint{
      .directory = directory / "checkpoints", .every_steps = 1, .resume = Resume::automatic};
  (void)part_of_run(mesh, kind, split_layouts, directory, checkpoint, batches + 3);
  const Outcome last =
      part_of_run(other, kind, {{"d1/kernel", {"model", unsharded}}}, directory, checkpoint);
  REQUIRE(last.weights.size() == straight.weights.size());
  for (std::size_t i = 0; i < last.weights.size(); ++i) {
    for (std::size_t k = 0; k < last.weights[i].size(); ++k) {
      // Adam divides by the root of a mean square, which amplifies float32's rounding of small
      // gradients; over 20 updates differences stay below the tenth of one update, 0.01.
      CHECK(std::abs(last.weights[i][k] - straight.weights[i][k]) < 1e-3);
    }
  }
}

namespace {

// A run of so many epochs that restores the weights of the best, which is the second.
Outcome run_with_best(DeviceMesh& mesh, const fs::path& directory, std::int64_t epoch_count,
                      std::int64_t patience, const CheckpointOptions& checkpoint) {
  Model model = make_model(mesh, kinds()[0], split_layouts);
  Outcome outcome;
  outcome.history =
      model.fit(samples(),
                {.epochs = epoch_count,
                 .batch_size = 8,
                 .validation = samples(7),
                 .callbacks = {std::make_shared<Dictated>(std::vector<double>{3, 1, 2, 2, 2, 2, 2}),
                               CSVLogger({.filename = directory / "log.csv"}),
                               EarlyStopping({.patience = patience, .restore_best_weights = true})},
                 .verbose = Verbosity::silent,
                 .checkpoint = checkpoint});
  for (const Variable& variable : model.graph().variables) {
    outcome.weights.push_back(model.variable(variable.path));
  }
  check_mpi(MPI_Barrier(mesh.all().native()), "MPI_Barrier");
  outcome.log = content(directory / "log.csv");
  return outcome;
}

// The variables of a checkpoint, in the order of their paths.
std::vector<std::vector<float>> variables_in(const fs::path& file) {
  const CheckpointReader reader(file);
  CHECK(reader.verify().empty());
  std::vector<std::vector<float>> values;
  for (const CheckpointTensor& tensor : reader.tensors()) {
    if (tensor.kind == TensorKind::variable) values.push_back(reader.read(tensor));
  }
  return values;
}

std::vector<std::vector<float>> sorted(std::vector<std::vector<float>> values) {
  std::sort(values.begin(), values.end());
  return values;
}

}  // namespace

TEST_CASE("the newest checkpoint has the weights that early stopping restored, and is the end") {
  DeviceMesh mesh = mesh_of_all();
  for (const CheckpointMode mode : {CheckpointMode::asynchronous, CheckpointMode::synchronous}) {
    const fs::path directory = run_directory(mesh, "best");
    const fs::path checkpoints = directory / "checkpoints";
    const CheckpointOptions options{
        .directory = checkpoints, .keep = 9, .resume = Resume::automatic, .mode = mode};
    const Outcome ended = run_with_best(mesh, directory, 7, 2, options);
    REQUIRE(ended.history.epoch.size() == 4);
    const fs::path newest = list_checkpoints(checkpoints, "").checkpoints[0].file;
    CHECK(newest == checkpoints / checkpoint_name(4 * batches));
    CHECK(variables_in(newest) == variables_in(checkpoints / checkpoint_name(2 * batches)));
    CHECK(variables_in(newest) != variables_in(checkpoints / checkpoint_name(3 * batches)));
    CHECK(sorted(ended.weights) == sorted(variables_in(newest)));
    CHECK(CheckpointReader(newest).state().stopped);
    check_mpi(MPI_Barrier(mesh.all().native()), "MPI_Barrier");
    // Once more: it has ended, and the file stays what it is.
    const std::string bytes = content(newest);
    const Outcome again = run_with_best(mesh, directory, 7, 2, options);
    CHECK(again.history.history == ended.history.history);
    CHECK(again.log == ended.log);
    CHECK(same_bits(again.weights, ended.weights));
    CHECK(content(newest) == bytes);
    check_mpi(MPI_Barrier(mesh.all().native()), "MPI_Barrier");
  }
}

TEST_CASE("each best epoch is saved at its end, however often others are") {
  DeviceMesh mesh = mesh_of_all();
  const fs::path directory = run_directory(mesh, "best");
  const fs::path checkpoints = directory / "checkpoints";
  // Of 8 steps an epoch the second epoch's last is none of every five.
  (void)run_with_best(mesh, directory, 4, 9,
                      {.directory = checkpoints, .every_steps = 5, .keep = 1, .best = "val_loss"});
  const std::vector<FoundCheckpoint> found = list_checkpoints(checkpoints, "val_loss").checkpoints;
  REQUIRE(found.size() == 2);
  CHECK(found[0].step == 4 * batches);
  CHECK(found[1].step == 2 * batches);
  CHECK(found[1].monitored == 1.0);
}

TEST_CASE("the best weights are in the newest checkpoint though their own has gone") {
  DeviceMesh mesh = mesh_of_all();
  const fs::path directory = run_directory(mesh, "best");
  const fs::path checkpoints = directory / "checkpoints";
  const Outcome ended = run_with_best(mesh, directory, 7, 4,
                                      {.directory = checkpoints, .every_epochs = 5, .keep = 1});
  REQUIRE(ended.history.epoch.size() == 6);
  REQUIRE(list_checkpoints(checkpoints, "").checkpoints.size() == 1);
  CHECK(sorted(ended.weights) == sorted(variables_in(checkpoints / checkpoint_name(6 * batches))));
}

TEST_CASE("a run that restored the best weights goes on from its last epoch, bit for bit") {
  DeviceMesh mesh = mesh_of_all();
  const Outcome straight = run_with_best(mesh, run_directory(mesh, "straight"), 6, 9, {});
  const fs::path directory = run_directory(mesh, "best");
  const CheckpointOptions options{.directory = directory / "checkpoints",
                                  .resume = Resume::automatic};
  for (const std::int64_t epoch_count : {3, 4, 6}) {
    const Outcome part = run_with_best(mesh, directory, epoch_count, 9, options);
    CHECK(part.history.epoch.size() == static_cast<std::size_t>(epoch_count));
    if (epoch_count == 6) {
      CHECK(same_bits(part.weights, straight.weights));
      CHECK(part.history.history == straight.history.history);
      CHECK(part.log == straight.log);
    }
  }
}

TEST_CASE("a run goes on in another precision, in which its checkpoints then are") {
  DeviceMesh mesh = mesh_of_all();
  const fs::path directory = run_directory(mesh, "precision");
  const auto train_until = [&](std::int64_t epoch, Precision precision) {
    Model model = make_model(mesh, kinds()[0], {}, precision);
    (void)model.fit(samples(), {.epochs = epoch,
                                .batch_size = 8,
                                .verbose = Verbosity::silent,
                                .checkpoint = {.directory = directory / "checkpoints",
                                               .resume = Resume::automatic}});
    CHECK(model.iteration() == epoch * batches);
    const CheckpointReader newest(
        list_checkpoints(directory / "checkpoints", "").checkpoints[0].file);
    CHECK(newest.state().precision == name_of(precision));
    check_mpi(MPI_Barrier(mesh.all().native()), "MPI_Barrier");
  };
  train_until(1, Precision::float32);
  train_until(2, Precision::bfloat16);
  train_until(3, Precision::float32);
}

TEST_CASE("the newest stay, and the best, and the last one is written at the end") {
  DeviceMesh mesh = mesh_of_all();
  const fs::path directory = run_directory(mesh, "kept");
  const Kind kind = kinds()[1];
  const Outcome run = part_of_run(
      mesh, kind, {}, directory,
      {.directory = directory / "checkpoints", .every_steps = 3, .keep = 2, .best = "val_loss"});
  if (mesh.rank() == 0) {
    const CheckpointListing listing = list_checkpoints(directory / "checkpoints", "val_loss");
    REQUIRE(listing.checkpoints.size() >= 2);
    CHECK(listing.unfinished.empty());
    CHECK(listing.checkpoints[0].step ==
          batches * static_cast<std::int64_t>(run.history.epoch.size()));
    CHECK(listing.checkpoints.size() <= 3);
    const CheckpointReader newest(listing.checkpoints[0].file);
    CHECK(newest.state().history == run.history.history);
    CHECK(newest.verify().empty());
  }
  check_mpi(MPI_Barrier(mesh.all().native()), "MPI_Barrier");
}

TEST_CASE("checkpoints come by the clock of rank 0") {
  DeviceMesh mesh = mesh_of_all();
  const fs::path directory = run_directory(mesh, "clock");
  // One after every step that is agreed on. Without the clock there would be that of the end.
  (void)part_of_run(mesh, kinds()[1], {}, directory,
                    {.directory = directory / "checkpoints", .every_minutes = 1e-9, .keep = 100});
  if (mesh.rank() == 0) {
    CHECK(list_checkpoints(directory / "checkpoints", "").checkpoints.size() >= 4);
  }
  check_mpi(MPI_Barrier(mesh.all().native()), "MPI_Barrier");
}

TEST_CASE("a fresh run beside another's checkpoints is an error") {
  DeviceMesh mesh = mesh_of_all();
  const fs::path directory = run_directory(mesh, "beside");
  const CheckpointOptions checkpoint{.directory = directory / "checkpoints"};
  (void)part_of_run(mesh, kinds()[1], {}, directory, checkpoint, 2);
  const auto again = [&] { (void)part_of_run(mesh, kinds()[1], {}, directory, checkpoint); };
  CHECK_THROWS_WITH(again(), Catch::Contains("up to step 2") && Catch::Contains("--resume"));
  CHECK_THROWS_AS(again(), WrongInput);  // whenever it is found, as by the second of two
}

TEST_CASE("what keeps a model from going on is said, all of it at once") {
  DeviceMesh mesh = mesh_of_all();
  const fs::path directory = run_directory(mesh, "other_model");
  const CheckpointOptions checkpoint{.directory = directory / "checkpoints",
                                     .resume = Resume::automatic};
  (void)part_of_run(mesh, kinds()[1], {}, directory, checkpoint, 2);
  const auto input = Input({9});
  auto x = Dense({.name = "d1", .units = 12})(input);
  x = Dense({.name = "head", .units = 7, .use_bias = false})(x);
  Model model(input, x, spread_over(mesh), {.seed = 6});
  model.compile({.loss = SparseCategoricalCrossentropy({.from_logits = true}),
                 .optimizer = Adam(),
                 .metrics = {}});
  CHECK_THROWS_WITH(
      model.fit(
          samples(),
          {.epochs = 2, .batch_size = 4, .verbose = Verbosity::silent, .checkpoint = checkpoint}),
      Catch::Contains("the optimizer is Adam, the checkpoint's is SGD") &&
          Catch::Contains("d1/kernel has shape (9, 12), in the checkpoint (9, 13)") &&
          Catch::Contains("d1/kernel has shape (9, 12), in the checkpoint (9, 13)") &&
          Catch::Contains("the checkpoint has d2/bias (7), the model does not") &&
          Catch::Contains("the model has head/kernel (12, 7), the checkpoint does not") &&
          Catch::Contains("batch_size 4 instead of 8") && Catch::Contains("seed 6 instead of 5"));
}

TEST_CASE("slots of a variable of another shape are not said to have one, too") {
  DeviceMesh mesh = mesh_of_all();
  const fs::path directory = run_directory(mesh, "other_width");
  const CheckpointOptions checkpoint{.directory = directory / "checkpoints",
                                     .resume = Resume::automatic};
  (void)part_of_run(mesh, kinds()[1], {}, directory, checkpoint, 2);
  const auto input = Input({9});
  auto x = Dense({.name = "d1", .units = 12})(input);
  x = Dense({.name = "d2", .units = 7})(x);
  Model model(input, x, spread_over(mesh), {.seed = 5});
  model.compile({.loss = SparseCategoricalCrossentropy({.from_logits = true}),
                 .optimizer = kinds()[1].optimizer,
                 .metrics = {SparseCategoricalAccuracy()}});
  CHECK_THROWS_WITH(
      model.fit(
          samples(),
          {.epochs = 2, .batch_size = 8, .verbose = Verbosity::silent, .checkpoint = checkpoint}),
      Catch::EndsWith("\n  d1/kernel has shape (9, 12), in the checkpoint (9, 13)"
                      "\n  d1/bias has shape (12), in the checkpoint (13)"
                      "\n  d2/kernel has shape (12, 7), in the checkpoint (13, 7)"));
}

TEST_CASE("a damaged checkpoint is passed over, or an error where that is asked for") {
  DeviceMesh mesh = mesh_of_all();
  const Kind kind = kinds()[0];
  const Outcome straight = part_of_run(mesh, kind, {}, run_directory(mesh, "straight"), {});
  const fs::path directory = run_directory(mesh, "damaged");
  CheckpointOptions checkpoint{
      .directory = directory / "checkpoints", .every_steps = 2, .resume = Resume::automatic};
  (void)part_of_run(mesh, kind, {}, directory, checkpoint, 9);
  // A bit of a slot in the newest one.
  if (mesh.rank() == 0) {
    const fs::path newest = list_checkpoints(directory / "checkpoints", "").checkpoints.at(0).file;
    std::string bytes = content(newest);
    const CheckpointReader reader(newest);
    const CheckpointTensor* slot = reader.find("slots/d1/kernel/" + reader.state().slots.back());
    REQUIRE(slot != nullptr);
    const std::vector<float> values = reader.read(*slot);
    const std::string pattern(reinterpret_cast<const char*>(values.data()), values.size() * 4);
    const std::size_t at = bytes.find(pattern);
    REQUIRE(at != std::string::npos);
    bytes[at + 100] = static_cast<char>(bytes[at + 100] ^ 4);
    std::ofstream(newest, std::ios::binary) << bytes;
  }
  check_mpi(MPI_Barrier(mesh.all().native()), "MPI_Barrier");
  checkpoint.resume = Resume::strict;
  CHECK_THROWS_WITH(part_of_run(mesh, kind, {}, directory, checkpoint),
                    Catch::Contains("strict") && Catch::Contains("slots/d1/kernel/") &&
                        Catch::Contains("the data differ from those written"));
  checkpoint.resume = Resume::automatic;
  const Outcome last = part_of_run(mesh, kind, {}, directory, checkpoint);
  CHECK(same_bits(last.weights, straight.weights));
  CHECK(last.history.history == straight.history.history);
}

TEST_CASE("a checkpoint that cannot be looked into is no damaged one, but an error") {
  DeviceMesh mesh = mesh_of_all();
  const fs::path directory = run_directory(mesh, "unreachable");
  const CheckpointOptions checkpoint{.directory = directory / "checkpoints",
                                     .resume = Resume::automatic};
  (void)part_of_run(mesh, kinds()[1], {}, directory, checkpoint, 2);
  if (mesh.rank() == 0) {
    fs::create_symlink(checkpoint_name(9), directory / "checkpoints" / checkpoint_name(9));
  }
  check_mpi(MPI_Barrier(mesh.all().native()), "MPI_Barrier");
  CHECK_THROWS_WITH(part_of_run(mesh, kinds()[1], {}, directory, checkpoint),
                    Catch::Contains(checkpoint_name(9)) && Catch::Contains(std::strerror(ELOOP)));
}

TEST_CASE("checkpoints of which none can be read are an error, never a fresh start") {
  DeviceMesh mesh = mesh_of_all();
  const fs::path directory = run_directory(mesh, "none_whole");
  const CheckpointOptions checkpoint{.directory = directory, .resume = Resume::automatic};
  if (mesh.rank() == 0) {
    std::ofstream(directory / checkpoint_name(30)) << "a text";
    std::ofstream(directory / checkpoint_name(20)).flush();
    fs::create_directory(directory / checkpoint_name(10));  // is none
  }
  check_mpi(MPI_Barrier(mesh.all().native()), "MPI_Barrier");
  CHECK_THROWS_WITH(part_of_run(mesh, kinds()[0], {}, directory, checkpoint),
                    Catch::Contains("none of the 2 checkpoints can be read") &&
                        Catch::Contains("is no HDF5 file") && Catch::Contains("is empty"));
}

TEST_CASE("a checkpoint that cannot be written stops the run, or does not, as was chosen") {
  DeviceMesh mesh = mesh_of_all();
  const Kind kind = kinds()[1];
  const Outcome straight = part_of_run(mesh, kind, {}, run_directory(mesh, "straight"), {});
  for (const CheckpointMode mode : {CheckpointMode::synchronous, CheckpointMode::asynchronous}) {
    const fs::path directory = run_directory(mesh, "unwritable");
    CheckpointOptions checkpoint{.directory = directory / "checkpoints",
                                 .mode = mode,
                                 .on_error = CheckpointFailure::continue_anyway};
    // Directories stand where the files of the first two epochs are to be.
    if (mesh.rank() == 0) {
      for (std::int64_t epoch = 1; epoch <= 2; ++epoch) {
        fs::create_directories(directory / "checkpoints" /
                               (checkpoint_name(epoch * batches) + ".meshwork-unfinished"));
      }
    }
    check_mpi(MPI_Barrier(mesh.all().native()), "MPI_Barrier");
    const Outcome run = part_of_run(mesh, kind, {}, directory, checkpoint);
    CHECK(same_bits(run.weights, straight.weights));
    CHECK(run.history.unsaved.empty());  // the last two were written
    if (mesh.rank() == 0) {
      CHECK(list_checkpoints(directory / "checkpoints", "").checkpoints.size() == 2);
      for (const FoundCheckpoint& found :
           list_checkpoints(directory / "checkpoints", "").checkpoints) {
        fs::remove(found.file);
      }
    }
    check_mpi(MPI_Barrier(mesh.all().native()), "MPI_Barrier");
    checkpoint.on_error = CheckpointFailure::stop;
    CHECK_THROWS_WITH(part_of_run(mesh, kind, {}, directory, checkpoint),
                      Catch::Contains("the checkpoint of step 8 could not be written") &&
                          Catch::Contains(checkpoint_name(8)));
  }
}

TEST_CASE("a run whose last state is lost goes to its end, and its history says what is left") {
  DeviceMesh mesh = mesh_of_all();
  const Kind kind = kinds()[1];
  const fs::path directory = run_directory(mesh, "lost");
  const fs::path checkpoints = directory / "checkpoints";
  const CheckpointOptions checkpoint{.directory = checkpoints,
                                     .resume = Resume::automatic,
                                     .on_error = CheckpointFailure::continue_anyway};
  (void)part_of_run(mesh, kind, {}, directory, checkpoint, batches);
  if (mesh.rank() == 0) {
    for (std::int64_t epoch = 2; epoch <= epochs; ++epoch) {
      fs::create_directories(checkpoints /
                             (checkpoint_name(epoch * batches) + ".meshwork-unfinished"));
    }
  }
  check_mpi(MPI_Barrier(mesh.all().native()), "MPI_Barrier");
  const Outcome run = part_of_run(mesh, kind, {}, directory, checkpoint);
  CHECK(run.history.epoch.size() == static_cast<std::size_t>(epochs));
  CHECK_THAT(
      run.history.unsaved,
      Catch::StartsWith(fmt::format("the state after step {} is lost: ", epochs * batches)) &&
          Catch::Contains(checkpoint_name(epochs * batches) +
                          ".meshwork-unfinished: is in the way") &&
          Catch::EndsWith("; the newest intact checkpoint is " +
                          (checkpoints / checkpoint_name(batches)).string()));
}

TEST_CASE("a directory under a checkpoint's name costs that checkpoint, and not the run") {
  DeviceMesh mesh = mesh_of_all();
  const Kind kind = kinds()[1];
  const Outcome straight = part_of_run(mesh, kind, {}, run_directory(mesh, "straight"), {});
  for (const Resume resume : {Resume::never, Resume::automatic, Resume::strict}) {
    const fs::path directory = run_directory(mesh, "in_the_way");
    const fs::path checkpoints = directory / "checkpoints";
    if (mesh.rank() == 0) fs::create_directories(checkpoints / checkpoint_name(2 * batches));
    check_mpi(MPI_Barrier(mesh.all().native()), "MPI_Barrier");
    const Outcome run = part_of_run(mesh, kind, {}, directory,
                                    {.directory = checkpoints,
                                     .keep = epochs,
                                     .resume = resume,
                                     .on_error = CheckpointFailure::continue_anyway});
    CHECK(same_bits(run.weights, straight.weights));
    CHECK(run.history.unsaved.empty());
    if (mesh.rank() == 0) {
      CHECK(fs::is_directory(checkpoints / checkpoint_name(2 * batches)));
      for (std::int64_t epoch = 1; epoch <= epochs; ++epoch) {
        CHECK((epoch == 2 || fs::is_regular_file(checkpoints / checkpoint_name(epoch * batches))));
      }
    }
  }
}

}  // namespace meshwork::resume_test
