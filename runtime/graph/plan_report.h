// The plan as people and programs read it: every variable and output with its layout, every
// collective with its bytes, and the memory a rank needs.
//
// A report is made for one rank by lowering the plan without a device (lower.h), so that it shows
// exactly what a run would do; the mesh need not be there.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/device/kernels/precision.h"
#include "runtime/graph/lower.h"

namespace meshwork {

struct ReportedTensor {
  std::string path;
  Shape shape;  // global
  Layout layout;
  std::string reason;      // "key d1/kernel (configs/mnist.yaml:7:3)", "replicated", "by rule"
  Block block;             // of this rank
  std::int64_t bytes = 0;  // of the block
  std::int64_t empty_ranks = 0;  // how many blocks of its layout hold nothing
};

/// A collective that belongs to a run, but to no step of it.
struct CollectiveBetweenSteps {
  std::string when;  // "about every 0.5 s"
  std::string collective;
  ElementType type = ElementType::float64;
  std::int64_t elements = 0;
  std::int64_t bytes_sent = 0;  // by this rank, each time
  std::string what;
};

struct PlanReport {
  MeshShape mesh;
  std::int64_t rank = 0;
  std::int64_t rows = 0;  // of the global batch
  std::int64_t micro_batches = 1;
  Mode mode = Mode::train;
  CostModel costs;
  std::vector<ReportedTensor> variables;
  std::vector<ReportedTensor> outputs;
  std::vector<CollectiveRecord> collectives;
  std::vector<CollectiveBetweenSteps> between_steps;  // left to whoever makes runs of steps
  /// Of a step, all micro-batches, on the ranks that take longest. Stages that wait for each other are
  /// not counted.
  StepSeconds seconds;
  // Where the model has stages.
  struct Pipeline {
    std::string axis, schedule;
    std::int64_t chunks = 1;            // stages of a rank
    std::int64_t held = 0;              // micro-batches that they hold at once
    double seconds = 0;                 // of a step, as predicted of the stages' seconds
    double idle = 0;                    // the share of it in which a rank waits, on average
    Actions actions;                    // by coordinate of the axis
    std::vector<double> stage_seconds;  // by stage, of a micro-batch, as timeline_of takes them
  };
  std::optional<Pipeline> pipeline;
  double flops = 0;  // of a step's kernels on this rank
  /// A step that recomputes nothing, where this one does.
  struct WithoutRecomputing {
    double flops = 0;
    std::int64_t arena_bytes = 0;
  };
  std::optional<WithoutRecomputing> without_recomputing;
  // Bytes on this rank.
  std::int64_t parameter_bytes = 0;
  std::int64_t narrow_copy_bytes = 0;
  std::int64_t gradient_bytes = 0;
  std::int64_t slot_bytes = 0;
  std::int64_t batch_bytes = 0;
  std::int64_t arena_bytes = 0;
  std::int64_t arena_bytes_if_unshared = 0;
  /// Of Mode::predict: keys, values and what else steps on pieces of sequences keep (sequences.h), of
  /// whatever length. Not in the peak, which is that of whole sequences.
  std::int64_t kept_bytes = 0;
  std::vector<ReportedTensor> fed;  // inputs and targets, with the bytes of what is read
  std::optional<PlanWithoutLimit> without_limit;
  std::vector<CutChoice> cut;  // where the planner did not weigh everything
  Precision precision = Precision::float32;
  DeviceTraits device;
  std::int64_t ahead_bytes = 0;  // of batches on their way; left to whoever makes runs of steps
  [[nodiscard]] std::int64_t peak_bytes() const {
    return parameter_bytes + narrow_copy_bytes + gradient_bytes + slot_bytes + batch_bytes +
           ahead_bytes + arena_bytes;
  }
};

/// The report for rank `rank` of the plan's mesh and batches of `rows`, on a device of these
/// traits. A step that recomputes is compared with one that does not, which lowers both on ranks of
/// each part of the model, unless `compares` is false.
[[nodiscard]] PlanReport report_plan(const Plan& plan, Mode mode, std::int64_t rows,
                                     std::int64_t rank, const UpdateRule& update,
                                     const std::map<TensorId, ElementType>& fed,
                                     Precision precision = Precision::float32,
                                     const DeviceTraits& device = {}, const StepWalk& walk = {},
                                     bool compares = true);

/// Tables for a terminal of `width` columns; 0: as wide as they are.
[[nodiscard]] std::string to_text(const PlanReport& report, std::size_t width = 0);
/// "a step is predicted to take 7.74 ms, of which a rank is idle for 28 %".
[[nodiscard]] std::string to_text(const PlanReport::Pipeline& pipeline);
/// One JSON object with everything that the tables show.
[[nodiscard]] std::string to_json(const PlanReport& report);

/// "1.2 MiB", "640 B".
[[nodiscard]] std::string readable_bytes(std::int64_t bytes);

}  // namespace meshwork
