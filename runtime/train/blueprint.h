// Blueprint: a model as it is going to be, apart from the ranks that compute it: the graph of its
// layers, what of it is laid how on a mesh, its options, and the loss, optimizer and metrics that
// it is compiled with. RunConfig makes one of a file, Model of what it is handed; `meshwork plan`
// shows the plan that follows, and a model takes up the one that was made already.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/config/byte_count.h"
#include "runtime/data/source.h"
#include "runtime/graph/plan.h"
#include "runtime/graph/plan_report.h"
#include "runtime/train/distribution.h"
#include "runtime/train/losses/loss.h"
#include "runtime/train/objective.h"
#include "runtime/train/optimizers/optimizer.h"
#include "runtime/train/optimizers/rmsprop.h"
#include "runtime/train/transport_choice.h"

namespace meshwork {

struct ModelOptions {
  std::uint64_t seed = 0;                // of initial weights, dropout and the order of samples
  std::string device = "auto";           // auto, cpu, cuda, or one that was added (device.h)
  TransportChoice collectives = "auto";  // by name, or of one's own
  /// Of products and convolutions; everything else is float32 (kernels/precision.h).
  Precision precision = Precision::float32;
  /// Which of several kernels computes a product or a convolution (kernel_choice.h): "fixed", by
  /// rules; "timed", the fastest as the model is made; or a file, in which what was timed is kept
  /// and found again.
  std::string kernels = "fixed";
  /// How long a rank may wait for another inside one collective; then the job ends and says for
  /// whom it waited (watchdog.h). 0: for ever.
  double watchdog_seconds = 1800;
  /// Variables that are not trained, by path or by regular expression, as keys of layouts are
  /// (path_pattern.h).
  std::vector<std::string> frozen = {};
  /// Count what every step sends, and end the run where it is not what the plan says; and compare
  /// the collective calls of all ranks on the model's mesh, and what they are given.
  bool check_plan = false;
};

struct CompileOptions {
  SharedLoss loss;  // of the only output
  Optimizer optimizer = RMSprop();
  std::vector<SharedMetric> metrics;  // of the only output
  /// Of a model with several outputs, by their names (output_name), in place of loss and metrics.
  std::map<std::string, OutputTraining> outputs = {};
  /// Training logs gradient_norm: the norm of all gradients together, with those of penalties,
  /// before they are clipped. Ranks that share memory then keep a copy of the variables each.
  bool gradient_norm = false;

  [[nodiscard]] bool has_loss() const { return loss != nullptr || !outputs.empty(); }
  /// The optimizer's, which reports the norm if that is wanted.
  [[nodiscard]] UpdateRule update_rule() const {
    UpdateRule rule = optimizer.update_rule();
    rule.reports_norm = gradient_norm;
    return rule;
  }
};

/// What the outputs of `model` are trained by, in their order. Throws `Error` for an output of
/// several of which nothing is said, and for names that are no outputs.
[[nodiscard]] std::vector<OutputTraining> training_of_outputs(const CompileOptions& options,
                                                              const Graph& model);

/// A plan for batches of `rows`.
struct Planned {
  Objective objective;
  std::int64_t rows = 0;
  Plan plan;
  std::optional<std::int64_t> limit = {};  // of bytes, that it was drawn for
};

struct Blueprint {
  /// Throws `Error` as the map of `layouts` does, for layouts that do not fit the variables and
  /// outputs, and for keys that match nothing, unless there are to be only warnings.
  Blueprint(std::shared_ptr<const Graph> graph, const LayoutMap& layouts,
            std::optional<Axis> batch_axis, UnmatchedLayouts unmatched, ModelOptions options = {},
            std::optional<CompileOptions> compiled = {});

  /// Says where layers are, before anything is planned. Throws `Error` for keys that match nothing,
  /// for axes that are in a layout or split batches, for a pipeline over an axis that places nothing
  /// and for one of more stages than layers.
  void place(const PlaceMap& places);

  std::shared_ptr<const Graph> graph;  // of the layers
  std::vector<std::string> warnings;   // of keys that match nothing, and places without a layer
  PlanRequest spread;                  // how, whatever is joined to the layers
  ModelOptions options;
  std::optional<CompileOptions> compiled;
  std::optional<Planned> planned;  // by `draw`

  /// Plans for what the loss is given, or without an objective, unless that is what is planned
  /// already.
  void draw(const std::optional<LossData>& data, std::int64_t rows);
  /// The same within a limit (plan_within).
  void draw_within(std::int64_t limit, const std::optional<LossData>& data, std::int64_t rows,
                   const std::function<std::int64_t(const Plan&)>& bytes_of);

 private:
  [[nodiscard]] PlanRequest request(const Objective& objective, std::int64_t rows) const;
};

/// report_plan (plan_report.h) for batches of `source`, with what runs of steps keep of batches on
/// their way to a device that is apart from the host (feed_ring.h).
[[nodiscard]] PlanReport report_run(const Plan& plan, const Source& source, Mode mode,
                                    std::int64_t rows, std::int64_t rank,
                                    const std::optional<CompileOptions>& compiled,
                                    Precision precision, const DeviceTraits& device,
                                    const StepWalk& walk = {}, bool compares = true);

/// Draws a plan with which no rank holds more than `memory` while it trains on batches of `rows` of
/// `source`; of the first, the middle and the last rank, which have the largest blocks. Throws
/// `Error` if none is found.
void draw_within(const ByteCount& memory, Blueprint& blueprint, const Source& source,
                 const std::optional<LossData>& data, std::int64_t rows, const StepWalk& walk,
                 const DeviceTraits& device);

/// What losses are given of `source`, or none if it has no targets.
[[nodiscard]] std::optional<LossData> loss_data_of(const Source& source);
/// What it is given by training on `training`: classes weigh `class_weight`, and if data for
/// validation, which may be null, have weights, there are some. Throws `Error` for a class that has
/// not the name that it is called by.
[[nodiscard]] std::optional<LossData> loss_data_of(const Source& training, const Source* validation,
                                                   const ClassWeights& class_weight);

}  // namespace meshwork
