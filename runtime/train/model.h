// Model: what a user trains. A graph of layers, spread over a mesh, with a loss and an optimizer.
//
//     Model model(images, output, ModelParallel(mesh, layouts, {.batch_axis = "data"}));
//     model.compile({.loss = SparseCategoricalCrossentropy({.from_logits = true}),
//                    .optimizer = Adam({.learning_rate = 1e-3}),
//                    .metrics = {SparseCategoricalAccuracy()}});
//     History history = model.fit(train, {.epochs = 3, .validation = test});
//
// Functions that say "Collective" are called by every rank of the mesh, in one order, with the same
// arguments. In debug builds and with the option `check_plan` each begins by comparing its name and
// its arguments on all ranks, and throws an `Error` on all that says which rank calls what;
// elsewhere a rank that calls one alone waits until the watchdog ends the job, or MPI does. The
// plan is made, and programs are compiled, when data is first seen: only then are batch size and
// targets known. Batch sizes are global. Numbers do not depend on the mesh, beyond rounding.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/checkpoint/options.h"
#include "runtime/config/byte_count.h"
#include "runtime/data/mixing.h"
#include "runtime/data/source.h"
#include "runtime/device/kernels/precision.h"
#include "runtime/graph/layer.h"
#include "runtime/graph/plan_report.h"
#include "runtime/train/blueprint.h"
#include "runtime/train/callbacks/callback.h"
#include "runtime/train/loop/epoch_evaluator.h"
#include "runtime/train/loop/stop_request.h"
#include "runtime/train/reporting/history.h"
#include "runtime/train/reporting/verbosity.h"
#include "runtime/train/state/weights.h"

namespace meshwork {

/// Which sets of samples are kept on the device.
enum class DataOnDevice : std::uint8_t { automatic, never };

struct FitOptions {
  std::int64_t epochs = 1;       // the index of the epoch before which training ends
  std::int64_t batch_size = 32;  // global
  std::shared_ptr<const Source> validation;
  /// Where other ranks evaluate each epoch (`evaluates_elsewhere`), rank 0 gets their values here. Null
  /// on all other ranks.
  std::shared_ptr<EpochEvaluator> evaluator = {};
  bool evaluates_elsewhere = false;
  Rpc* rpc = nullptr;              // for callbacks; it outlives the run; null: there is none
  const RoleMap* roles = nullptr;  // of its ranks; likewise
  double validation_split = 0;     // or: the last part of the training data
  std::optional<std::int64_t> validation_batch_size;  // none: batch_size
  /// In training the loss of a row is multiplied by the weight of its class, and by that of its
  /// sample where samples have weights (FieldRole::weight).
  ClassWeights class_weight;
  std::int64_t validation_freq = 1;  // in epochs
  bool shuffle = true;
  std::vector<SharedMixing> augment = {};  // mix the samples of each batch, one after the other
  std::int64_t initial_epoch = 0;
  std::optional<std::int64_t> steps_per_epoch;  // fewer steps than the data has
  bool drop_remainder = false;                  // leave out an epoch's last batch where it is short
  std::vector<SharedCallback> callbacks;
  Verbosity verbose = Verbosity::automatic;
  bool prefetch = true;
  /// Samples that are trained on in several epochs stay on a device that has memory of its own, if
  /// they fit there (resident_data.h).
  DataOnDevice data_on_device = DataOnDevice::automatic;
  /// What happened so far is saved here, and a run that was interrupted goes on from it.
  CheckpointOptions checkpoint;
  /// Say at the end where the time of the steps went (profile.h).
  bool profile = false;
  StepWalk walk;  // micro-batches, and what is recomputed
  /// Of a rank, in a training step. The plan is the fastest one that takes no more (plan_within).
  std::optional<ByteCount> memory;
  std::string configuration;  // text that checkpoints carry, and that is compared on going on
  /// Asks the run to save and to end early; null: nobody does. Must outlive the run.
  const StopRequest* stop_request = nullptr;
};

/// Steps of an epoch over so many samples.
[[nodiscard]] std::int64_t steps_of_epoch(const FitOptions& options, std::int64_t rows);

struct EvaluateOptions {
  std::int64_t batch_size = 32;
  bool prefetch = true;
  /// Ends the evaluation or prediction with a `Stopped` on all ranks; null: nobody does.
  const StopRequest* stop_request = nullptr;
};

/// A whole global batch in the host's memory, the same on every rank: row-major float32.
struct BatchView {
  std::int64_t rows = 0;
  std::vector<std::span<const float>> inputs;   // in the order of the model's inputs
  std::vector<std::span<const float>> targets;  // in the order of its outputs that have a loss
  std::span<const float> weights = {};  // of rows, by which their loss is multiplied; none: all 1
};

/// Row-major, in the host's memory. Doubles are rounded to float32.
using BatchValues = std::variant<std::span<const float>, std::span<const double>>;

/// The rows of a global batch that this rank has: some of its own, or none. The batch is those of all
/// ranks of the mesh, in their order. A rank without rows leaves the lists empty.
struct LocalBatch {
  std::int64_t rows = 0;
  std::vector<BatchValues> inputs;   // as BatchView has them
  std::vector<BatchValues> targets;  // likewise
  BatchValues weights = {};
};

class Model {
 public:
  /// Collective. Throws `Error` for graphs that are none, for layouts that do not fit the model's
  /// variables and outputs, for keys of the map that match nothing, and for layers with variables
  /// that another model has, which would not share them. When that one is gone, or for layers
  /// without variables, all is well.
  Model(std::vector<SymbolicTensor> inputs, std::vector<SymbolicTensor> outputs,
        Distribution distribution, ModelOptions options = {});
  Model(const SymbolicTensor& input, const SymbolicTensor& output, Distribution distribution,
        ModelOptions options = {});
  /// A model written as a class: `block` called on an input of samples of `shape`. Paths begin with
  /// the block's sub-layers, not with its own name. Collective.
  Model(Shape shape, const std::shared_ptr<LayerBlock>& block, Distribution distribution,
        ModelOptions options = {});
  /// The model of `blueprint` on `mesh`, which has the shape that it is for. Collective.
  Model(Blueprint blueprint, DeviceMesh& mesh);
  /// Collective.
  ~Model();
  Model(Model&&) noexcept;

  /// Sets losses, optimizer and metrics. Throws `Error` as training_of_outputs does. Collective.
  void compile(CompileOptions options);

  /// Gives layers that adapt, such as Normalization, the statistics of `data`. To be called before
  /// the first step, unless they are loaded. Collective; throws the same `Error` on all ranks.
  void adapt(const std::shared_ptr<const Source>& data);

  /// Trains. Returns the logs of every epoch. Collective.
  History fit(std::shared_ptr<const Source> training, FitOptions options);
  /// The loss, of several outputs each loss, then the metrics, over all samples. Collective.
  [[nodiscard]] Logs evaluate(std::shared_ptr<const Source> data, EvaluateOptions options = {});
  /// The first output for every sample, row-major, on every rank; of a model with several outputs
  /// rank 0 says once which one that is. Collective.
  [[nodiscard]] std::vector<float> predict(std::shared_ptr<const Source> data,
                                           EvaluateOptions options = {});
  /// What `predict` hands over of a batch: the index of its first row and, for each output of the
  /// model, its rows.
  using ReceivePredictions =
      std::function<void(std::int64_t first_row, std::span<const std::vector<float>> outputs)>;
  /// All outputs, batch by batch. Collective.
  void predict(std::shared_ptr<const Source> data, const ReceivePredictions& receive,
               EvaluateOptions options = {});

  /// One update on a batch of the user's; gives the loss and the metrics of this batch.
  /// Collective.
  Logs train_step(const BatchView& batch);
  /// The loss and the metrics of a batch, without an update. Collective.
  [[nodiscard]] Logs evaluate_step(const BatchView& batch);
  /// All outputs for a batch, on every rank; its targets and weights are not looked at. Collective.
  [[nodiscard]] std::vector<std::vector<float>> predict_step(const BatchView& batch);

  /// The same of a batch whose rows the ranks have, each its own; predictions are those of its rows.
  /// Rows that are not where the layouts want them travel before the step (loop/joint_rows.h). Steps
  /// are compiled, and kept, for each number of rows that the ranks have together. Collective.
  Logs train_local_step(const LocalBatch& batch);
  [[nodiscard]] Logs evaluate_local_step(const LocalBatch& batch);
  [[nodiscard]] std::vector<std::vector<float>> predict_local_step(const LocalBatch& batch);

  /// All outputs at some positions of sequences (graph/sequences.h): inputs (rows, positions, ...) are
  /// those from `position` on. What is before them was given in earlier calls of as many rows, with no
  /// other call between, and is not seen again. Throws `Error` where there is an obstacle, and for
  /// positions that no sequence has, or before which some are missing. Collective.
  [[nodiscard]] std::vector<std::vector<float>> predict_piece(const BatchView& piece,
                                                              std::int64_t position);
  /// What keeps the model from that, in words; "" if nothing does. Collective.
  [[nodiscard]] std::string obstacle_to_pieces();

  [[nodiscard]] const Graph& graph() const;
  /// The shape of a sample of each output.
  [[nodiscard]] std::vector<Shape> output_shapes() const;
  /// On what this rank computes, in words.
  [[nodiscard]] std::string device_description() const;
  /// Updates so far.
  [[nodiscard]] std::int64_t iteration() const;
  [[nodiscard]] Optimizer& optimizer();

  /// Makes the plan for global batches of `rows` of `data` (if that was not done before) and
  /// reports it for this rank. All but prediction need a loss and targets. Collective.
  [[nodiscard]] PlanReport plan(const std::shared_ptr<const Source>& data, std::int64_t rows,
                                Mode mode = Mode::train);

  /// The variable called `path`, whole, on every rank. Collective.
  [[nodiscard]] std::vector<float> variable(const std::string& path);
  /// Sets it to the same values on every rank. Collective.
  void set_variable(const std::string& path, std::span<const float> values);

  /// Writes all variables to `file`: with a name that ends with `.weights.h5` as Keras does, with
  /// any other `.h5` as a checkpoint (weights.h). Collective. Throws the same `Error` on all ranks.
  void save_weights(const std::filesystem::path& file, SaveWeightsOptions options = {});
  /// Sets all variables from a checkpoint, the newest one in a directory, or a file of Keras.
  /// Collective. Throws the same `Error` on all ranks: for what is no such file, or of another
  /// model, in which case the model is as it was; and for damage, after which its variables hold
  /// anything.
  LoadedWeights load_weights(const std::filesystem::path& path, LoadWeightsOptions options = {});

  struct State;  // model_state.h

 private:
  Model(std::shared_ptr<const Graph> graph, const Distribution& distribution, ModelOptions options);

  std::unique_ptr<State> state_;
};

}  // namespace meshwork
