// A whole run as a configuration file describes it, section by section:
//
//     seed: 7                          # of initial weights, dropout, order and synthetic data
//     device: auto                     # cpu, cuda
//     collectives: auto                # hierarchical, mpi, shared; of GPUs cuda_aware_mpi, nccl
//     precision: float32               # bfloat16, tf32: of products and convolutions
//     kernels: fixed                   # timed, or a file that keeps what was timed
//     watchdog_seconds: 1800           # that a rank may wait for another; 0: for ever
//     check_plan: false                # hold what every step sends against the plan
//     mesh: {data: 2, model: 4}        # -1: all remaining ranks; default {data: -1}
//     distribution: MegatronLayout     # what lays out what `layout` does not name (strategies/)
//     layout: {d1/kernel: [~, model]}  # path or pattern: for each dimension the axes that split it
//     place: {decoder: {stage: 1}}     # layers and blocks at coordinates of axes (graph/placement.h);
//                                      # auto: in stages that take equally long
//     pipeline: {axis: stage}          # how stages walk through micro-batches (graph/schedule.h)
//     batch_axis: data                 # default: the mesh's first that places nothing; ~: none
//     unmatched_layouts: error         # warn
//     data:
//       train: {kind: idx, ...}        # written_source.h in runtime/data; also validation, test
//       batch_size: 64                 # global
//       shuffle: true
//       drop_remainder: false          # leave out an epoch's last batch where it is short
//       prefetch: true                 # where reading is slow
//       cache: false                   # keep in memory what was read once
//       one_hot: false                 # vectors for class numbers, where a loss takes such
//       on_device: auto                # never: keep no samples in a GPU's memory
//     augment: [{MixUp: {alpha: 0.2}}] # mixing.h in runtime/data
//     roles: {train: 6, evaluate: 1}   # ranks that do not train (roles/role.h); default: all do
//     model: ...                       # model_config.h in runtime/graph
//     loss: mse                        # of several outputs a map by their names, as metrics
//     loss_weights: {price: 0.5}       # of several outputs (written_outputs.h)
//     metrics: [accuracy]
//     optimizer: {Adam: {learning_rate: 1e-3}}  # from_config.h in runtime/train
//     fit: {epochs: 3, validation_split: 0.1, steps_per_epoch: 100, validation_batch_size: 256,
//           validation_freq: 1, class_weight: {0: 1, 1: 5}, verbose: auto, profile: false,
//           callbacks: [{CSVLogger: {filename: log.csv}}]}
//     checkpoint: {directory: checkpoints, every_epochs: 1, every_steps: 500, every_minutes: 10,
//                  keep: 3, best: val_loss, resume: auto, mode: async, writer: parallel,
//                  verify: false, on_error: stop}  # options.h in runtime/checkpoint; ~: none
//     log: {jsonl: metrics.jsonl}
//
// Only `model` and, where something is fed, `data` have no defaults. Reading a run touches neither
// MPI nor data files; what follows, mesh, data, model, is made of it by the functions below. All
// throw `ConfigError` with the place of what is wrong, the same on all ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/catalog.h"
#include "runtime/config/reader.h"
#include "runtime/data/written_source.h"
#include "runtime/graph/model_config.h"
#include "runtime/train/loop/stop_request.h"
#include "runtime/train/model.h"
#include "runtime/train/model_options.h"
#include "runtime/train/roles/role.h"
#include "runtime/train/written_outputs.h"

namespace meshwork {

/// The sets of samples that a run can have.
enum class DataPart : std::uint8_t { train, validation, test };
/// "train", "validation" or "test".
[[nodiscard]] std::string_view name_of(DataPart part);

/// How a configuration says that a model is spread.
struct WrittenMesh {
  static constexpr const char* expected = "a map of axes and their sizes";
  std::vector<MeshAxis> axes{{"data", -1}};
};
struct WrittenLayouts {
  static constexpr const char* expected =
      "a map of paths to layouts, such as {d1/kernel: [~, model]}";
  struct Entry {
    TensorLayout layout;
    ConfigNode key;
  };
  std::vector<Entry> entries;
};
struct WrittenPlaces {
  static constexpr const char* expected =
      "auto, or a map of layers and blocks to coordinates, such as {decoder/.*: {stage: 1}}";
  struct Entry {
    std::vector<PlacedAt> places;
    ConfigNode key;
  };
  std::vector<Entry> entries;
  bool balanced = false;  // auto: over the axis of the pipeline
};
struct WrittenBatchAxis {
  static constexpr const char* expected = "an axis of the mesh, or ~";
  std::optional<std::string> name;  // as DistributionOptions has it
};
struct WrittenSpread {
  WrittenMesh mesh;
  SharedStrategy strategy;
  WrittenLayouts layout;
  WrittenPlaces place;
  DistributionOptions distribution;
};
void from_config(const ConfigNode& node, WrittenMesh& mesh);
void from_config(const ConfigNode& node, WrittenLayouts& layouts);
void from_config(const ConfigNode& node, WrittenPlaces& places);
void from_config(const ConfigNode& node, WrittenBatchAxis& axis);
[[nodiscard]] std::string to_text(const WrittenMesh& mesh);
[[nodiscard]] std::string to_text(const WrittenLayouts& layouts);
[[nodiscard]] std::string to_text(const WrittenPlaces& places);
[[nodiscard]] std::string to_text(const WrittenBatchAxis& axis);

template <class Visitor>
void describe(WrittenSpread& spread, Visitor& option) {
  option("mesh", spread.mesh, "axes of ranks and their sizes; -1: all remaining ranks");
  option("distribution", spread.strategy, "strategy for weights without an entry in `layout`");
  option("layout", spread.layout, "axes that split weights, outputs and inputs; ~: not split");
  option("place", spread.place,
         "coordinates on the mesh at which layers and blocks run; auto: pipeline stages of equal "
         "time");
  WrittenBatchAxis batch_axis{spread.distribution.batch_axis};
  option("batch_axis", batch_axis,
         "axis that splits batches; default: the first axis that places no layers; ~: none");
  spread.distribution.batch_axis = batch_axis.name;
  describe(spread.distribution, option);
}

/// What `fit` is fed.
struct TrainingData {
  std::shared_ptr<const Source> training;
  std::shared_ptr<const Source> validation;  // null if there is none
};

/// How sets of samples are opened.
struct Opening {
  /// Of the training data, if they are known.
  const std::vector<Categories>* categories = nullptr;
  /// Where a plan is all that is wanted: takes a warning of each set whose files are not here,
  /// which is then what the model and its losses expect (stated.h). Null: such a set is an error.
  std::vector<std::string>* missing = nullptr;
};

class RunConfig {
 public:
  /// Reads `document`, of the classes in `catalog` and in the extensions that it lists.
  RunConfig(const ConfigNode& document, Catalog catalog);

  [[nodiscard]] const ConfigNode& document() const { return document_; }
  /// The shared libraries of extensions, whoever named them.
  [[nodiscard]] const std::set<std::string>& extensions() const { return extensions_; }
  [[nodiscard]] const ModelOptions& options() const { return options_; }
  /// Of the layers, without loss and metrics.
  [[nodiscard]] const Graph& graph() const { return *graph_; }
  [[nodiscard]] std::int64_t batch_size() const { return fit_.batch_size; }
  /// Of batches that are not trained on.
  [[nodiscard]] std::int64_t evaluation_batch_size() const;
  [[nodiscard]] std::uint64_t seed() const { return options_.seed; }
  [[nodiscard]] bool has(DataPart part) const { return written(part) != nullptr; }
  /// Whether the samples of `part`, which it has, have weights.
  [[nodiscard]] bool weighs_samples(DataPart part) const {
    return node_of(part).find("sample_weights").has_value();
  }
  /// Whether there is a loss, which all but prediction needs.
  [[nodiscard]] bool has_loss() const { return compile_.has_loss(); }
  /// Without a loss there is nothing in it.
  [[nodiscard]] const CompileOptions& compile_options() const { return compile_; }

  /// What ranks do; empty: all train.
  [[nodiscard]] const WrittenRoles& roles() const { return roles_; }
  /// The same run on ranks that are by themselves: nothing of it is spread as it is written, and each
  /// batch is split over all of them.
  [[nodiscard]] RunConfig by_itself() const;

  /// The axes as they are written.
  [[nodiscard]] const std::vector<MeshAxis>& mesh_axes() const { return spread_.mesh.axes; }
  /// How many ranks the mesh has if none is left for an axis of -1: that is taken as 1.
  [[nodiscard]] std::int64_t least_ranks() const;
  /// The shape of the mesh for `ranks` ranks.
  [[nodiscard]] MeshShape mesh_shape(std::int64_t ranks) const;
  /// The mesh of all ranks of the job. Collective.
  [[nodiscard]] DeviceMesh mesh() const;
  [[nodiscard]] LayoutMap layouts(const MeshShape& mesh) const;
  [[nodiscard]] PlaceMap places(const MeshShape& mesh) const;
  [[nodiscard]] std::optional<Axis> batch_axis(const MeshShape& mesh) const;

  /// Opens a set of samples, which has to be there, with the categories of the training data if
  /// they are known.
  [[nodiscard]] std::shared_ptr<const Source> open(DataPart part,
                                                   const Opening& opening = {}) const;
  /// Opens `train`, and `validation` or what `validation_split` takes off the first.
  [[nodiscard]] TrainingData open_training() const;
  /// The same, of which what cannot be opened is null and its error kept.
  [[nodiscard]] TrainingData open_training(ConfigErrors& errors, const Opening& opening = {}) const;
  /// Checks that `source`, which is `part`, has what the model takes and its loss compares with.
  void check_shapes(const Source& source, DataPart part, Mode mode) const;
  /// The same, and that there are rows enough for a batch, and for every rank of `mesh` in it.
  /// Reads no samples.
  void check_data(const Source& source, DataPart part, const MeshShape& mesh, Mode mode) const;
  /// Checks the samples themselves, as far as it can be done beforehand: unpacks what is packed,
  /// and looks at every class number. The ranks share the work. Collective over `communicator`;
  /// what is wrong for one rank is thrown on all. Throws `Stopped` on all if one of them is asked
  /// to stop by `stop_request`, which may be null.
  void check_samples(const std::shared_ptr<const Source>& source, DataPart part, Mode mode,
                     const Communicator& communicator,
                     const StopRequest* stop_request = nullptr) const;

  /// Checks the callbacks and what checkpoints are the best against the logs that training on
  /// `source` will have, and that checkpoints can be where they are to be. For the root alone: it
  /// looks at files.
  void check_callbacks(const Source& source, bool validated) const;

  /// The run's model on `mesh`, nothing of which needs to be there.
  [[nodiscard]] Blueprint blueprint(const MeshShape& mesh) const;
  /// Plans for batches of `rows` of `source`. If training is validated on data with weights, its
  /// losses take weights; `validation` may be null.
  const Plan& plan(Blueprint& blueprint, const Source& source, std::int64_t rows, Mode mode,
                   const Source* validation = nullptr) const;
  [[nodiscard]] PlanReport report(const Plan& plan, const Source& source, std::int64_t rows,
                                  Mode mode, std::int64_t rank) const;

  /// The model on `mesh`, compiled if there is a loss. Collective; `mesh` must outlive it.
  [[nodiscard]] Model make_model(DeviceMesh& mesh) const;
  /// The same of a blueprint for the shape of `mesh`, with what was planned of it.
  [[nodiscard]] Model make_model(DeviceMesh& mesh, Blueprint blueprint) const;
  /// All that `fit` takes but the data.
  [[nodiscard]] const FitOptions& fit_options() const { return fit_; }

 private:
  void read_outputs(const ConfigurationSections& sections, const Catalog& catalog);
  void read_data(const ConfigNode& node, const Catalog& catalog);
  void read_fit(const ConfigNode& node, const Catalog& catalog);
  void take_checkpoints();
  /// Null if there is none.
  [[nodiscard]] const SharedWrittenSource& written(DataPart part) const;
  [[nodiscard]] ConfigNode node_of(DataPart part) const;
  /// `source` with vectors for the class numbers of targets, where losses take such.
  [[nodiscard]] std::shared_ptr<const Source> one_hot(std::shared_ptr<const Source> source,
                                                      DataPart part) const;
  /// What the model and its losses expect of `part`.
  [[nodiscard]] std::shared_ptr<const Source> stated(DataPart part) const;
  /// By their names, of a model that has several outputs: those with a loss, if some have one. Else
  /// none.
  [[nodiscard]] std::vector<std::string> compared_outputs() const;
  /// The names of inputs and targets that are numbers of rows or classes (SourceContext::exact).
  [[nodiscard]] std::vector<std::string> exact_fields() const;
  /// What losses are given of `source`; none for prediction.
  [[nodiscard]] std::optional<LossData> loss_data(const Source& source, Mode mode,
                                                  const Source* validation = nullptr) const;
  /// `part` is what mistakes are looked for in.
  [[nodiscard]] Objective objective(const Source& source, Mode mode,
                                    DataPart part = DataPart::train) const;

  std::set<std::string> extensions_;
  ConfigNode document_;
  ModelOptions options_;
  WrittenSpread spread_;
  WrittenRoles roles_;
  SharedWrittenSource parts_[3];  // by DataPart
  bool cache_ = false;
  bool one_hot_ = false;
  std::optional<ConfiguredModel> model_;
  std::shared_ptr<const Graph> graph_;
  std::vector<WrittenOutput> outputs_;  // of the model
  CompileOptions compile_;              // without a loss: not at all
  FitOptions fit_;
  std::vector<ConfigNode> callback_nodes_;     // by callback
  std::optional<ConfigNode> checkpoint_node_;  // that says of checkpoints
};

}  // namespace meshwork
