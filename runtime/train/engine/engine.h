// Engine: the compiled steps of one model on one rank.
//
// It owns what a plan becomes when it meets a device: the parameters, and one program for each mode
// and number of rows that is asked for (full batches, the short last batch, validation). Programs
// share one arena, since they never run at once. All ranks of the mesh ask for the same steps in
// the same order; when a step is made, the ranks compare what it is going to send and stop with the
// difference if they disagree, so that a job fails at the start instead of hanging.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collectives/counting.h"
#include "runtime/device/device.h"
#include "runtime/device/kernels/precision.h"
#include "runtime/device/kernels/step_scalars.h"
#include "runtime/graph/lower.h"
#include "runtime/graph/parameters.h"
#include "runtime/graph/plan.h"
#include "runtime/graph/plan_report.h"
#include "runtime/graph/sequences.h"
#include "runtime/mesh/mesh_collectives.h"
#include "runtime/train/engine/feed_ring.h"

namespace meshwork {

class KernelChooser;
class StopRequest;

/// A value that is infinite or no number, and where this rank has seen it after a step.
struct NotFinite {
  std::int64_t order = 0;  // in the step, the same on all ranks: what was fed, then as it went on
  std::string where;       // "the output of conv_2, where element 17 of this rank's block is nan"
};

/// One compiled step. `feed` everything, then `run`, then read `sums` or `predictions`.
class Step {
 public:
  Step(const LoweringRequest& request, DeviceMesh& mesh, Transport& transport, Device& device,
       ArenaPool& pool, StepScalars* scalars, CollectiveTrace* trace, CountingTransport* counting,
       KernelChooser* chooser, const StopRequest* stop_request);

  [[nodiscard]] std::int64_t rows() const { return rows_; }
  /// This rank's parts of inputs and targets, micro-batch by micro-batch.
  [[nodiscard]] const std::vector<FedPart>& fed_parts() const { return parts_; }
  /// Hands part `part` of them, in its fed type, to the device. `host` is free again when it
  /// returns.
  void feed(std::size_t part, const void* host);
  /// Instead, of a step that gathers: where the rows of each fed tensor begin on the device, in the
  /// order of the tensors, and which of them each row of the global batch is. Both are free again
  /// when it returns.
  void feed_rows(std::span<const void* const> tables, std::span<const std::int64_t> samples);
  /// Runs the step. Every rank of the mesh does. The device may still work on it when this returns;
  /// what is read waits for it. Where its transport counts, what was sent must be
  /// what was planned: if it is not, the error tells the differences.
  void run(const StepScalars& scalars);
  /// After a run: the sums over the global batch of the losses and metrics, in the order of the
  /// graph's operations, then the penalty if the model has one, then the squared norm of all
  /// gradients if the update reports it. Equal on all ranks.
  [[nodiscard]] std::span<const double> sums();
  /// Starts to copy the same, in the device's queue of kernels, to pinned memory.
  void start_sums(std::span<double> pinned);
  [[nodiscard]] bool has_penalty() const { return lowered_.has_penalty; }
  [[nodiscard]] bool has_gradient_norm() const { return lowered_.has_gradient_norm; }
  [[nodiscard]] const std::vector<TensorId>& sum_tensors() const { return lowered_.sum_tensors; }
  /// After a run of Mode::predict: the model's outputs, whole, on every rank.
  [[nodiscard]] std::vector<std::vector<float>> predictions();

  /// After a run, and before any other of the engine's: the first value that is not finite among
  /// those that are still there: what was fed, and the outputs and gradients of operations on which
  /// no later ones lie. It looks at all of them, so it is for a run that ends. This rank alone.
  [[nodiscard]] std::optional<NotFinite> first_not_finite() const;

  [[nodiscard]] const std::vector<CollectiveRecord>& collectives() const {
    return collectives_->records();
  }
  [[nodiscard]] const Program& program() const { return program_; }
  /// From now on runs are measured, all anew.
  void measure() { program_.measure(); }
  void stop_measuring() { program_.stop_measuring(); }
  void release_captured() { program_.release_captured(); }

 private:
  /// Inputs and targets that come as float32, and can be searched for what is not finite.
  struct FedFloats {
    std::size_t part;
    std::string name;
    std::int64_t table;         // which one it is, of a step that gathers
    Range rows;                 // of the global batch, this rank's
    std::int64_t row_elements;  // of this rank's block
  };
  /// This rank's block of what was fed last.
  [[nodiscard]] std::vector<float> fed_values(const FedFloats& fed) const;

  Device* device_;
  FeedRing scalars_;  // but for a step that gathers
  std::int64_t rows_;
  std::unique_ptr<MeshCollectives> collectives_;
  std::vector<FedPart> parts_;
  std::vector<Memory> feeds_;         // of the parts, but for a step that gathers
  std::vector<FeedRing> feed_rings_;  // likewise
  // Of a step that gathers: StepScalars, then LoweringRequest::gathered_rows, in one copy.
  Memory gathered_;
  FeedRing gathered_ring_;
  std::vector<std::int64_t> gathered_on_host_;
  std::vector<FedFloats> fed_floats_;
  LoweredStep lowered_;
  std::vector<std::int64_t> output_counts_;  // elements of each output, in Mode::predict
  Program program_;
  std::vector<double> sums_;
  CountingTransport* counting_;  // null: nobody counts
  std::string name_;             // for messages
  std::vector<Traffic> planned_;
};

class Engine {
 public:
  /// Makes the parameters. Every rank of the mesh calls it. Throws `Error` on all if they disagree
  /// about how variables are kept. Everything handed in by reference must outlive the engine, and
  /// so must `trace`, if there is one, in which steps say what they do. If `transport` counts,
  /// `counting` is the same object, and every step is held against its plan. If there is a
  /// `chooser`, it chooses the kernels of each step.
  Engine(DeviceMesh& mesh, Device& device, Transport& transport, Plan plan, std::uint64_t seed,
         UpdateRule update, CollectiveTrace* trace = nullptr, CountingTransport* counting = nullptr,
         Precision precision = Precision::float32, KernelChooser* chooser = nullptr);

  /// What a step is for.
  struct StepKey {
    Mode mode = Mode::train;
    std::int64_t rows = 0;  // of a global batch
    /// The types in which inputs and targets arrive; float32 where absent.
    std::map<TensorId, ElementType> fed = {};
    bool gathers = false;  // its rows from tables on the device, on all ranks
    StepWalk walk = {};    // of Mode::train
    /// Of Mode::predict: positions of pieces of sequences (sequences.h); 0: whole ones. What is kept
    /// of them, steps of as many rows share.
    std::int64_t positions = 0;
    auto operator<=>(const StepKey&) const = default;
  };
  /// The step for `key`, made if it is asked for for the first time, by all ranks together. Throws
  /// `Error` if the ranks disagree about its collectives.
  /// Where kernels are timed for it, asking `stop_request` on any rank ends that: throws `Stopped`.
  [[nodiscard]] Step& step(const StepKey& key, const StopRequest* stop_request = nullptr);

  /// Drops the steps, to be made anew: other kernels have been chosen. Who has one lets it go. What
  /// was kept of pieces goes too.
  void forget_steps() {
    steps_.clear();
    kept_.clear();
  }
  /// Gives back what steps have captured.
  void release_captured() {
    for (auto& [key, step] : steps_) {
      if (step != nullptr) step->release_captured();  // null: it could not be made
    }
  }

  [[nodiscard]] const Plan& plan() const { return plan_; }
  /// How the model can be run on pieces of sequences.
  [[nodiscard]] const Sequences& sequences();
  [[nodiscard]] Parameters& parameters() { return parameters_; }
  [[nodiscard]] Device& device() { return *device_; }

  /// Waits for the sharers of all groups (parameter_form.h). To be called, by every rank of the
  /// mesh, before any are written between steps, unless all have agreed about something since the
  /// last step: others may still be reading.
  void meet();

  /// A variable, or a slot of it, whole (row-major), on every rank or on `root` alone, where it is
  /// nothing elsewhere. Every rank of the mesh calls it. It takes memory for the variable once.
  [[nodiscard]] std::vector<float> gather(int variable, int slot = its_value,
                                          std::optional<int> root = {});
  /// Sets it from its whole value, which every rank has. Every rank of the mesh calls it.
  void set(int variable, std::span<const float> whole, int slot = its_value);

 private:
  DeviceMesh* mesh_;
  Device* device_;
  Transport* transport_;
  CollectiveTrace* trace_;
  CountingTransport* counting_;
  Plan plan_;
  std::uint64_t seed_;
  Precision precision_;
  KernelChooser* chooser_;
  UpdateRule update_;
  Parameters parameters_;
  ArenaPool pool_;
  Memory scalars_;
  std::optional<Sequences> sequences_;  // once somebody has asked
  /// By rows and name. Steps have the addresses.
  std::map<std::pair<std::int64_t, std::string>, Memory> kept_;
  std::map<StepKey, std::unique_ptr<Step>> steps_;
};

}  // namespace meshwork
