// What the commands that run a model have in common: from the command line to a model on a mesh,
// with its data, all of it checked.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launch/command_line.h"
#include "launch/predictions.h"
#include "launch/run_files.h"
#include "runtime/train/reporting/model_summary.h"
#include "runtime/train/run_config.h"
#include "runtime/train/runtime.h"

namespace meshwork {

/// What the program is built with, and what the extensions of the command line add.
[[nodiscard]] Catalog catalog_of(const CommandLine& line);

/// Throws `Error` on all ranks unless all have the same bytes in these libraries. Collective.
void require_same_extensions(const Communicator& ranks, const std::set<std::string>& files);

/// The configuration that `line` names, with its overrides. Not collective.
[[nodiscard]] RunConfig read_run(const CommandLine& line);
/// The same on all ranks. Collective; throws `Error` on all if one cannot read it, or has another.
[[nodiscard]] RunConfig read_same_run(const Communicator& ranks, const CommandLine& line);

/// The files that a run reads: the configuration, what it names as data, whether that is opened or
/// not, extensions and the file of kernels.
[[nodiscard]] RunFiles inputs_of(const CommandLine& line, const RunConfig& config);

/// The samples that are evaluated or predicted: what `line` names, else the last of train,
/// validation and test that there is.
[[nodiscard]] DataPart part_of(const RunConfig& config, const CommandLine& line);

/// The mesh of what is shown without its ranks: for those that `line` names, or that an open axis
/// finds in a job of `ranks`, or else as large as the axes say.
[[nodiscard]] MeshShape mesh_to_show(const RunConfig& config, const CommandLine& line,
                                     std::int64_t ranks);

/// "loss: 0.3071 - accuracy: 0.8912".
[[nodiscard]] std::string readable(const Logs& logs);

/// Prints each of `warnings` to the standard error.
void print_warnings(std::span<const std::string> warnings);

/// Throws `Stopped` on all ranks if one of them was asked to stop: "stopped by SIGTERM WHEN".
/// Collective.
void end_if_asked(Runtime& runtime, std::string_view when);
/// The same for the reasons `own` of the ranks, 0 for none, before stops are asked for.
void end_if_asked(Runtime& runtime, int own, std::string_view when);

/// What a training run reads.
struct RunData : TrainingData {
  std::shared_ptr<const Source> test;  // null if there is none
};

/// A run on the ranks that are there. All functions are collective, and throw `Error` for what is
/// wrong with the configuration.
class Session {
 public:
  /// Reads the configuration, which has to be the same on all ranks. What of it does not fit the
  /// ranks is thrown with what is wrong with the data, by the first of the functions below.
  Session(Runtime& runtime, const CommandLine& line);

  [[nodiscard]] const RunConfig& config() const { return *config_; }
  [[nodiscard]] Model& model() { return *model_; }

  /// Opens data and checks them, but for the samples themselves; for training, with the callbacks.
  /// A file that one rank lacks, or has with another number of samples, is an error on all. Texts
  /// get the numbers that they have in the training data or, of `open`, in the checkpoint that the
  /// command line names.
  [[nodiscard]] RunData open_training();
  [[nodiscard]] std::shared_ptr<const Source> open(DataPart part, Mode mode);
  /// Checks the samples of `source`; of the first one plans, and shows the plan where the command
  /// line asks for it. Training may be validated on `validation`.
  void examine(const std::shared_ptr<const Source>& source, DataPart part, Mode mode,
               const Source* validation = nullptr);
  /// Makes the model.
  void build();
  /// What `train` says before the first step (run_summary.h). To be called after `build`.
  [[nodiscard]] std::string summary(const RunData& data);
  /// Takes up the weights that the command line names, if it does, into the model as it is made for
  /// `source`, if that is not null. Without such, all but training note that the weights are the
  /// initial ones. Training that goes on from a checkpoint does not read them, and says so. To be
  /// called after `build`.
  void load_weights(const std::shared_ptr<const Source>& source, Mode mode);

  /// Gives layers that adapt the statistics of `training`, unless weights were loaded or training
  /// goes on from a checkpoint. To be called after `load_weights`.
  void adapt(const std::shared_ptr<const Source>& training);

  /// Throws on all ranks if something that the run writes would destroy something: what it reads,
  /// or a file of another kind (run_files.h). `sources` are read. To be called when weights are
  /// loaded, before anything is written.
  void claim_outputs(const std::vector<std::shared_ptr<const Source>>& sources, bool trains);
  /// The file for predictions on the root, none elsewhere.
  [[nodiscard]] std::unique_ptr<PredictionFile> prediction_file(const Source& source);
  /// Predicts for all of `source`; the root writes what comes.
  void predict(const std::shared_ptr<const Source>& source, PredictionFile* file);

 private:
  /// How data are opened; a run that ends after the plan does without their files.
  [[nodiscard]] Opening opening();
  /// Warns of data whose files are not here.
  void tell_of_missing();
  /// Of a batch.
  [[nodiscard]] std::int64_t rows_for(Mode mode) const;
  /// Keeps what is wrong with `source`, which may be null: then that is known already. Whether it
  /// has what the model takes.
  bool check(const Source* source, DataPart part, Mode mode);
  /// Keeps what is wrong with the callbacks for training on `data`, if these are there.
  void check_callbacks(const TrainingData& data);
  /// Whether training will go on from a checkpoint, as the root sees its directory. Collective.
  [[nodiscard]] bool goes_on() const;
  /// Throws if anything is wrong so far, else makes the mesh.
  void make_mesh();

  Runtime* runtime_;
  const CommandLine* line_;
  std::optional<RunConfig> config_;
  ConfigErrors errors_;             // so far
  std::optional<MeshShape> shape_;  // none if it is wrong
  std::optional<DeviceMesh> mesh_;
  std::optional<std::vector<Categories>> categories_;  // of the training data, if they are known
  std::vector<std::string> missing_;                   // warnings of data that are not here
  std::optional<Model> model_;                         // after the mesh, which outlives it
  std::filesystem::path weights_;                      // that were loaded
  std::optional<Blueprint> blueprint_;                 // of the model, which takes it
  ModelSummary model_summary_;
};

}  // namespace meshwork
