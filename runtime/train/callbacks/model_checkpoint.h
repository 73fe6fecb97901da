// ModelCheckpoint: the checkpoints of a run, asked for as in Keras. What it says is what the
// options `checkpoint` of fit say (runtime/checkpoint/options.h): whole states, from which a run
// goes on, in a directory whose files the run names itself.
//
//     ModelCheckpoint: {filepath: checkpoints, monitor: val_loss, save_best_only: true}
//     checkpoint: {directory: checkpoints, best: val_loss, keep: 1}
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "runtime/train/callbacks/callback.h"

namespace meshwork {

/// After how many updates a state is saved; none: after every epoch.
struct SaveFrequency {
  static constexpr const char* expected = "epoch, or a positive number of updates";
  std::optional<std::int64_t> updates;
};

struct ModelCheckpointOptions {
  std::filesystem::path filepath;    // the directory; created if missing
  std::string monitor = "val_loss";  // what says which state is the best
  /// Keep the best state and the newest, from which a run goes on. Else the three newest.
  bool save_best_only = false;
  SaveFrequency save_freq = {};
};

/// Throws `Error` for a file path that is no directory's: one with {epoch}, or of a single file.
[[nodiscard]] SharedCallback ModelCheckpoint(const ModelCheckpointOptions& options);

/// The checkpoints that one of `callbacks` asks for; none if none does. Throws `Error` if two do.
[[nodiscard]] std::optional<CheckpointOptions> checkpoints_of(
    std::span<const SharedCallback> callbacks);

}  // namespace meshwork
