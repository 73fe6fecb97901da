#include "runtime/train/callbacks/reduce_lr_on_plateau.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "collectives/error.h"
#include "runtime/train/from_config.h"

namespace meshwork {
namespace {

class ReduceLROnPlateauCallback final : public Monitor {
 public:
  explicit ReduceLROnPlateauCallback(const ReduceLROnPlateauOptions& options)
      : Monitor("ReduceLROnPlateau", options.monitor, options.mode, options.min_delta),
        options_(options) {}

  std::vector<std::string> adds_logs() const override { return {"learning_rate"}; }

  void on_epoch_end(Training& training) override {
    const double rate = training.learning_rate();
    training.logs().set("learning_rate", rate);
    const std::optional<double> value = monitored(training);
    if (!value) {
      return;
    }
    if (cooling_ > 0) {
      --cooling_;
      wait_ = 0;
    }
    if (improves(*value, best_)) {
      best_ = value;
      wait_ = 0;
      return;
    }
    if (cooling_ > 0 || ++wait_ < options_.patience || rate <= options_.min_lr) {
      return;
    }
    const double reduced = std::max(rate * options_.factor, options_.min_lr);
    training.set_learning_rate(reduced);
    if (options_.verbose) {
      training.say(fmt::format(
          "Epoch {}: ReduceLROnPlateau: {} is {:.5g}, no better than {:.5g}; the "
          "learning rate goes "
          "from {:.5g} to {:.5g}",
          training.position().epoch + 1, name(), *value, best_.value_or(*value), rate, reduced));
    }
    cooling_ = options_.cooldown;
    wait_ = 0;
  }

  CallbackState save() const override {
    CallbackState state = Monitor::save();
    state["cooling"] = static_cast<double>(cooling_);
    return state;
  }

  void load(const CallbackState& state) override {
    Monitor::load(state);
    cooling_ = static_cast<std::int64_t>(number_in(state, "cooling", class_name()));
  }

 private:
  void forget() override { cooling_ = 0; }

  ReduceLROnPlateauOptions options_;
  std::int64_t cooling_ = 0;  // epochs until waiting begins again
};

}  // namespace

template <class Visitor>
void describe(ReduceLROnPlateauOptions& options, Visitor& option) {
  option.about("lowers the learning rate when a log stops improving");
  option("monitor", options.monitor, "log to watch");
  option("factor", options.factor, at_least(0).below(1), "factor of the rate");
  option("patience", options.patience, at_least(0), "epochs without improvement before a change");
  option("verbose", options.verbose, "print each change");
  option.choice("mode", options.mode, monitor_modes, "whether lower or higher is better");
  option("min_delta", options.min_delta, any_finite,
         "smallest change that counts as an improvement");
  option("cooldown", options.cooldown, at_least(0), "epochs after a change that do not count");
  option("min_lr", options.min_lr, finite_not_negative, "lowest rate");
}

SharedCallback ReduceLROnPlateau(const ReduceLROnPlateauOptions& options) {
  check_options("ReduceLROnPlateau", options);
  return std::make_shared<ReduceLROnPlateauCallback>(options);
}

void add_reduce_lr_on_plateau(Catalog& catalog) {
  catalog.add<SharedCallback, ReduceLROnPlateauOptions>("ReduceLROnPlateau", {}, ReduceLROnPlateau);
}

}  // namespace meshwork
