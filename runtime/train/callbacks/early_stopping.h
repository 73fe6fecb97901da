// EarlyStopping: ends training when a monitored value no longer improves.
//
// `wait` counts the epochs since the last improvement, and returns to 0 only if the baseline, where
// one is given, is beaten too. Training stops when wait reaches the patience, never at epoch 0.
// With `restore_best_weights` the weights of the best epoch come back at the end, also when
// training ended by itself; the optimizer's slots stay. It then keeps those of the last epoch
// instead, with which a run goes on that is given more epochs. Epochs without the value (validation
// does not run in all of them) do not count (keras/src/callbacks/early_stopping.py).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "runtime/train/callbacks/callback.h"
#include "runtime/train/callbacks/monitor.h"

namespace meshwork {

struct EarlyStoppingOptions {
  std::string monitor = "val_loss";
  double min_delta = 0;
  std::int64_t patience = 0;
  bool verbose = false;
  MonitorMode mode = MonitorMode::automatic;
  std::optional<double> baseline;
  bool restore_best_weights = false;
  std::int64_t start_from_epoch = 0;
};

/// Throws `Error` for options out of range.
[[nodiscard]] SharedCallback EarlyStopping(const EarlyStoppingOptions& options = {});

}  // namespace meshwork
