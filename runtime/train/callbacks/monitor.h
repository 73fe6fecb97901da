// Monitor: a callback that watches one value in the logs, and what counts as better.
//
// In mode `automatic` losses fall, metrics go the way they say, and anything else is an error that
// asks for a mode. A value is an improvement if it lies beyond the best by more than `min_delta`; a
// value that is not a number never is. It is the root's value that decides, on every rank.
//
// What is derived from it says what happens at the end of an epoch, and which further numbers it
// remembers beside the best value and how long it has waited for a better one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/config/node.h"
#include "runtime/train/callbacks/callback.h"

namespace meshwork {

enum class MonitorMode : std::uint8_t { automatic, min, max };
inline const ChoiceTable<MonitorMode> monitor_modes{
    {"auto", MonitorMode::automatic}, {"min", MonitorMode::min}, {"max", MonitorMode::max}};

/// Throws `Error` unless `name`, by which a checkpoint is the best, is empty or a log whose
/// direction is known.
void check_best_log(const std::string& name, const ExpectedLogs& logs);

class Monitor : public Callback {
 public:
  std::string class_name() const final { return owner_; }
  std::string subject() const final { return name_; }
  bool decides_alike() const final { return true; }
  bool waits_for_validation() const final { return name_.starts_with("val_"); }
  std::int64_t agreed_values() const final { return values_; }
  /// Throws `Error` for a name that the logs cannot have, with those they can and the nearest one,
  /// and where a mode is needed.
  void check(const ExpectedLogs& logs) const final;
  /// Checks the same, and decides the direction.
  void on_train_begin(Training& training) final;
  CallbackState save() const override;
  void load(const CallbackState& state) override;

 protected:
  /// `owner` is the class, for messages. The sign of `min_delta` does not matter. Throws `Error` if
  /// it is not finite.
  Monitor(std::string owner, std::string name, MonitorMode mode, double min_delta);

  [[nodiscard]] const std::string& name() const { return name_; }
  /// The value at an epoch's end; none if it is one of validation and there was none in this epoch.
  /// Every rank calls it. Throws `Error` if another value is missing.
  [[nodiscard]] std::optional<double> monitored(Training& training) const;
  /// Whether `value` improves on `reference`, or is the first (and a number).
  [[nodiscard]] bool improves(double value, std::optional<double> reference) const;
  /// A run begins that goes on from no other.
  virtual void forget() = 0;

  std::int64_t wait_ = 0;  // epochs without a better value
  std::optional<double> best_;

 private:
  static constexpr std::size_t values_ = 2;  // that `monitored` hands to all ranks
  [[nodiscard]] Better direction(const std::vector<std::string>& log_names,
                                 std::optional<Better> known) const;

  std::string owner_;
  std::string name_;
  MonitorMode mode_;
  double min_delta_;
  Better better_ = Better::lower;
  bool loaded_ = false;
};

}  // namespace meshwork
