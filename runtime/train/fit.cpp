// Model::fit: epochs of steps, validation and callbacks.
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "collectives/error.h"
#include "runtime/train/model_state.h"
#include "runtime/train/progress.h"

namespace meshwork {
namespace {

// The values of a model's variables at some moment; the optimizer's slots are not among them.
class ParameterSnapshot final : public WeightsSnapshot {
 public:
  ParameterSnapshot(const Parameters& parameters, Device& device) {
    const ParameterForm& form = parameters.form();
    values.resize(static_cast<std::size_t>(form.trainable_count));
    fixed.resize(static_cast<std::size_t>(form.fixed_count));
    device.copy_out(values.data(), parameters.values(), form.trainable_count * 4);
    device.copy_out(fixed.data(), parameters.fixed(), form.fixed_count * 4);
  }
  std::vector<float> values;
  std::vector<float> fixed;
};

// One run of `fit`, as its callbacks see it.
class Fitting final : public Training {
 public:
  Fitting(Model::State& model, std::shared_ptr<const Source> training, FitOptions options,
          History& history)
      : model_(model),
        options_(std::move(options)),
        style_(progress_style(options_.verbose, STDOUT_FILENO)),
        progress_(std::make_shared<Progress>(std::cout, style_)),
        callbacks_(all_callbacks(history)),
        means_(model.objective, ""),
        fed_(model, Mode::train, std::move(training), options_.batch_size, "training data") {
    if (options_.validation) {
      const std::int64_t size =
          options_.validation_batch_size > 0 ? options_.validation_batch_size : options_.batch_size;
      validation_.emplace(model, options_.validation, size, options_.prefetch, "val_",
                          "validation data");
    }
    agree_on_batches_ =
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
  }

  void run() {
    callbacks_.on_train_begin(*this);
    const std::unique_ptr<Feeder> feeder = fed_.feeder(
        options_.shuffle, {options_.initial_epoch, 0}, options_.epochs, options_.prefetch);
    for (std::int64_t epoch = options_.initial_epoch; epoch < options_.epochs && !stopping_;
         ++epoch) {
      position_.epoch = epoch;
      run_epoch(*feeder);
    }
    callbacks_.on_train_end(*this);
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
    model_.transport->broadcast(model_.mesh().all(), ElementType::float64, values.data(),
                                static_cast<std::int64_t>(values.size()), 0);
  }
  void say(const std::string& line) override {
    if (is_root()) {
      progress_->say(line);
    }
  }

 private:
  // The user's, then the history, then what is shown.
  CallbackList all_callbacks(History& history) const {
    std::vector<SharedCallback> callbacks = options_.callbacks;
    callbacks.push_back(std::make_shared<HistoryRecorder>(history));
    callbacks.push_back(progress_);
    return CallbackList(std::move(callbacks));
  }

  // Every name that logs can have is there from the beginning, so that steps only set values.
  void name_logs() {
    for (const std::string& name : model_.objective.names) {
      log_names_.push_back(name);
    }
    if (validation_) {
      for (const std::string& name : model_.objective.names) {
        log_names_.push_back("val_" + name);
      }
    }
    for (const std::string& name : callbacks_.adds_logs()) {
      if (std::find(log_names_.begin(), log_names_.end(), name) == log_names_.end()) {
        log_names_.push_back(name);
      }
    }
  }

  void run_epoch(Feeder& feeder) {
    logs_.clear();
    means_.reset();
    position_.batch = 0;
    position_.batches = steps_;
    position_.samples = 0;
    callbacks_.on_epoch_begin(*this);
    for (std::int64_t batch = 0; batch < steps_ && !stopping_; ++batch) {
      position_.batch = batch;
      callbacks_.on_train_batch_begin(*this);
      train_batch(*feeder.next());
      callbacks_.on_train_batch_end(*this);
      if (agree_on_batches_) {
        agree_to_stop();
      }
    }
    if (stopping_ || steps_ < fed_.batches()) {
      if (position_.epoch + 1 < options_.epochs) {
        feeder.seek({position_.epoch + 1, 0});
      }
    }
    if (validation_ && (position_.epoch + 1) % options_.validation_frequency == 0) {
      validate();
    }
    callbacks_.on_epoch_end(*this);
    // What a callback decided from something that ranks do not share is rank 0's decision.
    double decided[2] = {stopping_ ? 1.0 : 0.0, learning_rate()};
    const double own_rate = decided[1];
    agree(decided);
    stopping_ = decided[0] != 0;
    if (decided[1] != own_rate) {
      set_learning_rate(decided[1]);
    }
  }

  void agree_to_stop() {
    double stop = stopping_ ? 1.0 : 0.0;
    agree({&stop, 1});
    stopping_ = stop != 0;
  }

  void train_batch(const HostBatch& batch) {
    const StepScalars scalars{model_.iteration, static_cast<float>(learning_rate())};
    Step& step = fed_.run(batch, scalars);
    means_.add(step.sums(), step.has_penalty(), step.rows());
    means_.write(logs_);
    ++model_.iteration;
    position_.iteration = model_.iteration;
    position_.samples += step.rows();
  }

  void validate() {
    position_.batches = validation_->batches();
    callbacks_.on_test_begin(*this);
    validation_->run(
        logs_,
        [this](std::int64_t batch) {
          position_.batch = batch;
          callbacks_.on_test_batch_begin(*this);
        },
        [this](std::int64_t) { callbacks_.on_test_batch_end(*this); });
    callbacks_.on_test_end(*this);
    position_.batches = steps_;
  }

  Model::State& model_;
  FitOptions options_;
  ProgressStyle style_;
  std::shared_ptr<Progress> progress_;
  CallbackList callbacks_;
  RunningMeans means_;
  FedSource fed_;
  std::optional<Evaluation> validation_;
  std::int64_t steps_ = 0;
  TrainingPosition position_;
  Logs logs_;
  std::vector<std::string> log_names_;
  bool stopping_ = false;
  bool agree_on_batches_ = false;  // some callback may stop for reasons that ranks do not share
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
