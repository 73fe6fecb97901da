// ModelTraining: what callbacks see of a run on a model, and what they do to it (training.h).
//
// `fit` keeps it up to date: it moves the position, writes the logs and looks whether a callback
// has asked for the end. What callbacks ask of the model (weights, the learning rate, rank 0's
// word) is answered here.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/train/loop/training.h"
#include "runtime/train/model_state.h"

namespace meshwork {

class ModelTraining final : public Training {
 public:
  /// `say` prints a line for the user, on the root. `model`, which has its parameters, outlives
  /// this.
  ModelTraining(Model::State& model, CallbackList callbacks, bool validated,
                std::function<void(const std::string&)> say);

  // ---- for callbacks ----------------------------------------------------------------------------

  const TrainingPosition& position() const override { return at; }
  Logs& logs() override {
    if (std::exchange(stale, false)) refresh(logs_);
    return logs_;
  }
  bool evaluation_follows() const override { return awaits_evaluation; }
  const std::vector<std::string>& log_names() const override { return names; }
  std::optional<Better> better(const std::string& log_name) const override;
  double learning_rate() const override;
  void set_learning_rate(double rate) override;
  void stop() override { ending = true; }
  bool stopping() const override { return ending; }
  std::shared_ptr<const WeightsSnapshot> snapshot_weights() override;
  void restore_weights(const WeightsSnapshot& snapshot) override;
  std::vector<float> weights(const std::string& path) override;
  bool keeps_averages() const override;
  void use_averages(bool wanted) override;
  std::vector<WeightHistogram> weight_histograms() override;
  std::string generated_text(const std::string& prompt, const GenerationOptions& options) override;
  Rpc* rpc() override { return calls; }
  const RoleMap* roles() const override { return role_map; }
  bool is_root() const override { return model_->is_root(); }
  void agree(std::span<double> numbers) override;
  std::string where_not_finite() override;
  void say(const std::string& line) override;

  // ---- for `fit` --------------------------------------------------------------------------------

  void call(void (Callback::*event)(Training&)) { callbacks.call(event, *this); }
  /// The weights as they are become their means. Collective.
  void settle_averages();
  /// One pass over the data of `validation`, with its events; afterwards the logs have its means,
  /// too. Throws `Stopped` as it does.
  void validate(Evaluation& validation);

  CallbackList callbacks;
  TrainingPosition at;
  std::vector<std::string> names;      // that logs can have; there from the beginning of the run
  bool ending = false;                 // a callback has asked for the end
  Step* last_step = nullptr;           // of training
  std::function<void(Logs&)> refresh;  // writes the running means as they are
  bool stale = false;                  // the means have changed since they were written
  Rpc* calls = nullptr;                // between all ranks of the job
  const RoleMap* role_map = nullptr;   // likewise
  bool awaits_evaluation = false;      // the epoch that ends is being evaluated elsewhere
  bool restored = false;               // a callback has restored weights
  bool averaged = false;               // weights and their running means have changed places

 private:
  Model::State* model_;
  std::function<void(const std::string&)> say_;
  const std::string* agreeing_;  // label of the model's trace
  TracePoint locating_;
  TracePoint counting_;
  Logs logs_;
};

}  // namespace meshwork
