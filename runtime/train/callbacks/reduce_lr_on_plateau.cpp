#include "runtime/train/callbacks/reduce_lr_on_plateau.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "collectives/error.h"
#include "runtime/train/from_config.h"

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

}  // namespace

template <class Visitor>
void describe(ReduceLROnPlateauOptions& options, Visitor& option) {
  option("monitor", options.monitor, "the log that is watched");
  option("factor", options.factor, at_least(0).below(1), "what the rate is multiplied by");
  option("patience", options.patience, at_least(0), "epochs that may be no better");
  option("verbose", options.verbose, "say when the rate changes");
  option.choice("mode", options.mode, monitor_modes, "whether lower or higher is better");
  option("min_delta", options.min_delta, finite, "what counts as better");
  option("cooldown", options.cooldown, at_least(0), "epochs after a change that do not count");
  option("min_lr", options.min_lr, finite_not_negative, "the least rate");
}

SharedCallback ReduceLROnPlateau(const ReduceLROnPlateauOptions& options) {
  check_options("ReduceLROnPlateau", options);
  return std::make_shared<ReduceLROnPlateauCallback>(options);
}

void add_reduce_lr_on_plateau(Catalog& catalog) {
  catalog.add<SharedCallback, ReduceLROnPlateauOptions>("ReduceLROnPlateau", {}, ReduceLROnPlateau);
}

}  // namespace meshwork
