// CSVLogger: one line an epoch in a file: the epoch's index from 0, then the values of the logs by
// name, sorted, with as many digits as tell them apart.
//
//     epoch,accuracy,loss,val_loss
//     0,0.8125,0.5375102162361145,0.4219
//
// The root writes, and flushes after every line. The columns are the logs of the first epoch, and
// those of validation even if it does not run in that epoch; a value that an epoch lacks is "NA".
//
// Without `append` a file that is there is replaced. With it, lines are added below those that are
// there, whose columns must be the same. A run that is continued from a checkpoint appends in any
// case, after dropping the lines of epochs that are trained again.
#pragma once

#include <filesystem>

#include "runtime/train/callbacks/callback.h"

namespace meshwork {

struct CSVLoggerOptions {
  std::filesystem::path filename;
  char separator = ',';
  bool append = false;
};

/// Throws `Error` without a file. Errors of writing come from the events, and name the file.
[[nodiscard]] SharedCallback CSVLogger(const CSVLoggerOptions& options);

}  // namespace meshwork
