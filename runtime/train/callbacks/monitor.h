// Monitor: the one value in the logs that a callback watches, and what counts as better.
//
// In mode `automatic` losses fall, metrics go the way they say, and anything else is an error that
// asks for a mode. A value is an improvement if it lies beyond the best by more than `min_delta`; a
// value that is not a number never is. It is the root's value that decides, on every rank.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/config/node.h"
#include "runtime/train/loop/training.h"

namespace meshwork {

enum class MonitorMode : std::uint8_t { automatic, min, max };
inline const ChoiceTable<MonitorMode> monitor_modes{
    {"auto", MonitorMode::automatic}, {"min", MonitorMode::min}, {"max", MonitorMode::max}};

/// Throws `Error` unless `name`, by which a checkpoint is the best, is empty or a log whose
/// direction is known.
void check_best_log(const std::string& name, const ExpectedLogs& logs);

class Monitor {
 public:
  /// `owner` is the callback's class, for messages. The sign of `min_delta` does not matter. Throws
  /// `Error` if it is not finite.
  Monitor(std::string owner, std::string name, MonitorMode mode, double min_delta);

  /// The values that `value` hands to all ranks.
  static constexpr std::size_t agreed_values = 2;

  [[nodiscard]] const std::string& name() const { return name_; }

  /// Throws `Error` for a name that the logs cannot have, with those they can and the nearest one,
  /// and where a mode is needed.
  void check(const ExpectedLogs& logs) const;
  /// To be called at train begin: checks the same, and decides the direction.
  void begin(const Training& training);
  /// The value at an epoch's end; none if it is one of validation and there was none in this epoch.
  /// Every rank calls it. Throws `Error` if another value is missing.
  [[nodiscard]] std::optional<double> value(Training& training) const;
  /// Whether `value` improves on `reference`, or is the first (and a number).
  [[nodiscard]] bool improves(double value, std::optional<double> reference) const;

 private:
  [[nodiscard]] Better direction(const std::vector<std::string>& log_names,
                                 std::optional<Better> known) const;

  std::string owner_;
  std::string name_;
  MonitorMode mode_;
  double min_delta_;
  Better better_ = Better::lower;
};

}  // namespace meshwork
