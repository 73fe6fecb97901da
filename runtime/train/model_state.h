// What a Model is made of, shared by the files that implement it: model.cpp, fit.cpp,
// evaluation.cpp.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "collectives/counting.h"
#include "collectives/transport.h"
#include "collectives/watchdog.h"
#include "runtime/data/array.h"
#include "runtime/data/batches.h"
#include "runtime/device/kernels/step_scalars.h"
#include "runtime/train/engine/kernel_choice.h"
#include "runtime/train/engine/resident_data.h"
#include "runtime/train/loop/joint_rows.h"
#include "runtime/train/loop/means.h"
#include "runtime/train/loop/step_agreement.h"
#include "runtime/train/model.h"
#include "runtime/train/reporting/profile.h"
#include "runtime/train/state/keras_places.h"

namespace meshwork {

struct UserBatches;

/// Its blueprint, and what computes it.
struct Model::State : Blueprint {
  State(Blueprint blueprint, DeviceMesh& over) : Blueprint(std::move(blueprint)), mesh_(&over) {}

  std::shared_ptr<const std::string> words;  // for this model, which its layers share
  KerasModel keras_model = KerasModel::functional;
  std::unique_ptr<Device> device;
  std::unique_ptr<Transport> transport;
  std::string transport_remark, device_remark;  // that were said
  std::unique_ptr<CountingTransport> counting;  // null: sends are not counted
  std::unique_ptr<Watchdog> watchdog;           // whose trace the engine writes
  std::unique_ptr<KernelChooser> chooser;       // null: kernels are fixed
  std::optional<std::int64_t> limit;            // of bytes that the engine's plan was drawn for
  Objective objective;  // the graph with loss and metrics, once targets are known
  std::unique_ptr<Engine> engine;
  /// By rows, and whether they have weights, and whether ranks have rows of their own.
  std::map<std::tuple<Mode, std::int64_t, bool, bool>, std::unique_ptr<UserBatches>> user_batches;
  /// Of steps on rows that each rank has: values of a row by field, once they are known, and
  /// counts.
  std::vector<std::int64_t> row_elements;
  JointCounts row_counts;
  TracePoint counting_rows;
  /// By rows of a piece: how many positions of its sequences these weights have seen.
  std::map<std::int64_t, std::int64_t> pieces_seen;
  std::unique_ptr<StepProfile> profile;  // of the fit that goes on, if it is profiled
  bool has_slots = false;  // whether the engine's slots are those of the compiled optimizer
  std::int64_t iteration = 0;
  bool told_output = false;          // that predictions are of the first output of several
  bool fitting = false;              // inside fit, whose steps belong to the engine
  std::atomic<bool> in_step{false};  // as long as there is an `InStep`

  [[nodiscard]] DeviceMesh& mesh() const { return *mesh_; }
  [[nodiscard]] bool is_root() const { return mesh().rank() == 0; }
  [[nodiscard]] bool logs_gradient_norm() const { return compiled && compiled->gradient_norm; }
  /// Prints a line, from rank 0.
  void say(const std::string& line) const;
  std::function<void()> make_room;  // for such a line, while something else is on the screen
  /// Prints what transport and device remark, unless it was said.
  void say_remarks();

  /// Where an error leaves a call, what the device has under way other ranks may never join. That
  /// is ended before memory is given back, which would wait for it: so who holds memory of the
  /// device in a call has one of these behind it.
  class [[nodiscard]] Call {
   public:
    explicit Call(State& model) : model_(model), errors_before_(std::uncaught_exceptions()) {}
    ~Call() {
      if (std::uncaught_exceptions() > errors_before_) model_.break_off();
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    State& model_;
    int errors_before_;
  };
  /// The model runs a step as long as it lives. A function that other ranks call
  /// (collectives/calls.h) may run meanwhile: in another thread, or without threads between two
  /// instructions.
  class [[nodiscard]] InStep {
   public:
    explicit InStep(State& model) : model_(model) {
      if (model_.in_step.exchange(true)) model_.refuse_in_step("a step");
    }
    ~InStep() { model_.in_step = false; }
    InStep(const InStep&) = delete;
    InStep& operator=(const InStep&) = delete;

   private:
    State& model_;
  };
  [[noreturn]] void refuse_in_step(const char* call) const;
  /// Every collective function begins with it. Throws `Error` in the middle of a step. Where calls
  /// are checked (device_mesh.h), ends on all ranks unless they make this call on this model, with
  /// the settings that `settings` gives.
  template <class GetSettings>
  Call begin_call(const char* call, GetSettings&& settings) {
    if (in_step) refuse_in_step(call);
    device->make_current();
    if (mesh().checks_calls()) compare_call(call, settings());
    if (std::string_view(call) != "predict_piece") pieces_seen.clear();
    return Call(*this);
  }
  void compare_call(const char* call, Settings settings) const;
  /// Ends what is under way on the device, if it does not end by itself.
  void break_off() noexcept;
  /// Ends on all ranks, which all call this, with what differs in `settings`, which are `what`.
  void compare(const Settings& settings, const std::string& what) const;
  /// Makes objective, plan and parameters for what the loss is given, if that was not done; `rows`
  /// is the batch length that the plan is made for. Parameters and slots that exist keep their
  /// values.
  void prepare(const std::optional<LossData>& data, std::int64_t rows);
  /// The same for what is not trained on, where weights of classes do not matter.
  void prepare_to_evaluate(std::optional<LossData> data, std::int64_t rows) {
    if (data) data->class_weight = objective.data.class_weight;
    prepare(data, rows);
  }
  /// Prepares for data that nobody has seen, if nothing else was done.
  void require_engine() {
    if (!engine) prepare(std::nullopt, 32);
  }
  /// Takes up what an earlier run had chosen by timing: kernels, if they are timed, and the
  /// transport. All ranks call it, while no steps are at work.
  void take_up_choices(const CheckpointState& earlier);

 private:
  DeviceMesh* mesh_;
};

/// A source joined to a model: what is read for which tensor, in which steps.
class FedSource {
 public:
  /// Checks that the source's features fit the model's inputs, and, but for predict, its targets
  /// and the weights of its samples the objective. `what` names the data in messages. With
  /// `DataOnDevice::automatic`, samples that will be read again and again are kept on the device,
  /// if they fit there: the source must not change.
  FedSource(Model::State& model, Mode mode, std::shared_ptr<const Source> source,
            std::int64_t batch_size, const std::string& what,
            DataOnDevice on_device = DataOnDevice::never, StepWalk walk = {},
            std::vector<SharedMixing> augment = {});

  /// Compiles the steps for every number of rows that batches have, before the first run. Every
  /// rank calls it. Throws `Stopped` where it is asked to stop while kernels are timed.
  void make_steps(const StopRequest* stop_request = nullptr);
  /// Reads batches in order, or shuffled by the model's seed.
  [[nodiscard]] std::unique_ptr<Feeder> feeder(bool shuffle, BatchPosition start,
                                               std::int64_t epochs, bool prefetch) const;
  /// Hands a batch, or which samples it is made of, to the step that takes it, and runs it.
  Step& run(const HostBatch& batch, const StepScalars& scalars);

  /// By field of the source: the rows of a full batch that this rank reads.
  [[nodiscard]] std::vector<Range> rows_read() const;
  [[nodiscard]] std::int64_t rows() const { return source_->rows(); }
  [[nodiscard]] std::int64_t batches() const { return batch_count(source_->rows(), batch_size_); }

 private:
  void add_blocks();

  Model::State* model_;
  Mode mode_;
  std::shared_ptr<const Source> source_;
  std::int64_t batch_size_;
  StepWalk walk_;
  std::vector<SharedMixing> augment_;
  std::map<TensorId, ElementType> fed_;
  std::vector<TensorId> tensors_;     // by field of the source
  std::vector<Step*> steps_;          // by row count
  std::vector<FeedField> fields_;     // by tensor, again for each micro-batch
  std::vector<std::size_t> part_of_;  // by field: which part of what steps are fed
  ResidentData resident_;
  std::vector<const void*> tables_;  // of it, in the order of the tensors
};

/// What steps on batches of the user's run on, kept for all of as many rows: only the values that
/// the source borrows change.
struct UserBatches {
  UserBatches(Model::State& model, Mode mode, const std::shared_ptr<const Source>& batch)
      : fed(model, mode, batch, batch->rows(), "the batch") {
    if (mode != Mode::predict) {
      means.emplace(*model.device, model.objective, "",
                    mode == Mode::train && model.logs_gradient_norm());
    }
    fed.make_steps();
  }
  /// The batch that its source has now.
  [[nodiscard]] const HostBatch& next() {
    if (!feeder) feeder = fed.feeder(false, {}, -1, false);
    return *feeder->next();
  }

  FedSource fed;
  std::shared_ptr<ArraySource> whole;  // the source, which every rank has whole,
  std::shared_ptr<JointRows> joint;    // or of which each has some rows
  std::unique_ptr<Feeder> feeder;
  std::optional<RunningMeans> means;  // of what has a loss
};

/// The index of the variable `path`. Throws `Error`, with the nearest name, if there is none.
[[nodiscard]] int variable_index(const Graph& graph, const std::string& path);

/// Model::predict_step, inside of a call.
[[nodiscard]] std::vector<std::vector<float>> predict_step(Model::State& model,
                                                           const BatchView& batch);

/// Model::predict_piece and Model::obstacle_to_pieces, inside of a call.
[[nodiscard]] std::vector<std::vector<float>> predict_piece(Model::State& model,
                                                            const BatchView& piece,
                                                            std::int64_t position);
[[nodiscard]] std::string obstacle_to_pieces(Model::State& model);

/// Ends a pass over data when somebody asks to stop: on all ranks, after the same batch.
class BatchStops {
 public:
  /// `what` names the pass in the message. Without a request it does nothing.
  BatchStops(Model::State& model, const StopRequest* request, std::string what);
  /// All ranks call it after each batch of a pass of `batches`. Throws `Stopped`, but not after the
  /// last.
  void after_batch(std::int64_t batches);

 private:
  const StopRequest* request_;
  std::string what_;
  StepAgreement agreement_;
  std::int64_t batch_ = 0;
};

/// Runs `mode` evaluate over a source again and again.
class Evaluation {
 public:
  Evaluation(Model::State& model, std::shared_ptr<const Source> source, std::int64_t batch_size,
             bool prefetch, const std::string& prefix, const std::string& what,
             const StopRequest* stop_request = nullptr,
             DataOnDevice on_device = DataOnDevice::never);
  /// As FedSource's.
  void make_steps() { fed_.make_steps(stop_request_); }
  /// One pass over the data. `before` and `after` are called around each batch with its number.
  /// Throws `Stopped` where it is asked to stop.
  void run(const std::function<void(std::int64_t)>& before = {},
           const std::function<void(std::int64_t)>& after = {});
  /// Sets the means over the batches so far of the pass, or of the last one.
  void write(Logs& logs) { means_.write(logs); }
  [[nodiscard]] std::int64_t batches() const { return fed_.batches(); }

 private:
  Model::State* model_;
  std::string what_;
  const StopRequest* stop_request_;
  FedSource fed_;
  RunningMeans means_;
  std::unique_ptr<Feeder> feeder_;
  Model::State::Call leaving_;  // the last: it comes before memory is given back
};

}  // namespace meshwork
