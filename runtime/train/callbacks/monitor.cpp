#include "runtime/train/callbacks/monitor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "collectives/error.h"
#include "runtime/config/nearest.h"

namespace meshwork {

Monitor::Monitor(std::string owner, std::string name, MonitorMode mode, double min_delta)
    : owner_(std::move(owner)), name_(std::move(name)), mode_(mode), min_delta_(min_delta) {
  if (!std::isfinite(min_delta)) {
    fail("{}: min_delta: expected a finite number, found {}", owner_, min_delta);
  }
  min_delta_ = std::abs(min_delta);
}

void check_best_log(const std::string& name, const ExpectedLogs& logs) {
  if (name.empty()) {
    return;
  }
  if (std::find(logs.names.begin(), logs.names.end(), name) == logs.names.end()) {
    fail("\"{}\" is none of the logs, which are {}{}", name, quoted_list(logs.names),
         did_you_mean(name, logs.names));
  }
  if (!better_of(name, logs.better)) {
    fail("of \"{}\" it is not known whether lower or higher is better", name);
  }
}

void Monitor::check(const ExpectedLogs& logs) const {
  (void)direction(logs.names, better_of(name_, logs.better));
}

void Monitor::on_train_begin(Training& training) {
  better_ = direction(training.log_names(), training.better(name_));
  if (!std::exchange(loaded_, false)) {
    wait_ = 0;
    best_.reset();
    forget();
  }
}

CallbackState Monitor::save() const {
  CallbackState state{{"wait", static_cast<double>(wait_)}};
  if (best_) {
    state["best"] = *best_;
  }
  return state;
}

void Monitor::load(const CallbackState& state) {
  wait_ = static_cast<std::int64_t>(number_in(state, "wait", owner_));
  best_.reset();
  if (state.contains("best")) {
    best_ = number_in(state, "best", owner_);
  }
  loaded_ = true;
}

Better Monitor::direction(const std::vector<std::string>& names,
                          std::optional<Better> known) const {
  if (std::find(names.begin(), names.end(), name_) == names.end()) {
    const bool validated = std::any_of(names.begin(), names.end(), [](const std::string& name) {
      return name.starts_with("val_");
    });
    const bool lacks_validation = !validated && name_.starts_with("val_");
    fail("{} monitors \"{}\", but the logs have only {}{}", owner_, name_, quoted_list(names),
         lacks_validation ? "; there is no validation data" : did_you_mean(name_, names));
  }
  if (mode_ != MonitorMode::automatic) {
    return mode_ == MonitorMode::min ? Better::lower : Better::higher;
  }
  if (!known) {
    fail(
        "{} does not know whether lower or higher values of \"{}\" are better; set its mode to min "
        "or max",
        owner_, name_);
  }
  return *known;
}

std::optional<double> Monitor::monitored(Training& training) const {
  const std::optional<double> own = training.logs().find(name_);
  std::array<double, values_> found{own ? 1.0 : 0.0, own.value_or(0)};
  training.agree(found);
  if (found[0] != 0) {
    return found[1];
  }
  if (!name_.starts_with("val_")) {
    fail("{} monitors \"{}\", which is not in the logs of epoch {} (known: {})", owner_, name_,
         training.position().epoch + 1, quoted_list(training.logs().names()));
  }
  return std::nullopt;
}

bool Monitor::improves(double value, std::optional<double> reference) const {
  if (std::isnan(value)) {
    return false;
  }
  if (!reference) {
    return true;
  }
  return better_ == Better::lower ? value + min_delta_ < *reference
                                  : value - min_delta_ > *reference;
}

}  // namespace meshwork
