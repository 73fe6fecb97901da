// Saving: where a run of `fit` stands, as checkpoints hold it, and going on from there.
//
// `fit` says when a step or an epoch is over and who wants a checkpoint. When it is taken, what is
// in it, and what of it a run takes up again is decided here; how it is written and read in
// state/checkpointing.h. Of a run without a directory for checkpoints nothing is saved, and all of
// this does nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/train/loop/means.h"
#include "runtime/train/loop/model_training.h"
#include "runtime/train/state/checkpointing.h"

namespace meshwork {

class Saving {
 public:
  /// What a run trains on.
  struct Data {
    std::string fingerprint;
    std::vector<CategoryRecord> categories;
    std::int64_t rows = 0;
    std::int64_t steps = 0;  // in an epoch
  };
  /// All but `data` and `tell`, which says a line, outlive this. `run` has its first epoch, and
  /// names for its logs. Throws `Error` for a log that cannot say which checkpoint is the best.
  /// Collective.
  Saving(Model::State& model, const FitOptions& options, ModelTraining& run, RunningMeans& means,
         History& history, Data data, Say tell);

  /// Is called before the state of a run is saved. All ranks call it together.
  void settle_before(std::function<void()> action) { before_saving_ = std::move(action); }

  /// Goes on from what the directory has, if it has something: afterwards model, callbacks, means
  /// and history are as they were, and `run` is where it was. Collective, as are those below.
  void resume();
  /// With which batch the first epoch then goes on.
  [[nodiscard]] std::int64_t first_batch() const { return first_batch_; }
  /// When nothing is left that the run could be refused for. Callbacks of a run that goes on take
  /// back what its end had done to the weights.
  void begin();

  /// On rank 0: what it wants of the other ranks, if it can want anything.
  [[nodiscard]] bool needs_agreement() const {
    return writer_ && (writer_->needs_agreement() || !options_.checkpoint.best.empty());
  }
  [[nodiscard]] bool due_by_clock() const { return writer_ && writer_->due_by_clock(); }
  /// Whether the epoch that ends is the best so far, and is to be saved whatever the frequency.
  [[nodiscard]] bool is_best_epoch() const;
  [[nodiscard]] bool has_ended() const { return writer_ && writer_->has_ended(); }
  void settle();

  /// After `done` batches of the epoch; `due` if the ranks have agreed on a checkpoint.
  void end_step(std::int64_t done, bool due);
  /// Training is left after these, to go on from here: a run whose validation was cut off validates
  /// anew, and where no batch was trained who ended it decides anew.
  void leave(std::int64_t done, bool while_validating);
  /// Behind the callbacks of the end of an epoch; `due` as above.
  void end_epoch(bool due);
  /// Behind those of the end of training: saves the weights that the run ends with, if callbacks
  /// have restored others than those of its last epoch, which have been saved under the same number
  /// of updates.
  void end_training();
  /// When all is over. Says what it has cost, and leaves in the history what is lost.
  void finish();
  /// When this rank leaves because of `failure` (checkpointing.h).
  void give_up(const std::string& failure) noexcept {
    if (writer_) writer_->give_up(failure);
  }

 private:
  [[nodiscard]] CheckpointState state_at(std::int64_t epoch, std::int64_t batch);
  void take_up(const CheckpointState& state);
  void save(CheckpointState state, bool is_last = false);

  Model::State& model_;
  const FitOptions& options_;
  ModelTraining& run_;
  RunningMeans& means_;
  History& history_;
  Data data_;
  Say tell_;
  std::string schedule_;       // of the learning rate, as it was given
  const std::string* saving_;  // label of the model's trace
  bool resumed_ = false;
  bool restored_before_ = false;  // the run that it goes on from had ended with restored weights
  bool trained_ = false;          // an epoch has ended in this run
  bool after_epoch_ = false;      // a checkpoint was due after the epoch's last batch
  std::int64_t first_batch_ = 0;
  std::int64_t ended_epochs_ = 0;                           // that have ended, with earlier runs
  std::vector<std::pair<std::string, double>> ended_logs_;  // of the last of them, as it was saved
  std::function<void()> before_saving_ = [] {};
  std::optional<Checkpointing> writer_;
};

}  // namespace meshwork
