#include "runtime/train/state/checkpointing.h"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <system_error>
#include <utility>

#include "collectives/communicator.h"
#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/hosted.h"
#include "collectives/path_text.h"
#include "runtime/checkpoint/verdict.h"
#include "runtime/config/range.h"
#include "runtime/train/reporting/history.h"

namespace meshwork {
namespace {

using Clock = std::chrono::steady_clock;

// How long a failed run waits for its checkpoint to be written.
constexpr std::chrono::seconds patience_with_writing{60};
// How long a run waits for another one to leave the directory: that which was killed just before.
constexpr std::chrono::seconds patience_with_others{20};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

bool threads_may_call_mpi() {
  int level = 0;
  check_mpi(MPI_Query_thread(&level), "MPI_Query_thread");
  return level == MPI_THREAD_MULTIPLE;
}

std::string size_text(std::int64_t bytes) {
  const double value = static_cast<double>(bytes);
  return value >= 1e9   ? fmt::format("{:.2f} GB", value / 1e9)
         : value >= 1e6 ? fmt::format("{:.1f} MB", value / 1e6)
                        : fmt::format("{:.1f} kB", value / 1e3);
}

std::string time_text(double seconds) {
  return seconds >= 1      ? fmt::format("{:.2f} s", seconds)
         : seconds >= 1e-3 ? fmt::format("{:.1f} ms", seconds * 1e3)
                           : fmt::format("{:.0f} us", seconds * 1e6);
}

}  // namespace

Checkpointing::Checkpointing(Model::State& model, const CheckpointOptions& options, Say say)
    : model_(&model),
      options_(options),
      say_(std::move(say)),
      beside_training_(options.mode == CheckpointMode::asynchronous && threads_may_call_mpi()),
      trace_(&model.watchdog->trace()),
      trace_beside_(&model.watchdog->trace_beside()),
      waiting_(trace_, "waiting for the checkpoint that is being written"),
      settling_(trace_, "agreement on how the checkpoint was written"),
      communicator_(model.mesh().all().duplicate()),
      last_(Clock::now()) {
  if (!options_.every_epochs && !options_.every_steps && !options_.every_minutes) {
    options_.every_epochs = 1;
  }
  if (options.mode == CheckpointMode::asynchronous && !beside_training_) {
    say_(
        "warning: this MPI does not let threads call it (MPI_THREAD_MULTIPLE), so training waits "
        "while checkpoints are written");
  }
}

Checkpointing::~Checkpointing() {
  give_up("the run was left");
}

void Checkpointing::give_up(const std::string& failure) noexcept {
  if (!thread_.joinable()) {
    return;
  }
  const Clock::time_point begin = Clock::now();
  while (!ended_) {
    if (communicator_.size() > 1 && Clock::now() - begin > patience_with_writing) {
      // In a hosted job the writer leaves its next wait.
      abort_or_break(failure + " (and the checkpoint " + file_.string() + " is not yet written)");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  thread_.join();
}

// On rank 0.
void Checkpointing::take_lock() {
  if (!lock_) {
    lock_.emplace(options_.directory, patience_with_others);
    if (!lock_->held()) {
      say_(
          fmt::format("warning: checkpoint directory {}: its file system has no locks, so that "
                      "another run could use it at the same time",
                      options_.directory));
    }
  }
}

void Checkpointing::take_directory(bool make_it) {
  const TracePoint taking(trace_, "taking of the checkpoint directory");
  const TracedActivity takes(taking);
  together(
      communicator_,
      [&] {
        std::error_code problem;  // which listing it will tell
        if (communicator_.rank() == 0 &&
            (make_it || std::filesystem::is_directory(options_.directory, problem))) {
          prepare_directory(options_.directory);
          take_lock();
        }
      },
      taking);
}

std::optional<CheckpointState> Checkpointing::resume(const CheckpointState& now,
                                                     const std::vector<SharedCallback>& callbacks) {
  take_directory(false);
  ResumeChoice choice =
      resume_from(*model_, options_, now, callbacks, lock_ && lock_->held(), say_);
  known_ = std::move(choice.checkpoints);
  newest_ = choice.file;
  return std::move(choice.state);
}

void Checkpointing::begin() {
  take_directory(true);
  saved_ = std::make_unique<SavedRun>(*model_);
  last_ = Clock::now();
}

bool Checkpointing::due_after_step(std::int64_t iteration) const {
  return options_.every_steps && iteration % *options_.every_steps == 0;
}

bool Checkpointing::due_after_epoch(std::int64_t epoch) const {
  return options_.every_epochs && (epoch + 1) % *options_.every_epochs == 0;
}

bool Checkpointing::due_by_clock() const {
  return options_.every_minutes && seconds_since(last_) >= *options_.every_minutes * 60;
}

bool Checkpointing::needs_agreement() const {
  return options_.every_minutes.has_value() || beside_training_;
}

void Checkpointing::save(CheckpointState state, const std::vector<SharedCallback>& callbacks,
                         bool lower_is_better, bool is_last) {
  const Clock::time_point begin = Clock::now();
  settle();
  is_last_ = is_last;
  file_ = options_.directory / checkpoint_name(state.step);
  lower_is_better_ = lower_is_better;
  saved_->capture(std::move(state), callbacks);
  last_ = Clock::now();
  under_way_ = true;
  ended_ = false;
  if (beside_training_) {
    thread_ = std::thread([this] {
      write();
      ended_ = true;
    });
  } else {
    write();
  }
  const double pause = seconds_since(begin);
  paused_ += pause;
  longest_pause_ = std::max(longest_pause_, pause);
  if (!beside_training_) {
    settle();
  }
}

void Checkpointing::write() {
  failure_.clear();
  try {
    report_ = write_checkpoint(
        communicator_, file_, saved_->state(), saved_->parts(),
        {.writer = options_.writer, .verify = options_.verify, .trace = trace_beside_});
    if (communicator_.rank() == 0) {
      remove_superfluous(lower_is_better_);
    }
  } catch (const std::exception& error) {
    // All ranks know of what went wrong in writing; of what did in cleaning up they hear when they
    // settle.
    failure_ = error.what();
  }
}

// On rank 0, after a checkpoint has its name. That an old one cannot be removed does no harm but
// to the disk's room, of which the next checkpoint will speak.
void Checkpointing::remove_superfluous(bool lower_is_better) {
  const CheckpointState& state = saved_->state();
  FoundCheckpoint made{file_, state.step, state.epoch, "", std::nullopt};
  for (const auto& [name, value] : state.logs) {
    if (name == options_.best) {
      made.monitored = value;
    }
  }
  std::erase_if(known_, [&](const FoundCheckpoint& old) { return old.file == file_; });
  known_.push_back(made);
  for (const FoundCheckpoint& old : superfluous(known_, options_.keep, lower_is_better)) {
    ::unlink(old.file.c_str());
    std::erase_if(known_, [&](const FoundCheckpoint& other) { return other.file == old.file; });
  }
}

void Checkpointing::settle() {
  if (!under_way_) {
    return;
  }
  if (thread_.joinable()) {
    const TracedActivity waits(waiting_);
    thread_.join();
  }
  under_way_ = false;
  // Rank 0 alone has cleaned up, and may alone have failed in it.
  const std::string failure = joint_failure(communicator_, failure_, settling_);
  if (failure.empty()) {
    ++written_;
    bytes_ = report_.bytes;
    writing_ += report_.seconds;
    newest_ = file_;
    unsaved_.clear();
    return;
  }
  ++failed_;
  const std::string text = fmt::format("the checkpoint of step {} could not be written: {}",
                                       saved_->state().step, failure);
  if (options_.on_error == CheckpointFailure::stop) {
    if (is_last_) throw LastStateUnsaved(text);
    throw Error(text);
  }
  say_("WARNING: " + text + (is_last_ ? "" : "; training goes on"));
  unsaved_ =
      fmt::format("the state after step {} is lost: {}; {}", saved_->state().step, failure,
                  newest_ ? fmt::format("the newest intact checkpoint is {}", newest_->string())
                          : fmt::format("there is no intact checkpoint in {}", options_.directory));
}

void Checkpointing::finish() {
  const Clock::time_point begin = Clock::now();
  settle();
  const double waited = seconds_since(begin);
  if (written_ + failed_ == 0) {
    return;
  }
  const double count = static_cast<double>(std::max<std::int64_t>(written_, 1));
  const double all = static_cast<double>(written_ + failed_);
  say_(fmt::format(
      "checkpoints: {} written to {}{}, {} each; {}write {}; training blocked {} a "
      "checkpoint, {} at "
      "most{}",
      written_, options_.directory, failed_ == 0 ? "" : fmt::format(", {} failed", failed_),
      size_text(bytes_), beside_training_ ? "background " : "", time_text(writing_ / count),
      time_text(paused_ / all), time_text(longest_pause_),
      beside_training_ ? fmt::format(", and {} at the end", time_text(waited)) : ""));
  if (!unsaved_.empty()) {
    say_("WARNING: " + unsaved_);
  }
}

}  // namespace meshwork
