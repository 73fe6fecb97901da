#include "runtime/train/callbacks/reduce_lr_on_plateau.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "collectives/error.h"

namespace meshwork {
namespace {

class ReduceLROnPlateauCallback final : public Callback {
 public:
  explicit ReduceLROnPlateauCallback(const ReduceLROnPlateauOptions& options)
      : options_(options),
        monitor_(class_name(), options.monitor, options.mode, options.min_delta) {}

  std::string class_name() const override { return "ReduceLROnPlateau"; }
  std::string subject() const override { return monitor_.name(); }
  bool decides_alike() const override { return true; }
  std::int64_t agreed_values() const override { return Monitor::agreed_values; }
  std::vector<std::string> adds_logs() const override { return {"learning_rate"}; }

  void check(const ExpectedLogs& logs) const override { monitor_.check(logs); }

  void on_train_begin(Training& training) override {
    monitor_.begin(training);
    if (!std::exchange(loaded_, false)) {
      state_ = {};
    }
  }

  void on_epoch_end(Training& training) override {
    const double rate = training.learning_rate();
    training.logs().set("learning_rate", rate);
    const std::optional<double> value = monitor_.value(training);
    if (!value) {
      return;
    }
    if (state_.cooling > 0) {
      --state_.cooling;
      state_.wait = 0;
    }
    if (monitor_.improves(*value, state_.best)) {
      state_.best = value;
      state_.wait = 0;
      return;
    }
    if (state_.cooling > 0 || ++state_.wait < options_.patience || rate <= options_.min_lr) {
      return;
    }
    const double reduced = std::max(rate * options_.factor, options_.min_lr);
    training.set_learning_rate(reduced);
    if (options_.verbose) {
      training.say(
          fmt::format("Epoch {}: ReduceLROnPlateau: {} is {:.5g}, no better than {:.5g}; the "
                      "learning rate goes "
                      "from {:.5g} to {:.5g}",
                      training.position().epoch + 1, monitor_.name(), *value,
                      state_.best.value_or(*value), rate, reduced));
    }
    state_.cooling = options_.cooldown;
    state_.wait = 0;
  }

  CallbackState save() const override {
    CallbackState state{{"wait", static_cast<double>(state_.wait)},
                        {"cooling", static_cast<double>(state_.cooling)}};
    if (state_.best) {
      state["best"] = *state_.best;
    }
    return state;
  }

  void load(const CallbackState& state) override {
    state_.wait = static_cast<std::int64_t>(number_in(state, "wait", class_name()));
    state_.cooling = static_cast<std::int64_t>(number_in(state, "cooling", class_name()));
    state_.best.reset();
    if (state.contains("best")) {
      state_.best = number_in(state, "best", class_name());
    }
    loaded_ = true;
  }

 private:
  struct State {
    std::int64_t wait = 0;
    std::int64_t cooling = 0;
    std::optional<double> best;
  };

  ReduceLROnPlateauOptions options_;
  Monitor monitor_;
  State state_;
  bool loaded_ = false;
};

void check_not_negative(std::int64_t value, const char* option) {
  if (value < 0) {
    fail("ReduceLROnPlateau: {}: expected a number that is not negative, found {}", option, value);
  }
}

}  // namespace

SharedCallback ReduceLROnPlateau(const ReduceLROnPlateauOptions& options) {
  if (!(options.factor >= 0 && options.factor < 1)) {
    fail("ReduceLROnPlateau: factor: expected a number of at least 0 and below 1, found {}",
         options.factor);
  }
  if (!(options.min_lr >= 0 && std::isfinite(options.min_lr))) {
    fail("ReduceLROnPlateau: min_lr: expected a finite number that is not negative, found {}",
         options.min_lr);
  }
  check_not_negative(options.patience, "patience");
  check_not_negative(options.cooldown, "cooldown");
  return std::make_shared<ReduceLROnPlateauCallback>(options);
}

}  // namespace meshwork
