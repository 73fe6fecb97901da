// JSONLogger: a JSON object an epoch, on a line of its own. It has the epoch's index from 0 and the
// updates so far. The logs follow, in their order, then the learning rate. Last come the samples
// trained on each second, and the seconds of the epoch.
//
//     {"epoch": 0, "step": 938, "loss": 0.4753, "accuracy": 0.8297, "learning_rate": 0.001,
//      "samples_per_second": 48604.2, "seconds": 1.4}
//
// Numbers have as many digits as tell them apart; what is not finite is a text, "nan". The root
// writes, and flushes after every line. A file that is there is replaced, but by a run that goes on
// from a checkpoint: that drops the lines of epochs that are trained again, and appends (LineFile).
#pragma once

#include <filesystem>

#include "runtime/train/callbacks/callback.h"

namespace meshwork {

struct JSONLoggerOptions {
  std::filesystem::path filename;
};

/// Throws `Error` without a file. Errors of writing come from the events, and name the file.
[[nodiscard]] SharedCallback JSONLogger(const JSONLoggerOptions& options);

}  // namespace meshwork
