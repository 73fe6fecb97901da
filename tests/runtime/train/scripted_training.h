// A training run without a model: the logs of its epochs are written down, and what callbacks do to
// it is recorded.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/train/callbacks/callback.h"
#include "runtime/train/loop/generation.h"
#include "runtime/train/optimizers/optimizer.h"
#include "runtime/train/optimizers/sgd.h"

namespace meshwork::test {

/// Weights that are the number of the epoch that made them.
struct EpochWeights final : WeightsSnapshot {
  explicit EpochWeights(std::int64_t made_in) : epoch(made_in) {}
  std::int64_t epoch;
};

class ScriptedTraining final : public Training {
 public:
  /// `names` are those of the trainer's own logs.
  explicit ScriptedTraining(std::vector<std::string> names, std::vector<SharedCallback> callbacks,
                            Optimizer optimizer = SGD({.learning_rate = 1.0}))
      : callbacks_(std::move(callbacks)),
        optimizer_(std::move(optimizer)),
        names_(std::move(names)) {
    for (const std::string& name : callbacks_.adds_logs()) names_.push_back(name);
  }

  /// What comes before a run that goes on from a checkpoint, which `saved` has: the weights, and
  /// what the callbacks have loaded.
  void go_on(const ScriptedTraining& saved) {
    weights = saved.weights;
    callbacks_.take_back_train_end(*this);
  }

  /// Trains an epoch for each of `epochs`, from `first` on, until a callback stops it. Batches have
  /// the logs of their epoch, 10 samples and 1 iteration each.
  void run(const std::vector<Logs>& epochs, std::int64_t first = 0, std::int64_t batches = 1) {
    place_ = {};
    place_.first_epoch = first;
    place_.epochs = first + static_cast<std::int64_t>(epochs.size());
    place_.batches = batches;
    stopping_ = false;
    callbacks_.call(&Callback::on_train_begin, *this);
    for (const Logs& logs : epochs) {
      place_.epoch = first++;
      place_.batch = 0;
      place_.samples = 0;
      logs_.clear();
      weights = place_.epoch;
      callbacks_.call(&Callback::on_epoch_begin, *this);
      for (; place_.batch < batches && !stopping_; ++place_.batch) {
        callbacks_.call(&Callback::on_train_batch_begin, *this);
        logs_ = logs;
        ++place_.iteration;
        place_.samples += 10;
        callbacks_.call(&Callback::on_train_batch_end, *this);
      }
      logs_ = logs;
      rates.push_back(learning_rate());
      callbacks_.call(&Callback::on_epoch_end, *this);
      ended.push_back(logs_);
      if (stopping_) break;
    }
    callbacks_.call(&Callback::on_train_end, *this);
  }

  const TrainingPosition& position() const override { return place_; }
  Logs& logs() override { return logs_; }
  const std::vector<std::string>& log_names() const override { return names_; }
  std::optional<Better> better(const std::string& name) const override {
    if (name == "loss" || name == "val_loss") return Better::lower;
    if (name == "accuracy" || name == "val_accuracy") return Better::higher;
    return std::nullopt;
  }
  double learning_rate() const override { return optimizer_.learning_rate(place_.iteration); }
  void set_learning_rate(double rate) override { optimizer_.set_learning_rate(rate); }
  void stop() override { stopping_ = true; }
  bool stopping() const override { return stopping_; }
  std::shared_ptr<const WeightsSnapshot> snapshot_weights() override {
    ++snapshots;
    return std::make_shared<EpochWeights>(weights);
  }
  void restore_weights(const WeightsSnapshot& snapshot) override {
    weights = dynamic_cast<const EpochWeights&>(snapshot).epoch;
  }
  std::vector<WeightHistogram> weight_histograms() override { return histograms; }
  std::string generated_text(const std::string& prompt, const GenerationOptions& options) override {
    return prompt + (writes ? writes(options) : "");
  }
  bool is_root() const override { return root; }
  void agree(std::span<double> values) override {
    if (!root) {
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = roots_word.at(i);
    }
  }
  void say(const std::string& line) override { said.push_back(line); }

  bool root = true;
  std::vector<double> roots_word;  // what `agree` gives where this is not the root
  std::int64_t weights = -1;       // the epoch whose weights these are
  int snapshots = 0;
  std::vector<WeightHistogram> histograms;
  std::vector<Logs> ended;    // logs at the end of each epoch
  std::vector<double> rates;  // learning rate at the end of each epoch, before callbacks
  std::vector<std::string> said;
  std::function<std::string(const GenerationOptions&)> writes;  // what a model does

 private:
  CallbackList callbacks_;
  Optimizer optimizer_;
  std::vector<std::string> names_;
  TrainingPosition place_;
  Logs logs_;
  bool stopping_ = false;
};

/// Epochs with these values of one log.
inline std::vector<Logs> epochs_of(const std::string& name, const std::vector<double>& values) {
  std::vector<Logs> epochs;
  for (const double value : values) epochs.push_back({{name, value}});
  return epochs;
}

}  // namespace meshwork::test
