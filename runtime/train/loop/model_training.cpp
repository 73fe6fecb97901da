#include "runtime/train/loop/model_training.h"

#include <utility>

#include "collectives/error.h"
#include "runtime/train/engine/not_finite.h"
#include "runtime/train/state/parameter_snapshot.h"

namespace meshwork {

ModelTraining::ModelTraining(Model::State& model, std::function<void(const std::string&)> say)
    : model_(&model),
      say_(std::move(say)),
      agreeing_(model.watchdog->trace().label("agreement with rank 0 (callbacks)")),
      locating_(&model.watchdog->trace(), "agreement on where a number is not finite") {}

std::optional<Better> ModelTraining::better(const std::string& log_name) const {
  return better_of(log_name, model_->compiled->metrics);
}

double ModelTraining::learning_rate() const {
  return model_->compiled->optimizer.learning_rate(model_->iteration);
}

void ModelTraining::set_learning_rate(double rate) {
  model_->compiled->optimizer.set_learning_rate(rate);
}

std::shared_ptr<const WeightsSnapshot> ModelTraining::snapshot_weights() {
  const auto call = model_->begin_call("snapshot_weights", [] { return Settings{}; });
  return std::make_shared<ParameterSnapshot>(model_->engine->parameters());
}

void ModelTraining::restore_weights(const WeightsSnapshot& snapshot) {
  const auto call = model_->begin_call("restore_weights", [] { return Settings{}; });
  const auto* weights = dynamic_cast<const ParameterSnapshot*>(&snapshot);
  if (weights == nullptr) {
    internal_error("weights of another model's snapshot");
  }
  model_->engine->meet();
  model_->engine->parameters().write_values(weights->values, weights->fixed);
  restored = true;
}

void ModelTraining::agree(std::span<double> numbers) {
  const auto call =
      model_->begin_call("agree", [&] { return Settings{setting("values", numbers.size())}; });
  const TracedCollective inside(&model_->watchdog->trace(), agreeing_);
  model_->transport->broadcast(model_->mesh().all(), ElementType::float64, numbers.data(),
                               static_cast<std::int64_t>(numbers.size()), 0);
}

std::string ModelTraining::where_not_finite() {
  const auto call = model_->begin_call("where_not_finite", [] { return Settings{}; });
  return last_step == nullptr
             ? ""
             : meshwork::where_not_finite(*last_step, model_->mesh().all(), locating_);
}

void ModelTraining::say(const std::string& line) {
  if (is_root()) {
    say_(line);
  }
}

}  // namespace meshwork
