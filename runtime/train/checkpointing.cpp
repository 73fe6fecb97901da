#include "runtime/train/checkpointing.h"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "collectives/communicator.h"
#include "collectives/error.h"
#include "collectives/exchange.h"
#include "runtime/checkpoint/verdict.h"

namespace meshwork {
namespace {

using Clock = std::chrono::steady_clock;

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

void check_options(const CheckpointOptions& options) {
  const auto check = [](bool right, const char* option, const char* expected, auto found) {
    if (!right) {
      fail("checkpoint: {}: expected {}, found {}", option, expected, found);
    }
  };
  check(options.every_epochs.value_or(1) > 0, "every_epochs", "a positive integer",
        options.every_epochs.value_or(1));
  check(options.every_steps.value_or(1) > 0, "every_steps", "a positive integer",
        options.every_steps.value_or(1));
  check(options.every_minutes.value_or(1) > 0, "every_minutes", "a positive number",
        options.every_minutes.value_or(1));
  check(options.keep > 0, "keep", "a positive integer", options.keep);
}

Checkpointing::Checkpointing(Model::State& model, const CheckpointOptions& options, Say say)
    : model_(&model),
      options_(options),
      say_(std::move(say)),
      beside_training_(options.mode == CheckpointMode::asynchronous && threads_may_call_mpi()),
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
  if (thread_.joinable()) {
    thread_.join();
  }
}

std::optional<CheckpointState> Checkpointing::resume(const CheckpointState& now,
                                                     const std::vector<SharedCallback>& callbacks) {
  ResumeChoice choice = resume_from(*model_, options_, now, callbacks, say_);
  known_ = std::move(choice.checkpoints);
  // Only now, so that a directory is not made for a run that is refused.
  together(communicator_, [&] {
    if (communicator_.rank() == 0) {
      prepare_directory(options_.directory);
    }
  });
  saved_ = std::make_unique<SavedRun>(*model_);
  last_ = Clock::now();
  return std::move(choice.state);
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
                         bool lower_is_better) {
  const Clock::time_point begin = Clock::now();
  settle();
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
    report_ = write_checkpoint(communicator_, file_, saved_->state(), saved_->parts(),
                               {options_.writer, options_.verify});
    if (communicator_.rank() == 0) {
      remove_superfluous(lower_is_better_);
    }
  } catch (const Error& error) {
    failure_ = error.what();
  } catch (const std::exception& error) {
    // The ranks agree on every error that writing knows; of this one the others do not know.
    if (communicator_.size() > 1) {
      abort_job(1, fmt::format("writing the checkpoint {}: {}", file_.string(), error.what()));
    }
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
    thread_.join();
  }
  under_way_ = false;
  // Rank 0 alone has cleaned up, and may alone have failed in it.
  const std::string failure = joint_failure(communicator_, failure_);
  if (failure.empty()) {
    ++written_;
    bytes_ = report_.bytes;
    writing_ += report_.seconds;
    return;
  }
  ++failed_;
  const std::string text = fmt::format("the checkpoint of step {} could not be written: {}",
                                       saved_->state().step, failure);
  if (options_.on_error == CheckpointFailure::stop) {
    throw Error(text);
  }
  say_("WARNING: " + text + "; training goes on");
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
      "checkpoints: {} written to {}{}, {} each, {} to write one{}; training waited {} for each, "
      "{} at most{}",
      written_, options_.directory.string(),
      failed_ == 0 ? "" : fmt::format(", {} failed", failed_), size_text(bytes_),
      time_text(writing_ / count), beside_training_ ? " beside it" : "", time_text(paused_ / all),
      time_text(longest_pause_),
      beside_training_ ? fmt::format(", and {} at the end", time_text(waited)) : ""));
}

}  // namespace meshwork
