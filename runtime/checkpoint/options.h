// Checkpoint options: where checkpoints are, when they are written, how, and what to do with those
// that are there when a run begins. The same in C++ and in a configuration:
//
//     .checkpoint = {.directory = "checkpoints", .every_epochs = 1, .resume = Resume::automatic}
//     checkpoint: {directory: checkpoints, every_epochs: 1, keep: 3, resume: auto}
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "runtime/config/options.h"

namespace meshwork {

/// What a run does with the checkpoints in its directory. Without any, it begins anew in each case.
enum class Resume : std::uint8_t {
  automatic,  // goes on from the newest whole one; damaged newer ones are reported and passed over
  strict,     // goes on from the newest one; if that is damaged, it is an error
  never       // there must not be any: a fresh run beside another's checkpoints is an error
};

/// Whether training waits while a checkpoint is written.
enum class CheckpointMode : std::uint8_t {
  synchronous,  // yes
  asynchronous  // no: it waits for a copy in memory, which a thread writes meanwhile
};

/// Who writes the data into the file; the same file comes out.
enum class CheckpointWriter : std::uint8_t {
  parallel,  // every rank its own blocks, through parallel HDF5
  plain      // rank 0, which is sent block after block: for file systems without a sound MPI-IO
};

/// What happens when a checkpoint cannot be written.
enum class CheckpointFailure : std::uint8_t {
  stop,            // an error
  continue_anyway  // a warning; training goes on, and the next one is tried
};

struct CheckpointOptions {
  std::filesystem::path directory;  // made if it is not there; empty: no checkpoints
  /// When to write; several may be given, none means after every epoch. A run that ends writes one
  /// in any case.
  std::optional<std::int64_t> every_epochs;
  std::optional<std::int64_t> every_steps;  // updates of the parameters, counted over all epochs
  std::optional<double> every_minutes;      // by the clock of rank 0
  /// How many of the newest stay; older ones are removed when a new one is whole.
  std::int64_t keep = 3;
  /// The name of a log ("val_loss"): an epoch in which it is best is saved at its end, and that
  /// checkpoint stays too.
  std::string best;
  Resume resume = Resume::never;
  CheckpointMode mode = CheckpointMode::asynchronous;
  CheckpointWriter writer = CheckpointWriter::parallel;
  bool verify = false;  // read everything back and compare before the file gets its name
  CheckpointFailure on_error = CheckpointFailure::stop;
};

template <class Visitor>
void describe(CheckpointOptions& options, Visitor& option) {
  option.about("directory and frequency of checkpoints");
  constexpr const char* what = "directory of the checkpoints; created if missing";
  if (options.directory.empty()) {
    option.required("directory", options.directory, what);
  } else {
    option("directory", options.directory, what);
  }
  option("every_epochs", options.every_epochs, positive, "epochs between checkpoints");
  option("every_steps", options.every_steps, positive, "updates between checkpoints");
  option("every_minutes", options.every_minutes, finite_positive, "minutes between checkpoints");
  option("keep", options.keep, positive, "newest checkpoints to keep");
  option("best", options.best, "log that determines the best epoch, whose checkpoint is kept too");
  option.choice(
      "resume", options.resume,
      {{"auto", Resume::automatic}, {"strict", Resume::strict}, {"never", Resume::never}},
      "continue from the newest intact checkpoint, only from the newest one, or start anew");
  option.choice("mode", options.mode,
                {{"sync", CheckpointMode::synchronous}, {"async", CheckpointMode::asynchronous}},
                "write in the background, or let training wait");
  option.choice("writer", options.writer,
                {{"parallel", CheckpointWriter::parallel}, {"plain", CheckpointWriter::plain}},
                "ranks that write: all, or rank 0");
  option("verify", options.verify, "read each file back and compare checksums");
  option.choice(
      "on_error", options.on_error,
      {{"stop", CheckpointFailure::stop}, {"continue", CheckpointFailure::continue_anyway}},
      "end or continue the run if a checkpoint cannot be written");
}

}  // namespace meshwork
