#include "runtime/train/callbacks/early_stopping.h"

#include <utility>

#include "collectives/error.h"
#include "runtime/train/from_config.h"

namespace meshwork {
namespace {

class EarlyStoppingCallback final : public Callback {
 public:
  explicit EarlyStoppingCallback(const EarlyStoppingOptions& options)
      : options_(options),
        monitor_(class_name(), options.monitor, options.mode, options.min_delta) {}

  std::string class_name() const override { return "EarlyStopping"; }
  std::string subject() const override { return monitor_.name(); }
  bool decides_alike() const override { return true; }
  std::int64_t agreed_values() const override { return Monitor::agreed_values; }

  void check(const ExpectedLogs& logs) const override { monitor_.check(logs); }

  void on_train_begin(Training& training) override {
    monitor_.begin(training);
    if (!std::exchange(loaded_, false)) {
      state_ = {};
      weights_.reset();
    }
  }

  void on_epoch_end(Training& training) override {
    const std::int64_t epoch = training.position().epoch;
    const std::optional<double> value = monitor_.value(training);
    if (!value || epoch < options_.start_from_epoch) {
      return;
    }
    const bool improved = monitor_.improves(*value, state_.best);
    if (options_.restore_best_weights && (improved || !weights_)) {
      weights_ = training.snapshot_weights();
      state_.best_epoch = epoch;
    }
    ++state_.wait;
    if (improved) {
      state_.best = value;
      state_.best_epoch = epoch;
      if (!options_.baseline || monitor_.improves(*value, options_.baseline)) {
        state_.wait = 0;
      }
      return;
    }
    if (state_.wait >= options_.patience && epoch > 0) {
      if (options_.verbose) {
        training.say(fmt::format(
            "Epoch {}: EarlyStopping: {} is {:.5g}, no better than {:.5g} of epoch {}; training "
            "ends",
            epoch + 1, monitor_.name(), *value, state_.best.value_or(*value),
            state_.best_epoch + 1));
      }
      training.stop();
    }
  }

  void on_train_end(Training& training) override {
    if (!options_.restore_best_weights || !weights_) {
      return;
    }
    if (options_.verbose) {
      training.say(fmt::format("Epoch {}: EarlyStopping: the weights are those of epoch {} again",
                               training.position().epoch + 1, state_.best_epoch + 1));
    }
    exchange_weights(training);
    state_.restored = true;
  }

  void take_back_train_end(Training& training) override {
    if (std::exchange(state_.restored, false) && weights_) {
      exchange_weights(training);
    }
  }

  CallbackState save() const override {
    CallbackState state{{"wait", static_cast<double>(state_.wait)},
                        {"best_epoch", static_cast<double>(state_.best_epoch)}};
    if (state_.best) {
      state["best"] = *state_.best;
    }
    if (state_.restored) {
      state[restored_key] = 1.0;
    }
    return state;
  }

  void load(const CallbackState& state) override {
    state_.wait = static_cast<std::int64_t>(number_in(state, "wait", class_name()));
    state_.best_epoch = static_cast<std::int64_t>(number_in(state, "best_epoch", class_name()));
    state_.best.reset();
    if (state.contains("best")) {
      state_.best = number_in(state, "best", class_name());
    }
    state_.restored = state.contains(restored_key);
    loaded_ = true;
  }

  std::shared_ptr<const WeightsSnapshot> kept_weights() const override { return weights_; }
  void keep_weights(std::shared_ptr<const WeightsSnapshot> weights) override {
    weights_ = std::move(weights);
  }

 private:
  struct State {
    std::int64_t wait = 0;
    std::int64_t best_epoch = 0;
    std::optional<double> best;
    bool restored = false;  // the model has the best weights, and weights_ are the last epoch's
  };

  void exchange_weights(Training& training) {
    std::shared_ptr<const WeightsSnapshot> present = training.snapshot_weights();
    training.restore_weights(*weights_);
    weights_ = std::move(present);
  }

  EarlyStoppingOptions options_;
  Monitor monitor_;
  State state_;
  std::shared_ptr<const WeightsSnapshot> weights_;
  bool loaded_ = false;
};

}  // namespace

template <class Visitor>
void describe(EarlyStoppingOptions& options, Visitor& option) {
  option("monitor", options.monitor, "the log that is watched");
  option("min_delta", options.min_delta, finite, "what counts as better");
  option("patience", options.patience, at_least(0), "epochs that may be no better");
  option("verbose", options.verbose, "say when training ends");
  option.choice("mode", options.mode, monitor_modes, "whether lower or higher is better");
  option("baseline", options.baseline, finite, "what has to be bettered at first");
  option("restore_best_weights", options.restore_best_weights, "end with those of the best epoch");
  option("start_from_epoch", options.start_from_epoch, at_least(0), "epochs that do not count");
}

SharedCallback EarlyStopping(const EarlyStoppingOptions& options) {
  check_options("EarlyStopping", options);
  return std::make_shared<EarlyStoppingCallback>(options);
}

void add_early_stopping(Catalog& catalog) {
  catalog.add<SharedCallback, EarlyStoppingOptions>("EarlyStopping", {}, EarlyStopping);
}

}  // namespace meshwork
