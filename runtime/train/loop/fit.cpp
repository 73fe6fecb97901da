// Model::fit: epochs of steps, and what comes between them.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <optional>
#include <utility>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "runtime/device/kernels/step_scalars.h"
#include "runtime/train/augment.h"
#include "runtime/train/callbacks/model_checkpoint.h"
#include "runtime/train/loop/between_steps.h"
#include "runtime/train/loop/model_training.h"
#include "runtime/train/loop/saving.h"
#include "runtime/train/loop/step_agreement.h"
#include "runtime/train/model_options.h"
#include "runtime/train/model_state.h"
#include "runtime/train/reporting/progress.h"
#include "runtime/train/reporting/terminal.h"
#include "runtime/train/state/kept_categories.h"

namespace meshwork {
namespace {

bool decide_alike(const std::vector<SharedCallback>& callbacks) {
  return std::all_of(callbacks.begin(), callbacks.end(),
                     [](const SharedCallback& callback) { return callback->decides_alike(); });
}

constexpr int root_of_evaluation = 0;  // the rank that hands weights to evaluators

// What is trained on, as checkpoints compare it.
std::string data_in_words(const Source& training, const WeightsByNumber& weights,
                          const std::vector<SharedMixing>& augment) {
  const ClassWeights by_name(weights.begin(), weights.end());
  std::string words = training.fingerprint();
  if (!weights.empty()) words += "; weights of classes " + to_text(by_name);
  for (const SharedMixing& mixing : augment) words += "; mixed by " + to_text(mixing);
  return words;
}

// One run of `fit`: its epochs and steps, and when it ends. What callbacks see of it is `run_`.
class Fitting {
 public:
  Fitting(Model::State& model, std::shared_ptr<const Source> training, FitOptions options,
          History& history)
      : model_(model),
        options_(std::move(options)),
        history_(history),
        style_(progress_style(options_.verbose, STDOUT_FILENO)),
        progress_(std::make_shared<Progress>(std::cout, style_)),
        run_(model, all_callbacks(), options_.validation != nullptr || options_.evaluates_elsewhere,
             [this](const std::string& line) { show(line); }),
        means_(*model.device, model.objective, "", model.logs_gradient_norm()),
        data_(data_in_words(*training, model.objective.data.class_weight, options_.augment)),
        categories_(category_records(training->categories())),
        reading_(model.watchdog->trace().label("reading of training data")),
        called_(model.watchdog->trace().label("callbacks")),
        profiling_(&model.watchdog->trace(), "gathering of the profile"),
        evaluating_(&model.watchdog->trace(), "evaluation by ranks that do not train"),
        fed_(model, Mode::train, std::move(training), options_.batch_size, "training data",
             data_on_device(), options_.walk, options_.augment),
        steps_(steps_of_epoch(options_, fed_.rows())) {
    model.make_room = [progress = progress_] { progress->make_room(); };
    if (options_.validation) {
      const std::int64_t size = options_.validation_batch_size.value_or(options_.batch_size);
      validation_.emplace(model, options_.validation, size, options_.prefetch, "val_",
                          "validation data", options_.stop_request, data_on_device());
    }
    run_.calls = options_.rpc;
    run_.role_map = options_.roles;
    run_.at.first_epoch = options_.initial_epoch;
    run_.at.epochs = options_.epochs;
    run_.at.iteration = model.iteration;
    if (options_.steps_per_epoch && *options_.steps_per_epoch > steps_) {
      model.say(
          fmt::format("warning: steps_per_epoch is {}, but the data has only {} batches of {}: "
                      "an epoch has {}",
                      *options_.steps_per_epoch, steps_, options_.batch_size, steps_));
    }
    history.params = {static_cast<int>(style_.verbosity), options_.epochs, steps_};
    saving_.emplace(model, options_, run_, means_, history,
                    Saving::Data{data_, categories_, fed_.rows(), steps_},
                    [this](const std::string& line) { tell(line); });
    saving_->settle_before([this] { finish_evaluation(); });
    const bool callbacks_differ =
        model.mesh().shape().rank_count() > 1 && !decide_alike(options_.callbacks);
    agreement_.emplace(*model.transport, model.mesh().all(),
                       options_.stop_request != nullptr || saving_->needs_agreement(),
                       callbacks_differ, &model.watchdog->trace());
  }

  ~Fitting() {
    model_.profile.reset();
    model_.make_room = nullptr;
  }

  void run() {
    try {
      run_all();
    } catch (const std::exception& error) {
      saving_->give_up(error.what());
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
    callbacks.push_back(std::make_shared<HistoryRecorder>(history_));
    callbacks.push_back(progress_);
    return CallbackList(std::move(callbacks));
  }

  void run_all() {
    saving_->resume();
    // Not before: a checkpoint may say by which kernels.
    if (!make_steps()) {
      return;
    }
    warn_of_validation();
    saving_->begin();
    if (options_.profile) {
      model_.profile = std::make_unique<StepProfile>(*model_.device, options_.batch_size);
    }
    run_.call(&Callback::on_train_begin);
    std::int64_t first = saving_->first_batch();
    // After the last batch of an epoch only its end is left; the feeder goes to the next one.
    const BatchPosition start = first < fed_.batches() ? BatchPosition{run_.at.first_epoch, first}
                                                       : BatchPosition{run_.at.first_epoch + 1, 0};
    const std::unique_ptr<Feeder> feeder =
        fed_.feeder(options_.shuffle, start, options_.epochs, options_.prefetch);
    // A run that a callback ended inside an epoch, and that was then cut off, still has its end.
    for (std::int64_t epoch = run_.at.first_epoch;
         epoch < options_.epochs && (!run_.ending || first > 0) && !interrupted(); ++epoch) {
      run_.at.epoch = epoch;
      run_epoch(*feeder, std::exchange(first, 0));
    }
    finish_evaluation();
    if (!interrupted()) {
      run_.restored = false;  // that counts which is done now
      run_.use_averages(true);
      run_.call(&Callback::on_train_end);
      saving_->end_training();
      if (validation_expected_ && !validated_) {
        tell(
            fmt::format("WARNING: the run ended before an epoch with validation (validation_freq: "
                        "{}): the validation data were not evaluated",
                        options_.validation_freq));
      }
    }
    saving_->finish();
    if (interrupted()) {
      run_.use_averages(false);
    } else if (run_.averaged) {
      run_.settle_averages();
    }
    if (model_.profile) {
      model_.profile->compare(*model_.transport, model_.mesh().all(), profiling_,
                              model_.engine->plan(), options_.walk);
      history_.step_parts = model_.profile->parts();
      if (style_.verbosity != Verbosity::silent) {
        run_.say(model_.profile->report(text_width(STDOUT_FILENO)));
      }
    }
  }

  [[nodiscard]] bool validates_after(std::int64_t epoch) const {
    return (epoch + 1) % options_.validation_freq == 0;
  }

  // Of what is asked for and will not be computed.
  void warn_of_validation() {
    const bool validates = validation_ || options_.evaluates_elsewhere;
    if (!validates && options_.validation_freq != 1) {
      tell(fmt::format("WARNING: validation_freq is {}, but there are no validation data",
                       options_.validation_freq));
    }
    const bool trains = run_.at.first_epoch < options_.epochs && !run_.ending;
    if (!validates || !trains) return;
    for (std::int64_t epoch = run_.at.first_epoch; epoch < options_.epochs; ++epoch) {
      validation_expected_ = validation_expected_ || validates_after(epoch);
    }
    if (!validation_expected_) {
      tell(
          fmt::format("WARNING: validation_freq is {}, which epochs {} to {} do not reach: the "
                      "validation data are not evaluated",
                      options_.validation_freq, run_.at.first_epoch + 1, options_.epochs));
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

  // An epoch from batch `first` on.
  void run_epoch(Feeder& feeder, std::int64_t first) {
    is_at_end_ = false;
    run_.logs().clear();
    run_.refresh = [this](Logs& logs) { means_.write(logs); };
    if (first == 0) {
      means_.reset();
      run_.at.samples = 0;
    }
    run_.stale = true;
    run_.at.batch = first;
    run_.at.batches = steps_;
    // What the rank does, but for the instructions of steps, which say so themselves.
    const TracedActivity calls(&model_.watchdog->trace(), called_);
    run_.use_averages(false);
    run_.call(&Callback::on_epoch_begin);
    if (model_.profile) model_.profile->skip();
    std::int64_t done = first;
    for (std::int64_t batch = first; batch < steps_ && !run_.ending; ++batch) {
      run_.at.batch = batch;
      run_.call(&Callback::on_train_batch_begin);
      train_batch(next_batch(feeder));
      run_.call(&Callback::on_train_batch_end);
      done = batch + 1;
      end_step(done);
      if (model_.profile) model_.profile->end_step(*run_.last_step);
      if (interrupted()) {
        return;
      }
    }
    if ((run_.ending || steps_ < fed_.batches()) && run_.at.epoch + 1 < options_.epochs) {
      feeder.seek({run_.at.epoch + 1, 0});
    }
    look_at_loss();
    finish_evaluation();  // of the epoch before
    if (options_.evaluates_elsewhere && validates_after(run_.at.epoch)) {
      start_evaluation();
      if (epochs_wait()) finish_evaluation();
      run_.awaits_evaluation = evaluated_.has_value();
      run_.call(&Callback::on_test_end);
    }
    if (validation_ && validates_after(run_.at.epoch)) {
      try {
        run_.validate(*validation_);
        validated_ = true;
      } catch (const Stopped& stopped) {
        history_.stop_reason = stopped.reason();
        saving_->leave(done, true);
        return;
      }
    }
    ended_without_ = run_.awaits_evaluation = evaluated_.has_value();
    run_.call(&Callback::on_epoch_end);
    run_.awaits_evaluation = false;
    end_epoch();
  }

  // Whether an epoch ends with its validation, whoever does that.
  [[nodiscard]] bool epochs_wait() const {
    return !options_.checkpoint.best.empty() ||
           std::ranges::any_of(options_.callbacks, [](const SharedCallback& callback) {
             return callback->waits_for_validation();
           });
  }

  // Hands the weights of this epoch to who evaluates them. Callbacks may put others in their place
  // meanwhile, as for any validation.
  void start_evaluation() {
    validated_ = true;
    (void)run_.logs();
    run_.call(&Callback::on_test_begin);
    std::vector<float> weights;
    for (std::size_t i = 0; i < model_.graph->variables.size(); ++i) {
      const std::vector<float> values =
          model_.engine->gather(static_cast<int>(i), its_value, root_of_evaluation);
      weights.insert(weights.end(), values.begin(), values.end());
    }
    together(
        model_.mesh().all(),
        [&] {
          if (model_.is_root()) options_.evaluator->start(run_.at.epoch, std::move(weights));
        },
        evaluating_);
    evaluated_ = Evaluated{run_.at, {}};
    is_at_end_ = true;
  }

  // Waits for the values of the epoch whose weights were handed over last, if there is one, and
  // passes them on.
  void finish_evaluation() {
    if (!evaluated_) return;
    const std::vector<std::string>& names = model_.objective.names;
    std::vector<double> values(names.size());
    together(
        model_.mesh().all(),
        [&] {
          if (!model_.is_root()) return;
          const Logs logs = options_.evaluator->finish();
          for (std::size_t i = 0; i < names.size(); ++i) values[i] = logs.at(names[i]);
        },
        evaluating_);
    run_.agree(values);
    Evaluated evaluated = std::move(*evaluated_);
    evaluated_.reset();
    for (std::size_t i = 0; i < names.size(); ++i) {
      evaluated.logs.set("val_" + names[i], values[i]);
    }
    if (is_at_end_) {
      for (const auto& [name, value] : evaluated.logs) run_.logs().set(name, value);
    }
    if (std::exchange(ended_without_, false)) run_.callbacks.call_evaluated(run_, evaluated);
  }

  // What all ranks do after `done` batches of an epoch: the one place in which a run ends early, or
  // saves itself, for a reason that not all of them see.
  void end_step(std::int64_t done) {
    bool save = false;
    if (agreement_->due(model_.iteration)) {
      const StepWish wish = agree_on_wish();
      save = wish.save;
      run_.ending = wish.callbacks_stop;
      if (interrupted()) {
        saving_->leave(done, false);
        return;
      }
    }
    saving_->end_step(done, save);
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
    const bool save =
        agreement_->wanted() && (agree_on_wish(saving_->is_best_epoch()).save || interrupted());
    saving_->end_epoch(save);
  }

  [[nodiscard]] bool interrupted() const { return history_.stop_reason != 0; }

  // `save`: for another reason than the clock's.
  StepWish agree_on_wish(bool save = false) {
    const StepWish wish = agreement_->agree(
        model_.iteration,
        {.stop_reason = options_.stop_request ? options_.stop_request->reason() : 0,
         .callbacks_stop = run_.ending,
         .save = save || saving_->due_by_clock(),
         .settle = saving_->has_ended()});
    if (wish.settle) {
      saving_->settle();
    }
    history_.stop_reason = wish.stop_reason;
    return wish;
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

  [[nodiscard]] bool is_silent() const { return style_.verbosity == Verbosity::silent; }

  // On rank 0. Warnings of a silent run go where errors do.
  void show(const std::string& line) {
    if (is_silent() && is_warning(line)) {
      model_.say(line);
    } else {
      progress_->say(line);
    }
  }

  // A silent run tells of warnings alone.
  void tell(const std::string& line) {
    if (!is_silent() || is_warning(line)) run_.say(line);
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
    means_.add(step);
    run_.stale = true;
    ++model_.iteration;
    run_.at.iteration = model_.iteration;
    run_.at.samples += step.rows();
  }

  Model::State& model_;
  FitOptions options_;
  History& history_;
  ProgressStyle style_;
  std::shared_ptr<Progress> progress_;
  ModelTraining run_;
  RunningMeans means_;
  std::string data_;                              // fingerprint
  const std::vector<CategoryRecord> categories_;  // of it
  const std::string* reading_;                    // labels of the model's trace
  const std::string* called_;
  TracePoint profiling_;
  TracePoint evaluating_;
  FedSource fed_;
  std::int64_t steps_;  // of an epoch
  std::optional<Evaluation> validation_;
  bool told_of_loss_ = false;
  bool validation_expected_ = false;  // of an epoch that this run trains
  bool validated_ = false;
  std::optional<Evaluated> evaluated_;  // the epoch that is being evaluated elsewhere
  bool is_at_end_ = false;              // of which the logs are still there
  bool ended_without_ = false;          // and whose end callbacks have seen
  std::optional<Saving> saving_;
  std::optional<StepAgreement> agreement_;
  Model::State::Call leaving_{model_};  // the last: it comes before memory is given back
};

// What decides which steps there are, and what ranks do between them.
Settings settings_of(FitOptions options, const Source& training,
                     const std::optional<StagedAxis>& staged) {
  options.verbose = Verbosity::automatic;  // each rank as it likes
  OptionList list;
  OptionVisitor option = option_lister(list);
  describe_data_section(options, option);
  describe_fit_section(options, option);
  describe_augment(options.augment, option);
  Settings settings = std::move(list.settings);
  settings.push_back(setting("pipeline.schedule", options.walk.schedule.name));
  settings.push_back(setting("pipeline.axis", staged ? staged->axis : -1));
  settings.push_back(setting("pipeline.chunks", staged ? staged->chunks : 1));
  settings.push_back(setting("samples", training.rows()));
  settings.push_back(setting("initial_epoch", options.initial_epoch));
  settings.push_back(setting("validation", options.validation ? options.validation->rows() : 0));
  settings.push_back(setting("evaluates elsewhere", options.evaluates_elsewhere));
  settings.push_back(setting("callbacks that decide alike", decide_alike(options.callbacks)));
  settings.push_back(setting("stop_request", options.stop_request != nullptr));
  for (const auto& [name, value] : settings_of(options.checkpoint)) {
    settings.emplace_back("checkpoint." + name, value);
  }
  return settings;
}

}  // namespace

History Model::fit(std::shared_ptr<const Source> training, FitOptions options) {
  const auto call = state_->begin_call(
      "fit", [&] { return settings_of(options, *training, state_->spread.staged); });
  if (!state_->compiled) {
    fail("fit needs a loss and an optimizer: call compile first");
  }
  OptionVisitor option = option_checker("fit");
  describe_data_section(options, option);
  describe_fit_section(options, option);
  if (options.initial_epoch < 0) {
    fail("fit: initial_epoch: expected an integer of at least 0, found {}", options.initial_epoch);
  }
  if (const auto asked = checkpoints_of(options.callbacks)) {
    if (options.checkpoint.directory.empty()) options.checkpoint = *asked;
  }
  check_options("checkpoint", options.checkpoint);
  state_->compare(settings_of(options, *training, state_->spread.staged), "what fit is given");
  if (options.evaluates_elsewhere) {
    if (options.validation || options.validation_split != 0) {
      fail("fit: other ranks evaluate the epochs, so give no validation data here");
    }
    together(state_->mesh().all(), [&] {
      if (state_->mesh().rank() == 0 && options.evaluator == nullptr) {
        fail("fit: evaluates_elsewhere needs an evaluator on rank 0");
      }
    });
  }
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
  check_batching(training->rows(), options.batch_size, options.walk.micro_batches,
                 batch_axis ? mesh.size(*batch_axis) : 1, batch_axis ? mesh.name(*batch_axis) : "",
                 "training data");
  if (state_->fitting) {
    fail("fit: the model is being fitted already");
  }
  const std::optional<LossData> data =
      loss_data_of(*training, options.validation.get(), options.class_weight);
  if (options.memory && state_->limit != options.memory->bytes) {
    draw_within(*options.memory, *state_, *training, data, options.batch_size, options.walk,
                state_->device->traits());
  }
  state_->prepare(data, options.walk.rows_at_once(options.batch_size));
  check_augment(options.augment, state_->objective);
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
