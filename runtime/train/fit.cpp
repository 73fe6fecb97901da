// Model::fit: epochs of steps, validation, callbacks and checkpoints.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <optional>
#include <utility>

#include "collectives/error.h"
#include "runtime/train/between_steps.h"
#include "runtime/train/callbacks/monitor.h"
#include "runtime/train/checkpointing.h"
#include "runtime/train/model_state.h"
#include "runtime/train/not_finite.h"
#include "runtime/train/parameter_snapshot.h"
#include "runtime/train/progress.h"
#include "runtime/train/step_agreement.h"

namespace meshwork {
namespace {

// One run of `fit`, as its callbacks see it.
class Fitting final : public Training {
 public:
  Fitting(Model::State& model, std::shared_ptr<const Source> training, FitOptions options,
          History& history)
      : model_(model),
        options_(std::move(options)),
        history_(history),
        style_(progress_style(options_.verbose, STDOUT_FILENO)),
        progress_(std::make_shared<Progress>(std::cout, style_)),
        recorder_(std::make_shared<HistoryRecorder>(history)),
        callbacks_(all_callbacks()),
        means_(model.objective, ""),
        data_(training->fingerprint()),
        agreeing_(model.watchdog->trace().label("agreement with rank 0 (callbacks)")),
        reading_(model.watchdog->trace().label("reading of training data")),
        called_(model.watchdog->trace().label("callbacks")),
        saving_(model.watchdog->trace().label("checkpoint")),
        locating_(&model.watchdog->trace(), "agreement on where a number is not finite"),
        fed_(model, Mode::train, std::move(training), options_.batch_size, "training data"),
        schedule_(model.compiled->optimizer.schedule().name()) {
    if (options_.validation) {
      const std::int64_t size =
          options_.validation_batch_size > 0 ? options_.validation_batch_size : options_.batch_size;
      validation_.emplace(model, options_.validation, size, options_.prefetch, "val_",
                          "validation data", options_.stop_request);
    }
    const bool callbacks_differ =
        model.mesh().shape().rank_count() > 1 &&
        !std::all_of(options_.callbacks.begin(), options_.callbacks.end(),
                     [](const SharedCallback& callback) { return callback->decides_alike(); });
    position_.first_epoch = options_.initial_epoch;
    position_.epochs = options_.epochs;
    position_.iteration = model.iteration;
    steps_ = fed_.batches();
    if (options_.steps_per_epoch) {
      if (*options_.steps_per_epoch > steps_) {
        model.say(
            fmt::format("warning: steps_per_epoch is {}, but the data has only {} batches of {}: "
                        "an epoch has {}",
                        *options_.steps_per_epoch, steps_, options_.batch_size, steps_));
      }
      steps_ = std::min(steps_, *options_.steps_per_epoch);
    }
    history.params = {static_cast<int>(style_.verbosity), options_.epochs, steps_};
    name_logs();
    if (!options_.checkpoint.directory.empty()) {
      check_best();
      checkpoints_.emplace(model, options_.checkpoint,
                           [this](const std::string& line) { tell(line); });
    }
    agreement_.emplace(
        *model.transport, model.mesh().all(),
        options_.stop_request != nullptr || (checkpoints_ && checkpoints_->needs_agreement()),
        callbacks_differ, &model.watchdog->trace());
  }

  void run() {
    try {
      run_all();
    } catch (const std::exception& error) {
      if (checkpoints_) {
        checkpoints_->give_up(error.what());
      }
      throw;
    }
  }

  const TrainingPosition& position() const override { return position_; }
  Logs& logs() override { return logs_; }
  const std::vector<std::string>& log_names() const override { return log_names_; }
  std::optional<Better> better(const std::string& name) const override {
    return better_of(name, model_.compiled->metrics);
  }
  double learning_rate() const override {
    return model_.compiled->optimizer.learning_rate(model_.iteration);
  }
  void set_learning_rate(double rate) override {
    model_.compiled->optimizer.set_learning_rate(rate);
  }
  void stop() override { stopping_ = true; }
  bool stopping() const override { return stopping_; }

  std::shared_ptr<const WeightsSnapshot> snapshot_weights() override {
    return std::make_shared<ParameterSnapshot>(model_.engine->parameters(), *model_.device);
  }
  void restore_weights(const WeightsSnapshot& snapshot) override {
    const auto* weights = dynamic_cast<const ParameterSnapshot*>(&snapshot);
    if (weights == nullptr) {
      internal_error("weights of another model's snapshot");
    }
    Parameters& parameters = model_.engine->parameters();
    model_.device->copy_in(parameters.values(), weights->values.data(),
                           static_cast<std::int64_t>(weights->values.size()) * 4);
    model_.device->copy_in(parameters.fixed(), weights->fixed.data(),
                           static_cast<std::int64_t>(weights->fixed.size()) * 4);
  }

  bool is_root() const override { return model_.is_root(); }
  void agree(std::span<double> values) override {
    const TracedCollective inside(&model_.watchdog->trace(), agreeing_);
    model_.transport->broadcast(model_.mesh().all(), ElementType::float64, values.data(),
                                static_cast<std::int64_t>(values.size()), 0);
  }
  std::string where_not_finite() override {
    return last_step_ == nullptr
               ? ""
               : meshwork::where_not_finite(*last_step_, model_.mesh().all(), locating_);
  }
  void say(const std::string& line) override {
    if (is_root()) {
      progress_->say(line);
    }
  }

 private:
  // The user's, then the history, then what is shown.
  CallbackList all_callbacks() const {
    std::vector<SharedCallback> callbacks = options_.callbacks;
    callbacks.push_back(recorder_);
    callbacks.push_back(progress_);
    return CallbackList(std::move(callbacks));
  }

  // Every name that logs can have is there from the beginning, so that steps only set values.
  void name_logs() {
    log_names_ =
        log_names_of(model_.objective.names, validation_.has_value(), callbacks_.adds_logs());
  }

  void run_all() {
    if (checkpoints_) {
      take_up(checkpoints_->resume(state_at(position_.first_epoch, 0), options_.callbacks));
    }
    callbacks_.on_train_begin(*this);
    // After the last batch of an epoch only its end is left; the feeder goes to the next one.
    const BatchPosition start = first_batch_ < fed_.batches()
                                    ? BatchPosition{position_.first_epoch, first_batch_}
                                    : BatchPosition{position_.first_epoch + 1, 0};
    const std::unique_ptr<Feeder> feeder =
        fed_.feeder(options_.shuffle, start, options_.epochs, options_.prefetch);
    // A run that a callback ended inside an epoch, and that was then cut off, still has its end.
    for (std::int64_t epoch = position_.first_epoch;
         epoch < options_.epochs && (!stopping_ || first_batch_ > 0) && !interrupted(); ++epoch) {
      position_.epoch = epoch;
      run_epoch(*feeder);
    }
    if (!interrupted()) {
      callbacks_.on_train_end(*this);
    }
    if (checkpoints_) {
      const TracedActivity saves(&model_.watchdog->trace(), saving_);
      checkpoints_->finish();
    }
  }

  void run_epoch(Feeder& feeder) {
    const std::int64_t first = std::exchange(first_batch_, 0);
    logs_.clear();
    if (first == 0) {
      means_.reset();
      position_.samples = 0;
    } else {
      means_.write(logs_);
    }
    position_.batch = first;
    position_.batches = steps_;
    save_after_epoch_ = false;
    // What the rank does, but for the instructions of steps, which say so themselves.
    const TracedActivity calls(&model_.watchdog->trace(), called_);
    callbacks_.on_epoch_begin(*this);
    std::int64_t done = first;
    for (std::int64_t batch = first; batch < steps_ && !stopping_; ++batch) {
      position_.batch = batch;
      callbacks_.on_train_batch_begin(*this);
      train_batch(next_batch(feeder));
      callbacks_.on_train_batch_end(*this);
      done = batch + 1;
      end_step(done);
      if (interrupted()) {
        return;
      }
    }
    if (stopping_ || steps_ < fed_.batches()) {
      if (position_.epoch + 1 < options_.epochs) {
        feeder.seek({position_.epoch + 1, 0});
      }
    }
    look_at_loss();
    if (validation_ && (position_.epoch + 1) % options_.validation_frequency == 0) {
      validate(done);
      if (interrupted()) {
        return;
      }
    }
    callbacks_.on_epoch_end(*this);
    end_epoch();
  }

  // What all ranks do after `done` batches of an epoch: the one place in which a run ends early, or
  // saves itself, for a reason that not all of them see.
  void end_step(std::int64_t done) {
    bool due = checkpoints_ && checkpoints_->due_after_step(model_.iteration);
    if (agreement_->due(model_.iteration)) {
      const StepWish wish = agree_on_wish();
      due = due || wish.save;
      stopping_ = wish.callbacks_stop;
      if (interrupted()) {
        if (checkpoints_) {
          save(state_at(position_.epoch, done));
        }
        return;
      }
    }
    if (due && done < steps_ && !stopping_) {
      save(state_at(position_.epoch, done));
    } else if (due) {
      save_after_epoch_ = true;  // with its validation, under the same number of updates
    }
  }

  void end_epoch() {
    // What a callback decided from something that ranks do not share is rank 0's decision.
    std::array<double, values_after_epoch> decided{stopping_ ? 1.0 : 0.0, learning_rate()};
    const double own_rate = decided[1];
    agree(decided);
    stopping_ = decided[0] != 0;
    if (decided[1] != own_rate) {
      set_learning_rate(decided[1]);
    }
    bool due = checkpoints_ &&
               (save_after_epoch_ || stopping_ || checkpoints_->due_after_epoch(position_.epoch) ||
                position_.epoch + 1 == options_.epochs);
    if (agreement_->wanted()) {
      due = agree_on_wish().save || interrupted() || due;
    }
    if (due && checkpoints_) {
      CheckpointState state = state_at(position_.epoch + 1, 0);
      state.logs.assign(logs_.begin(), logs_.end());
      save(std::move(state));
    }
  }

  [[nodiscard]] bool interrupted() const { return history_.stop_reason != 0; }

  StepWish agree_on_wish() {
    StepWish own;
    own.stop_reason = options_.stop_request ? options_.stop_request->reason() : 0;
    own.callbacks_stop = stopping_;
    own.save = checkpoints_ && checkpoints_->due_by_clock();
    own.settle = checkpoints_ && checkpoints_->has_ended();
    const StepWish wish = agreement_->agree(model_.iteration, own);
    if (wish.settle) {
      const TracedActivity saves(&model_.watchdog->trace(), saving_);
      checkpoints_->settle();
    }
    history_.stop_reason = wish.stop_reason;
    return wish;
  }

  void save(CheckpointState state) {
    const bool lower = better(options_.checkpoint.best).value_or(Better::lower) == Better::lower;
    const TracedActivity saves(&model_.watchdog->trace(), saving_);
    checkpoints_->save(std::move(state), options_.callbacks, lower);
  }

  // The log by which a checkpoint is best must be one that there can be.
  void check_best() const {
    check_best_log(options_.checkpoint.best, {log_names_, model_.compiled->metrics});
  }

  // A loss that is no number is said once, also where nothing ends the run for it.
  void look_at_loss() {
    const std::optional<double> loss = logs_.find("loss");
    if (told_of_loss_ || stopping_ || !loss || std::isfinite(*loss)) {
      return;
    }
    told_of_loss_ = true;
    const std::string where = where_not_finite();
    tell(
        fmt::format("WARNING: the loss of epoch {} is {}{}; the callback TerminateOnNaN would have "
                    "ended the run at the batch",
                    position_.epoch + 1, *loss,
                    where.empty() ? "" : "; after its last batch first seen on " + where));
  }

  // Where the run stands when batch `batch` of epoch `epoch` is the next one.
  CheckpointState state_at(std::int64_t epoch, std::int64_t batch) const {
    const Optimizer& optimizer = model_.compiled->optimizer;
    CheckpointState state;
    state.step = model_.iteration;
    state.epoch = epoch;
    state.batch = batch;
    state.stopped = stopping_;
    state.running = means_.save();
    if (batch == 0) {
      std::fill(state.running.sums.begin(), state.running.sums.end(), 0.0);
      state.running.penalties = 0;
      state.running.rows = 0;
    } else {
      state.samples = position_.samples;
    }
    state.seed = model_.options.seed;
    state.data = data_;
    state.data_rows = fed_.rows();
    state.batch_size = options_.batch_size;
    state.steps_per_epoch = steps_;
    state.shuffle = options_.shuffle;
    state.epochs = options_.epochs;
    state.optimizer = optimizer.class_name();
    state.slots = optimizer.slot_names();
    state.schedule = schedule_;
    state.learning_rate = learning_rate();
    state.constant_rate = optimizer.schedule().is_constant();
    state.configuration = options_.configuration;
    state.keras_places = keras_places(*model_.graph, model_.keras_model);
    state.mesh = to_string(model_.mesh().shape());
    state.device = std::string(model_.device->kind()) + ": " + model_.device->description();
    state.collectives = std::string(model_.transport->name());
    state.history_epochs = history_.epoch;
    state.history = history_.history;
    return state;
  }

  // Goes on from what a checkpoint held, if there was one. Variables, slots and callbacks have it.
  void take_up(const std::optional<CheckpointState>& state) {
    if (!state) {
      return;
    }
    Optimizer& optimizer = model_.compiled->optimizer;
    if (optimizer.schedule().is_constant() && state->constant_rate &&
        state->schedule == schedule_) {
      optimizer.set_learning_rate(state->learning_rate);
    }
    model_.iteration = state->step;
    position_.iteration = state->step;
    position_.first_epoch = state->epoch;
    position_.epoch = state->epoch;
    position_.samples = state->samples;
    first_batch_ = state->batch;
    if (state->batch > 0) {
      means_.load(state->running);
    }
    stopping_ = state->stopped;
    history_.epoch = state->history_epochs;
    history_.history = state->history;
    recorder_->keep();
    if (stopping_ && state->batch > 0) {
      tell(fmt::format("the run had been ended by a callback; the end of epoch {} is left",
                       state->epoch + 1));
    } else if (stopping_) {
      tell("the run had been ended by a callback; there is nothing left to train");
    } else if (state->epoch >= options_.epochs) {
      tell(fmt::format("all {} epochs are done; there is nothing left to train", options_.epochs));
    }
  }

  // What a silent run says, too, if it must not be missed.
  void tell(const std::string& line) {
    if (style_.verbosity != Verbosity::silent) {
      say(line);
    } else if (line.starts_with("WARNING")) {
      model_.say(line);
    }
  }

  const HostBatch& next_batch(Feeder& feeder) {
    const TracedActivity reads(&model_.watchdog->trace(), reading_);
    return *feeder.next();
  }

  void train_batch(const HostBatch& batch) {
    const StepScalars scalars{model_.iteration, static_cast<float>(learning_rate())};
    Step& step = fed_.run(batch, scalars);
    last_step_ = &step;
    means_.add(step.sums(), step.has_penalty(), step.rows());
    means_.write(logs_);
    ++model_.iteration;
    position_.iteration = model_.iteration;
    position_.samples += step.rows();
  }

  // Where it is interrupted, the run goes on from the end of the epoch's `done` batches and
  // validates anew.
  void validate(std::int64_t done) {
    position_.batches = validation_->batches();
    callbacks_.on_test_begin(*this);
    try {
      validation_->run(
          logs_,
          [this](std::int64_t batch) {
            position_.batch = batch;
            callbacks_.on_test_batch_begin(*this);
          },
          [this](std::int64_t) { callbacks_.on_test_batch_end(*this); });
    } catch (const Stopped& stopped) {
      history_.stop_reason = stopped.reason();
      if (checkpoints_) {
        CheckpointState state = state_at(position_.epoch, done);
        // An epoch without a batch begins anew, and who ended it decides anew.
        state.stopped = stopping_ && done > 0;
        save(std::move(state));
      }
      return;
    }
    callbacks_.on_test_end(*this);
    position_.batches = steps_;
  }

  Model::State& model_;
  FitOptions options_;
  History& history_;
  ProgressStyle style_;
  std::shared_ptr<Progress> progress_;
  std::shared_ptr<HistoryRecorder> recorder_;
  CallbackList callbacks_;
  RunningMeans means_;
  std::string data_;             // fingerprint
  const std::string* agreeing_;  // labels of the model's trace
  const std::string* reading_;
  const std::string* called_;
  const std::string* saving_;
  TracePoint locating_;
  FedSource fed_;
  Step* last_step_ = nullptr;  // of training
  std::string schedule_;       // of the learning rate, as it was given
  std::optional<Evaluation> validation_;
  std::int64_t steps_ = 0;
  TrainingPosition position_;
  Logs logs_;
  std::vector<std::string> log_names_;
  bool stopping_ = false;
  bool told_of_loss_ = false;
  std::int64_t first_batch_ = 0;   // with which the first epoch goes on
  bool save_after_epoch_ = false;  // a checkpoint was due after its last batch
  std::optional<StepAgreement> agreement_;
  std::optional<Checkpointing> checkpoints_;
};

}  // namespace

History Model::fit(std::shared_ptr<const Source> training, FitOptions options) {
  if (!state_->compiled) {
    fail("fit needs a loss and an optimizer: call compile first");
  }
  if (options.epochs < 1 || options.initial_epoch < 0) {
    fail("fit: epochs must be at least 1 and initial_epoch at least 0, found {} and {}",
         options.epochs, options.initial_epoch);
  }
  if (options.validation_frequency < 1) {
    fail("fit: validation_frequency must be at least 1, found {}", options.validation_frequency);
  }
  if (options.steps_per_epoch && *options.steps_per_epoch < 1) {
    fail("fit: steps_per_epoch must be at least 1, found {}", *options.steps_per_epoch);
  }
  check_options(options.checkpoint);
  if (options.validation_split != 0) {
    if (options.validation) {
      fail("fit: give validation data or validation_split, not both");
    }
    ValidationSplit split = split_for_validation(training, options.validation_split);
    training = std::move(split.training);
    options.validation = std::move(split.validation);
  }
  const std::optional<Axis> batch_axis = state_->distribution.batch_axis;
  const MeshShape& mesh = state_->mesh().shape();
  check_batching(training->rows(), options.batch_size, batch_axis ? mesh.size(*batch_axis) : 1,
                 batch_axis ? mesh.name(*batch_axis) : "", "training data");
  state_->prepare(target_of(*training), options.batch_size);
  if (state_->fitting) {
    fail("fit: the model is being fitted already");
  }
  History history;
  Fitting fitting(*state_, std::move(training), std::move(options), history);
  state_->fitting = true;
  try {
    fitting.run();
  } catch (...) {
    state_->fitting = false;
    throw;
  }
  state_->fitting = false;
  return history;
}

}  // namespace meshwork
