// Model::fit: epochs of steps, validation, callbacks and checkpoints.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <optional>
#include <utility>

#include "collectives/error.h"
#include "runtime/device/kernels/step_scalars.h"
#include "runtime/train/callbacks/monitor.h"
#include "runtime/train/loop/between_steps.h"
#include "runtime/train/loop/model_training.h"
#include "runtime/train/loop/step_agreement.h"
#include "runtime/train/model_options.h"
#include "runtime/train/model_state.h"
#include "runtime/train/reporting/progress.h"
#include "runtime/train/state/checkpointing.h"
#include "runtime/train/state/saved_run.h"

namespace meshwork {
namespace {

bool decide_alike(const std::vector<SharedCallback>& callbacks) {
  return std::all_of(callbacks.begin(), callbacks.end(),
                     [](const SharedCallback& callback) { return callback->decides_alike(); });
}

// One run of `fit`.
class Fitting {
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
        run_(model, [this](const std::string& line) { progress_->say(line); }),
        means_(model.objective, ""),
        sums_(*model.device, means_, model.objective.names.size() + 1),
        data_(training->fingerprint()),
        reading_(model.watchdog->trace().label("reading of training data")),
        called_(model.watchdog->trace().label("callbacks")),
        saving_(model.watchdog->trace().label("checkpoint")),
        profiling_(&model.watchdog->trace(), "gathering of the profile"),
        fed_(model, Mode::train, std::move(training), options_.batch_size, "training data",
             data_on_device()),
        schedule_(model.compiled->optimizer.schedule().name()) {
    if (options_.validation) {
      const std::int64_t size = options_.validation_batch_size.value_or(options_.batch_size);
      validation_.emplace(model, options_.validation, size, options_.prefetch, "val_",
                          "validation data", options_.stop_request, data_on_device());
    }
    const bool callbacks_differ =
        model.mesh().shape().rank_count() > 1 && !decide_alike(options_.callbacks);
    run_.at.first_epoch = options_.initial_epoch;
    ended_epochs_ = options_.initial_epoch;
    run_.at.epochs = options_.epochs;
    run_.at.iteration = model.iteration;
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

  ~Fitting() { model_.profile.reset(); }

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

 private:
  // What is gone over once is not worth keeping.
  [[nodiscard]] DataOnDevice data_on_device() const {
    return options_.epochs > options_.initial_epoch + 1 ? options_.data_on_device
                                                        : DataOnDevice::never;
  }

  // The user's, then the history, then what is shown.
  CallbackList all_callbacks() const {
    std::vector<SharedCallback> callbacks = options_.callbacks;
    callbacks.push_back(recorder_);
    callbacks.push_back(progress_);
    return CallbackList(std::move(callbacks));
  }

  // Every name that logs can have is there from the beginning, so that steps only set values.
  void name_logs() {
    run_.names =
        log_names_of(model_.objective.names, validation_.has_value(), callbacks_.adds_logs());
  }

  void run_all() {
    if (checkpoints_) {
      take_up(checkpoints_->resume(state_at(run_.at.first_epoch, 0), options_.callbacks));
    }
    // Not before: a checkpoint may say by which kernels.
    if (!make_steps()) {
      return;
    }
    if (checkpoints_) {
      checkpoints_->begin();
    }
    if (options_.profile) {
      model_.profile = std::make_unique<StepProfile>(*model_.device, options_.batch_size);
    }
    if (resumed_) {
      callbacks_.take_back_train_end(run_);
    }
    const bool ended_before = resumed_ && run_.restored;
    callbacks_.call(&Callback::on_train_begin, run_);
    // After the last batch of an epoch only its end is left; the feeder goes to the next one.
    const BatchPosition start = first_batch_ < fed_.batches()
                                    ? BatchPosition{run_.at.first_epoch, first_batch_}
                                    : BatchPosition{run_.at.first_epoch + 1, 0};
    const std::unique_ptr<Feeder> feeder =
        fed_.feeder(options_.shuffle, start, options_.epochs, options_.prefetch);
    // A run that a callback ended inside an epoch, and that was then cut off, still has its end.
    for (std::int64_t epoch = run_.at.first_epoch;
         epoch < options_.epochs && (!run_.ending || first_batch_ > 0) && !interrupted(); ++epoch) {
      run_.at.epoch = epoch;
      run_epoch(*feeder);
    }
    if (!interrupted()) {
      run_.restored = false;
      callbacks_.call(&Callback::on_train_end, run_);
      save_restored(ended_before);
    }
    if (checkpoints_) {
      const TracedActivity saves(&model_.watchdog->trace(), saving_);
      checkpoints_->finish();
      history_.unsaved = checkpoints_->unsaved();
    }
    if (model_.profile) {
      model_.profile->compare(*model_.transport, model_.mesh().all(), profiling_);
      history_.step_parts = model_.profile->parts();
      if (style_.verbosity != Verbosity::silent) {
        run_.say(model_.profile->report());
      }
    }
  }

  // Whether they are made: where kernels are timed for them, the run can be asked to stop. It
  // leaves nothing that a checkpoint lacks.
  bool make_steps() {
    try {
      fed_.make_steps(options_.stop_request);
      if (validation_) {
        validation_->make_steps();
      }
    } catch (const Stopped& stopped) {
      history_.stop_reason = stopped.reason();
      tell(stopped.what());
    }
    return !interrupted();
  }

  void run_epoch(Feeder& feeder) {
    const std::int64_t first = std::exchange(first_batch_, 0);
    run_.logs().clear();
    run_.refresh = [this](Logs& logs) { write_means(logs); };
    if (first == 0) {
      sums_.settle();
      means_.reset();
      run_.at.samples = 0;
    }
    run_.stale = true;
    run_.at.batch = first;
    run_.at.batches = steps_;
    save_after_epoch_ = false;
    // What the rank does, but for the instructions of steps, which say so themselves.
    const TracedActivity calls(&model_.watchdog->trace(), called_);
    callbacks_.call(&Callback::on_epoch_begin, run_);
    if (model_.profile) model_.profile->skip();
    std::int64_t done = first;
    for (std::int64_t batch = first; batch < steps_ && !run_.ending; ++batch) {
      run_.at.batch = batch;
      callbacks_.call(&Callback::on_train_batch_begin, run_);
      train_batch(next_batch(feeder));
      callbacks_.call(&Callback::on_train_batch_end, run_);
      done = batch + 1;
      end_step(done);
      if (model_.profile) model_.profile->end_step(*run_.last_step);
      if (interrupted()) {
        return;
      }
    }
    if (run_.ending || steps_ < fed_.batches()) {
      if (run_.at.epoch + 1 < options_.epochs) {
        feeder.seek({run_.at.epoch + 1, 0});
      }
    }
    look_at_loss();
    if (validation_ && (run_.at.epoch + 1) % options_.validation_freq == 0) {
      validate(done);
      if (interrupted()) {
        return;
      }
    }
    callbacks_.call(&Callback::on_epoch_end, run_);
    end_epoch();
  }

  // What all ranks do after `done` batches of an epoch: the one place in which a run ends early, or
  // saves itself, for a reason that not all of them see.
  void end_step(std::int64_t done) {
    bool due = checkpoints_ && checkpoints_->due_after_step(model_.iteration);
    if (agreement_->due(model_.iteration)) {
      const StepWish wish = agree_on_wish();
      due = due || wish.save;
      run_.ending = wish.callbacks_stop;
      if (interrupted()) {
        if (checkpoints_) {
          save(state_at(run_.at.epoch, done));
        }
        return;
      }
    }
    if (due && done < steps_ && !run_.ending) {
      save(state_at(run_.at.epoch, done));
    } else if (due) {
      save_after_epoch_ = true;  // with its validation, under the same number of updates
    }
  }

  void end_epoch() {
    // What a callback decided from something that ranks do not share is rank 0's decision.
    std::array<double, values_after_epoch> decided{run_.ending ? 1.0 : 0.0, run_.learning_rate()};
    const double own_rate = decided[1];
    run_.agree(decided);
    run_.ending = decided[0] != 0;
    if (decided[1] != own_rate) {
      run_.set_learning_rate(decided[1]);
    }
    bool due = checkpoints_ &&
               (save_after_epoch_ || run_.ending || checkpoints_->due_after_epoch(run_.at.epoch) ||
                run_.at.epoch + 1 == options_.epochs);
    if (agreement_->wanted()) {
      due = agree_on_wish().save || interrupted() || due;
    }
    trained_ = true;
    ended_epochs_ = run_.at.epoch + 1;
    if (due && checkpoints_) {
      CheckpointState state = state_at(ended_epochs_, 0);
      state.logs.assign(run_.logs().begin(), run_.logs().end());
      ended_logs_ = state.logs;
      save(std::move(state), run_.ending || ended_epochs_ == options_.epochs);
    }
  }

  // The weights that the run ends with, if they are not those of its last epoch, which have been
  // saved under the same number of updates. `ended_before`: so they were by an earlier run.
  void save_restored(bool ended_before) {
    if (!checkpoints_) {
      return;
    }
    std::array<double, 1> restored{run_.restored ? 1.0 : 0.0};
    run_.agree(restored);
    if (restored[0] == 0 || (ended_before && !trained_)) {
      return;
    }
    CheckpointState state = state_at(ended_epochs_, 0);
    state.logs = ended_logs_;
    save(std::move(state), true);
  }

  [[nodiscard]] bool interrupted() const { return history_.stop_reason != 0; }

  StepWish agree_on_wish() {
    StepWish own;
    own.stop_reason = options_.stop_request ? options_.stop_request->reason() : 0;
    own.callbacks_stop = run_.ending;
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

  void save(CheckpointState state, bool is_last = false) {
    const bool lower =
        run_.better(options_.checkpoint.best).value_or(Better::lower) == Better::lower;
    const TracedActivity saves(&model_.watchdog->trace(), saving_);
    checkpoints_->save(std::move(state), options_.callbacks, lower, is_last);
  }

  // The log by which a checkpoint is best must be one that there can be.
  void check_best() const {
    try {
      check_best_log(options_.checkpoint.best, {run_.names, model_.compiled->metrics});
    } catch (const Error& error) {
      fail("fit: checkpoint.best: {}", error.what());
    }
  }

  // A loss that is no number is said once, also where nothing ends the run for it.
  void look_at_loss() {
    const std::optional<double> loss = run_.logs().find("loss");
    if (told_of_loss_ || run_.ending || !loss || std::isfinite(*loss)) {
      return;
    }
    told_of_loss_ = true;
    const std::string where = run_.where_not_finite();
    tell(
        fmt::format("WARNING: the loss of epoch {} is {}{}; the callback TerminateOnNaN would have "
                    "ended the run at the batch",
                    run_.at.epoch + 1, *loss,
                    where.empty() ? "" : "; after its last batch first seen on " + where));
  }

  // Where the run stands when batch `batch` of epoch `epoch` is the next one.
  CheckpointState state_at(std::int64_t epoch, std::int64_t batch) {
    CheckpointState state = state_of(model_, true);
    state.epoch = epoch;
    state.batch = batch;
    state.stopped = run_.ending;
    sums_.settle();
    state.running = means_.save();
    if (batch == 0) {
      std::fill(state.running.sums.begin(), state.running.sums.end(), 0.0);
      state.running.penalties = 0;
      state.running.rows = 0;
    } else {
      state.samples = run_.at.samples;
    }
    state.data = data_;
    state.data_rows = fed_.rows();
    state.batch_size = options_.batch_size;
    state.steps_per_epoch = steps_;
    state.shuffle = options_.shuffle;
    state.epochs = options_.epochs;
    state.schedule = schedule_;
    state.configuration = options_.configuration;
    state.history_epochs = history_.epoch;
    state.history = history_.history;
    return state;
  }

  // Goes on from what a checkpoint held, if there was one. Variables, slots and callbacks have it.
  void take_up(const std::optional<CheckpointState>& state) {
    if (!state) {
      return;
    }
    resumed_ = true;
    model_.take_up_choices(*state);
    Optimizer& optimizer = model_.compiled->optimizer;
    if (optimizer.schedule().is_constant() && state->constant_rate &&
        state->schedule == schedule_) {
      optimizer.set_learning_rate(state->learning_rate);
    }
    model_.iteration = state->step;
    run_.at.iteration = state->step;
    run_.at.first_epoch = state->epoch;
    run_.at.epoch = state->epoch;
    run_.at.samples = state->samples;
    first_batch_ = state->batch;
    ended_epochs_ = state->epoch;
    ended_logs_ = state->logs;
    if (state->batch > 0) {
      means_.load(state->running);
    }
    run_.ending = state->stopped;
    history_.epoch = state->history_epochs;
    history_.history = state->history;
    recorder_->keep();
    if (run_.ending && state->batch > 0) {
      tell(fmt::format("the run had been ended by a callback; the end of epoch {} is left",
                       state->epoch + 1));
    } else if (run_.ending) {
      tell("the run had been ended by a callback; there is nothing left to train");
    } else if (state->epoch >= options_.epochs) {
      tell(fmt::format("all {} epochs are done; there is nothing left to train", options_.epochs));
    }
  }

  // What a silent run says, too, if it must not be missed.
  void tell(const std::string& line) {
    if (style_.verbosity != Verbosity::silent) {
      run_.say(line);
    } else if (line.starts_with("WARNING")) {
      model_.say(line);
    }
  }

  const HostBatch& next_batch(Feeder& feeder) {
    const TracedActivity reads(&model_.watchdog->trace(), reading_);
    StepProfile* profile = model_.profile.get();
    if (profile != nullptr) profile->spent_on(StepProfile::Part::between);
    const HostBatch& batch = *feeder.next();
    if (profile != nullptr) profile->spent_on(StepProfile::Part::reading);
    return batch;
  }

  void train_batch(const HostBatch& batch) {
    const StepScalars scalars{model_.iteration, static_cast<float>(run_.learning_rate())};
    Step& step = fed_.run(batch, scalars);
    run_.last_step = &step;
    sums_.add(step);
    run_.stale = true;
    ++model_.iteration;
    run_.at.iteration = model_.iteration;
    run_.at.samples += step.rows();
  }

  void write_means(Logs& logs) {
    sums_.settle();
    means_.write(logs);
  }

  // Where it is interrupted, the run goes on from the end of the epoch's `done` batches and
  // validates anew.
  void validate(std::int64_t done) {
    run_.at.batches = validation_->batches();
    callbacks_.call(&Callback::on_test_begin, run_);
    (void)run_.logs();  // with training's means
    run_.refresh = [this](Logs& logs) { validation_->write(logs); };
    try {
      validation_->run(
          [this](std::int64_t batch) {
            run_.at.batch = batch;
            callbacks_.call(&Callback::on_test_batch_begin, run_);
          },
          [this](std::int64_t) {
            run_.stale = true;
            callbacks_.call(&Callback::on_test_batch_end, run_);
          });
    } catch (const Stopped& stopped) {
      history_.stop_reason = stopped.reason();
      if (checkpoints_) {
        CheckpointState state = state_at(run_.at.epoch, done);
        // An epoch without a batch begins anew, and who ended it decides anew.
        state.stopped = run_.ending && done > 0;
        save(std::move(state));
      }
      return;
    }
    callbacks_.call(&Callback::on_test_end, run_);
    run_.at.batches = steps_;
  }

  Model::State& model_;
  FitOptions options_;
  History& history_;
  ProgressStyle style_;
  std::shared_ptr<Progress> progress_;
  std::shared_ptr<HistoryRecorder> recorder_;
  CallbackList callbacks_;
  ModelTraining run_;  // as callbacks see it
  RunningMeans means_;
  LateSums sums_;
  std::string data_;            // fingerprint
  const std::string* reading_;  // labels of the model's trace
  const std::string* called_;
  const std::string* saving_;
  TracePoint profiling_;
  FedSource fed_;
  std::string schedule_;  // of the learning rate, as it was given
  std::optional<Evaluation> validation_;
  std::int64_t steps_ = 0;
  bool told_of_loss_ = false;
  std::int64_t first_batch_ = 0;   // with which the first epoch goes on
  bool save_after_epoch_ = false;  // a checkpoint was due after its last batch
  bool resumed_ = false;           // from a checkpoint
  bool trained_ = false;           // an epoch has ended in this run
  std::int64_t ended_epochs_ = 0;  // that have ended, with earlier runs
  std::vector<std::pair<std::string, double>> ended_logs_;  // of the last of them, as it was saved
  std::optional<StepAgreement> agreement_;
  std::optional<Checkpointing> checkpoints_;
  Model::State::Call leaving_{model_};  // the last: it comes before memory is given back
};

// What decides which steps there are, and what ranks do between them.
Settings settings_of(FitOptions options, const Source& training) {
  options.verbose = Verbosity::automatic;  // each rank as it likes
  OptionLister option;
  describe_data_section(options, option);
  describe_fit_section(options, option);
  Settings settings = std::move(option.settings);
  settings.push_back(setting("samples", training.rows()));
  settings.push_back(setting("initial_epoch", options.initial_epoch));
  settings.push_back(setting("validation", options.validation ? options.validation->rows() : 0));
  settings.push_back(setting("callbacks that decide alike", decide_alike(options.callbacks)));
  settings.push_back(setting("stop_request", options.stop_request != nullptr));
  for (const auto& [name, value] : settings_of(options.checkpoint)) {
    settings.emplace_back("checkpoint." + name, value);
  }
  return settings;
}

}  // namespace

History Model::fit(std::shared_ptr<const Source> training, FitOptions options) {
  const auto call = state_->begin_call("fit", [&] { return settings_of(options, *training); });
  if (!state_->compiled) {
    fail("fit needs a loss and an optimizer: call compile first");
  }
  OptionChecker option("fit");
  describe_data_section(options, option);
  describe_fit_section(options, option);
  if (options.initial_epoch < 0) {
    fail("fit: initial_epoch: expected an integer of at least 0, found {}", options.initial_epoch);
  }
  check_options("checkpoint", options.checkpoint);
  state_->compare(settings_of(options, *training), "what fit is given");
  if (options.validation_split != 0) {
    if (options.validation) {
      fail("fit: give validation data or validation_split, not both");
    }
    ValidationSplit split = split_for_validation(training, options.validation_split);
    training = std::move(split.training);
    options.validation = std::move(split.validation);
  }
  const std::optional<Axis> batch_axis = state_->spread.batch_axis;
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
