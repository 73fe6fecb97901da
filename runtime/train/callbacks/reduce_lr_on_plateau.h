// ReduceLROnPlateau: lowers the learning rate when a monitored value no longer improves.
//
// After `patience` epochs without an improvement the rate is multiplied by `factor`, down to
// `min_lr`; then `cooldown` epochs pass before waiting begins again. The logs get "learning_rate",
// the rate of the epoch that has ended (keras/src/callbacks/reduce_lr_on_plateau.py).
#pragma once

#include <cstdint>
#include <string>

#include "runtime/train/callbacks/callback.h"
#include "runtime/train/callbacks/monitor.h"

namespace meshwork {

struct ReduceLROnPlateauOptions {
  std::string monitor = "val_loss";
  double factor = 0.1;  // from 0, below 1
  std::int64_t patience = 10;
  bool verbose = false;
  MonitorMode mode = MonitorMode::automatic;
  double min_delta = 1e-4;
  std::int64_t cooldown = 0;
  double min_lr = 0;
};

/// Throws `Error` for options out of range.
[[nodiscard]] SharedCallback ReduceLROnPlateau(const ReduceLROnPlateauOptions& options = {});

}  // namespace meshwork
