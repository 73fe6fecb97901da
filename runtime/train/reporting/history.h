// History: the logs of every epoch of a run, which `fit` returns.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "collectives/error.h"
#include "collectives/wrong_input.h"
#include "runtime/train/callbacks/callback.h"

namespace meshwork {

struct HistoryParameters {
  int verbose = 0;
  std::int64_t epochs = 0;  // as asked for
  std::int64_t steps = 0;   // batches in an epoch
};

/// Seconds of a training step on one rank, without a rest (profile.h). Waiting is part of
/// collectives.
struct StepParts {
  double step = 0;
  double kernels = 0, collectives = 0, waiting = 0, reading = 0, feeding = 0, between = 0;
  double scheduled =
      0;  // of a pipeline, on rank 0: all ranks' kernels in the order of its schedule
};

struct History {
  std::vector<std::int64_t> epoch;                     // indices from 0
  std::map<std::string, std::vector<double>> history;  // by name: one value an epoch that had it
  HistoryParameters params;                            // by the trainer
  std::optional<StepParts> step_parts;  // of this rank, if the run was profiled long enough
  int stop_reason = 0;  // of the StopRequest that ended the run before its end; 0: it ended itself
  /// Which state is lost and why, where the last checkpoint could not be written and the run was to
  /// go on (CheckpointFailure::continue_anyway); else "".
  std::string unsaved;

  /// The values of `name`. Throws `Error` naming those there are.
  [[nodiscard]] const std::vector<double>& at(const std::string& name) const;
};

/// Adds the epochs and values of a run to a history, which must outlive it. Runs after the user's
/// callbacks.
class HistoryRecorder final : public Callback {
 public:
  explicit HistoryRecorder(History& history) : history_(&history) {}

  std::string class_name() const override { return "History"; }
  void on_epoch_end(Training& training) override;
  void on_evaluated(Training& training, const Evaluated& evaluated) override;

 private:
  History* history_;
};

/// Thrown by `fit` where all was trained, and the last checkpoint could not be written.
class LastStateUnsaved : public Error {
 public:
  using Error::Error;
};

/// Thrown by `fit` where the run cannot go on from a checkpoint, because the model, its data or its
/// batches are others.
class CheckpointMisfit : public WrongInput {
 public:
  using WrongInput::WrongInput;
};

}  // namespace meshwork
