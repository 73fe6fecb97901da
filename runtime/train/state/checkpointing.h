// Checkpointing: the checkpoints of one run of `fit`. When they are due, their writing beside
// training or in front of it, which of them stay, and what they cost.
//
// A checkpoint is taken between two updates. In asynchronous mode training waits while the state is
// copied in memory (saved_run.h), and a thread of each rank writes the copy, with a communicator of
// its own. One checkpoint is under way at a time; the next one waits for it, and so does the end of
// the run. How the writing ended is known to all ranks when they *settle* it, which they do
// together: before the next checkpoint, at the end, or when rank 0 has seen that it has ended and
// the ranks agree at the end of a step (step_agreement.h). A failure is then an error or a warning,
// as the user chose; it is never lost.
//
// Where callbacks restore weights as the run ends (EarlyStopping), the last checkpoint is taken
// again after that, under the same name: the newest one has the weights that the run ends with.
//
// A run has its directory to itself (directory_lock.h). Where ranks wait for each other the
// watchdog sees it: while they write in the trace beside the one of training, else in the latter.
//
// The thread calls MPI beside training, for which the MPI must have MPI_THREAD_MULTIPLE. Without
// it checkpoints are written in front of training, and that is said.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/trace.h"
#include "runtime/checkpoint/directory.h"
#include "runtime/checkpoint/directory_lock.h"
#include "runtime/checkpoint/options.h"
#include "runtime/train/state/resume.h"
#include "runtime/train/state/saved_run.h"

namespace meshwork {

class Checkpointing {
 public:
  /// Collective over the model's mesh. `model` has its parameters and outlives this.
  Checkpointing(Model::State& model, const CheckpointOptions& options, Say say);
  /// Gives up, if there is something under way.
  ~Checkpointing();
  Checkpointing(const Checkpointing&) = delete;
  Checkpointing& operator=(const Checkpointing&) = delete;

  /// Goes on from what the directory has (resume.h). Collective. Throws the same `Error` on all
  /// ranks.
  [[nodiscard]] std::optional<CheckpointState> resume(const CheckpointState& now,
                                                      const std::vector<SharedCallback>& callbacks);
  /// Makes the directory if it is not there, and is ready to save: to be called when nothing is
  /// left that the run could be refused for. Collective. Throws the same `Error` on all ranks.
  void begin();

  /// Whether one is due after the update number `iteration` (from 1), or after epoch `epoch` (from
  /// 0). The same on all ranks.
  [[nodiscard]] bool due_after_step(std::int64_t iteration) const;
  [[nodiscard]] bool due_after_epoch(std::int64_t epoch) const;
  /// On rank 0: whether the clock says that one is due, and whether what was under way has ended.
  [[nodiscard]] bool due_by_clock() const;
  [[nodiscard]] bool has_ended() const { return thread_.joinable() && ended_; }
  /// Whether rank 0 can have something to tell at the end of a step.
  [[nodiscard]] bool needs_agreement() const;

  /// Takes a checkpoint. `lower_is_better` is of the log that `best` names; `is_last`: training has
  /// come to its end. Collective.
  void save(CheckpointState state, const std::vector<SharedCallback>& callbacks,
            bool lower_is_better, bool is_last);
  /// Waits for what is under way and says how it ended. Throws the same `Error` on all ranks if it
  /// failed and that is to stop the run: `LastStateUnsaved` if that was the last. Collective.
  void settle();
  /// Settles, and says what the checkpoints have cost, and what is lost. Collective.
  void finish();
  /// After `finish`: which state is lost, why, and which checkpoint is the newest whole one, if the
  /// last one that was taken could not be written; else "". The same on all ranks.
  [[nodiscard]] const std::string& unsaved() const { return unsaved_; }
  /// When this rank leaves the run because of `failure`: lets the checkpoint under way come to its
  /// end, if that is within a minute. Else other ranks may not write it, since this one may have
  /// failed alone, and the job is ended with `failure`.
  void give_up(const std::string& failure) noexcept;

  [[nodiscard]] const CheckpointOptions& options() const { return options_; }

 private:
  void take_directory(bool make_it);
  void take_lock();
  void write();
  void remove_superfluous(bool lower_is_better);

  Model::State* model_;
  CheckpointOptions options_;
  Say say_;
  bool beside_training_;
  CollectiveTrace* trace_;         // of training
  CollectiveTrace* trace_beside_;  // of writing
  TracePoint waiting_;             // for the thread that writes
  TracePoint settling_;
  Communicator communicator_;
  std::optional<DirectoryLock> lock_;  // on rank 0, once the directory is there
  std::unique_ptr<SavedRun> saved_;
  std::vector<FoundCheckpoint> known_;           // in the directory; on rank 0
  std::optional<std::filesystem::path> newest_;  // that was read or written whole
  std::string unsaved_;
  bool is_last_ = false;  // the one under way
  std::chrono::steady_clock::time_point last_;

  // The one under way. The thread alone has these until it is joined.
  std::thread thread_;
  std::atomic<bool> ended_{false};
  std::filesystem::path file_;
  bool lower_is_better_ = true;
  bool under_way_ = false;
  std::string failure_;
  WriteReport report_;

  // What they have cost, in seconds.
  std::int64_t written_ = 0;
  std::int64_t failed_ = 0;
  std::int64_t bytes_ = 0;
  double writing_ = 0;
  double paused_ = 0;
  double longest_pause_ = 0;
};

}  // namespace meshwork
