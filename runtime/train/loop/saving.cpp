#include "runtime/train/loop/saving.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "collectives/error.h"
#include "runtime/train/callbacks/monitor.h"
#include "runtime/train/state/saved_run.h"

namespace meshwork {

Saving::Saving(Model::State& model, const FitOptions& options, ModelTraining& run,
               RunningMeans& means, History& history, Data data, Say tell)
    : model_(model),
      options_(options),
      run_(run),
      means_(means),
      history_(history),
      data_(std::move(data)),
      tell_(std::move(tell)),
      schedule_(model.compiled->optimizer.schedule().name()),
      saving_(model.watchdog->trace().label("checkpoint")),
      ended_epochs_(run.at.first_epoch) {
  if (options.checkpoint.directory.empty()) {
    return;
  }
  try {
    check_best_log(options.checkpoint.best, {run.names, model.objective.better, {}});
  } catch (const Error& error) {
    fail("fit: checkpoint.best: {}", error.what());
  }
  writer_.emplace(model, options.checkpoint, tell_);
}

void Saving::resume() {
  if (!writer_) {
    return;
  }
  const auto state = writer_->resume(state_at(run_.at.first_epoch, 0), options_.callbacks);
  if (state) {
    take_up(*state);
  }
}

void Saving::begin() {
  if (writer_) {
    writer_->begin();
  }
  if (resumed_) {
    run_.callbacks.take_back_train_end(run_);
    restored_before_ = std::exchange(run_.restored, false);
  }
}

void Saving::settle() {
  const TracedActivity saves(&model_.watchdog->trace(), saving_);
  writer_->settle();
}

void Saving::end_step(std::int64_t done, bool due) {
  due = due || (writer_ && writer_->due_after_step(model_.iteration));
  if (due && done < data_.steps && !run_.ending) {
    if (writer_) before_saving_();
    save(state_at(run_.at.epoch, done));
  } else {
    after_epoch_ = due;  // with its validation, under the same number of updates
  }
}

bool Saving::is_best_epoch() const {
  const std::string& best = options_.checkpoint.best;
  if (!writer_ || best.empty()) return false;
  const std::optional<double> value = run_.logs().find(best);
  const auto known = history_.history.find(best);
  if (!value || std::isnan(*value) || known == history_.history.end()) return false;
  const bool lower = run_.better(best).value_or(Better::lower) == Better::lower;
  // The last one is this epoch's.
  return std::none_of(known->second.begin(), std::prev(known->second.end()),
                      [&](double other) { return lower ? other <= *value : other >= *value; });
}

void Saving::leave(std::int64_t done, bool while_validating) {
  if (!writer_) {
    return;
  }
  before_saving_();
  CheckpointState state = state_at(run_.at.epoch, done);
  state.stopped = run_.ending && (done > 0 || !while_validating);
  save(std::move(state));
}

void Saving::end_epoch(bool due) {
  trained_ = true;
  ended_epochs_ = run_.at.epoch + 1;
  const bool is_last = run_.ending || ended_epochs_ == options_.epochs;
  due = due || is_last || (writer_ && writer_->due_after_epoch(run_.at.epoch));
  due = std::exchange(after_epoch_, false) || due;
  if (writer_ && due) {
    before_saving_();
    CheckpointState state = state_at(ended_epochs_, 0);
    state.logs.assign(run_.logs().begin(), run_.logs().end());
    ended_logs_ = state.logs;
    save(std::move(state), is_last);
  }
}

void Saving::end_training() {
  if (!writer_) {
    return;
  }
  std::array<double, 1> restored{run_.restored ? 1.0 : 0.0};
  run_.agree(restored);
  if (restored[0] == 0 || (restored_before_ && !trained_)) {
    return;
  }
  CheckpointState state = state_at(ended_epochs_, 0);
  state.logs = ended_logs_;
  save(std::move(state), true);
}

void Saving::finish() {
  if (writer_) {
    const TracedActivity saves(&model_.watchdog->trace(), saving_);
    writer_->finish();
    history_.unsaved = writer_->unsaved();
  }
}

void Saving::save(CheckpointState state, bool is_last) {
  const bool lower = run_.better(options_.checkpoint.best).value_or(Better::lower) == Better::lower;
  const TracedActivity saves(&model_.watchdog->trace(), saving_);
  writer_->save(std::move(state), options_.callbacks, lower, is_last);
}

// Where the run stands when batch `batch` of epoch `epoch` is the next one.
CheckpointState Saving::state_at(std::int64_t epoch, std::int64_t batch) {
  CheckpointState state = state_of(model_, true);
  state.epoch = epoch;
  state.batch = batch;
  state.stopped = run_.ending;
  state.averaged = run_.averaged;
  state.running = means_.save();
  if (batch == 0) {
    std::fill(state.running.sums.begin(), state.running.sums.end(), 0.0);
    state.running.penalties = 0;
    state.running.rows = 0;
  } else {
    state.samples = run_.at.samples;
  }
  state.data = data_.fingerprint;
  state.categories = data_.categories;
  state.data_rows = data_.rows;
  state.batch_size = options_.batch_size;
  state.steps_per_epoch = data_.steps;
  state.shuffle = options_.shuffle;
  state.epochs = options_.epochs;
  state.schedule = schedule_;
  state.configuration = options_.configuration;
  state.history_epochs = history_.epoch;
  state.history = history_.history;
  return state;
}

// What a checkpoint held. Variables, slots and callbacks have it.
void Saving::take_up(const CheckpointState& state) {
  resumed_ = true;
  model_.take_up_choices(state);
  Optimizer& optimizer = model_.compiled->optimizer;
  if (optimizer.schedule().is_constant() && state.constant_rate && state.schedule == schedule_) {
    optimizer.set_learning_rate(state.learning_rate);
  }
  model_.iteration = state.step;
  run_.at.iteration = state.step;
  run_.at.first_epoch = state.epoch;
  run_.at.epoch = state.epoch;
  run_.at.samples = state.samples;
  first_batch_ = state.batch;
  ended_epochs_ = state.epoch;
  ended_logs_ = state.logs;
  if (state.batch > 0) {
    means_.load(state.running);
  }
  run_.ending = state.stopped;
  run_.averaged = state.averaged;
  history_.epoch = state.history_epochs;
  history_.history = state.history;
  if (run_.ending && state.batch > 0) {
    tell_(fmt::format("the run had been ended by a callback; the end of epoch {} is left",
                      state.epoch + 1));
  } else if (run_.ending) {
    tell_("the run had been ended by a callback; there is nothing left to train");
  } else if (state.epoch >= options_.epochs) {
    tell_(fmt::format("all {} epochs are done; there is nothing left to train", options_.epochs));
  }
}

}  // namespace meshwork
