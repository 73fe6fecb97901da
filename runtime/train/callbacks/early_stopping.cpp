#include "runtime/train/callbacks/early_stopping.h"

#include <utility>

#include "collectives/error.h"
#include "runtime/train/from_config.h"

namespace meshwork {
namespace {

class EarlyStoppingCallback final : public Monitor {
 public:
  explicit EarlyStoppingCallback(const EarlyStoppingOptions& options)
      : Monitor("EarlyStopping", options.monitor, options.mode, options.min_delta),
        options_(options) {}

  void on_epoch_end(Training& training) override {
    const std::int64_t epoch = training.position().epoch;
    const std::optional<double> value = monitored(training);
    if (!value || epoch < options_.start_from_epoch) {
      return;
    }
    const bool improved = improves(*value, best_);
    if (options_.restore_best_weights && (improved || !weights_)) {
      weights_ = training.snapshot_weights();
      best_epoch_ = epoch;
    }
    ++wait_;
    if (improved) {
      best_ = value;
      best_epoch_ = epoch;
      if (!options_.baseline || improves(*value, options_.baseline)) {
        wait_ = 0;
      }
      return;
    }
    if (wait_ >= options_.patience && epoch > 0) {
      if (options_.verbose) {
        training.say(fmt::format(
            "Epoch {}: EarlyStopping: {} is {:.5g}, no better than {:.5g} of epoch {}; training "
            "ends",
            epoch + 1, name(), *value, best_.value_or(*value), best_epoch_ + 1));
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
                               training.position().epoch + 1, best_epoch_ + 1));
    }
    exchange_weights(training);
    restored_ = true;
  }

  void take_back_train_end(Training& training) override {
    if (std::exchange(restored_, false) && weights_) {
      exchange_weights(training);
    }
  }

  CallbackState save() const override {
    CallbackState state = Monitor::save();
    state["best_epoch"] = static_cast<double>(best_epoch_);
    if (restored_) {
      state[restored_key] = 1.0;
    }
    return state;
  }

  void load(const CallbackState& state) override {
    Monitor::load(state);
    best_epoch_ = static_cast<std::int64_t>(number_in(state, "best_epoch", class_name()));
    restored_ = state.contains(restored_key);
  }

  std::shared_ptr<const WeightsSnapshot> kept_weights() const override { return weights_; }
  void keep_weights(std::shared_ptr<const WeightsSnapshot> weights) override {
    weights_ = std::move(weights);
  }

 private:
  void forget() override {
    best_epoch_ = 0;
    restored_ = false;
    weights_.reset();
  }

  void exchange_weights(Training& training) {
    std::shared_ptr<const WeightsSnapshot> present = training.snapshot_weights();
    training.restore_weights(*weights_);
    weights_ = std::move(present);
  }

  EarlyStoppingOptions options_;
  std::int64_t best_epoch_ = 0;
  bool restored_ = false;  // the model has the best weights, and weights_ are the last epoch's
  std::shared_ptr<const WeightsSnapshot> weights_;
};

}  // namespace

template <class Visitor>
void describe(EarlyStoppingOptions& options, Visitor& option) {
  option.about("ends training when a log stops improving");
  option("monitor", options.monitor, "log to watch");
  option("min_delta", options.min_delta, any_finite,
         "smallest change that counts as an improvement");
  option("patience", options.patience, at_least(0), "epochs without improvement before the end");
  option("verbose", options.verbose, "print when training ends");
  option.choice("mode", options.mode, monitor_modes, "whether lower or higher is better");
  option("baseline", options.baseline, any_finite, "value that the first improvement has to beat");
  option("restore_best_weights", options.restore_best_weights,
         "end with the weights of the best epoch");
  option("start_from_epoch", options.start_from_epoch, at_least(0), "first epoch that counts");
}

SharedCallback EarlyStopping(const EarlyStoppingOptions& options) {
  check_options("EarlyStopping", options);
  return std::make_shared<EarlyStoppingCallback>(options);
}

void add_early_stopping(Catalog& catalog) {
  catalog.add<SharedCallback, EarlyStoppingOptions>("EarlyStopping", {}, EarlyStopping);
}

}  // namespace meshwork
