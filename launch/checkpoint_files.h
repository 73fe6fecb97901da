// The commands that look at files and train nothing: inspect, verify, diff, export.
//
// They work on one process without MPI. Started as several ranks, all share the work of `verify`;
// of the others rank 0 does it alone. A directory stands for the newest checkpoint in it, but for
// `verify`, which takes all.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "collectives/communicator.h"
#include "launch/command_line.h"
#include "runtime/train/reporting/terminal.h"

namespace meshwork {

/// What a command has to say, and the exit status.
struct Said {
  int status = 0;
  std::string text;                                                    // for standard output
  std::string problems;                                                // for standard error
  std::map<std::size_t, std::pair<std::size_t, Colour>> colours = {};  // in `text`: length, colour

  /// Says `part` in `colour`, where standard output shows colours.
  void say(std::string_view part, Colour colour) {
    colours.try_emplace(text.size(), part.size(), colour);
    text += part;
  }
};

/// What is in a file. Throws `Error` for what cannot be read.
[[nodiscard]] Said inspect(const CommandLine& line);
/// How two files differ: status 1 if they do. Throws `Error` for what cannot be read.
[[nodiscard]] Said diff(const CommandLine& line);
/// Writes a checkpoint as Keras's weights. Throws `Error`, `FailedWrite` if they cannot be written,
/// and `Stopped`.
[[nodiscard]] Said export_weights(const CommandLine& line);

/// Compares all regions of the files with their checksums, which the ranks of `all` (null: this
/// process alone) share: status 1 if some are damaged, 2 if there are no such files. Collective;
/// the root has what is to be said.
[[nodiscard]] Said verify(const CommandLine& line, const Communicator* all);

/// Runs the command of `line`, one of these, on all ranks of `all` or on this process alone if that is
/// null, and prints what it says. Gives the exit status.
[[nodiscard]] int run_on_files(const CommandLine& line, const Communicator* all);

}  // namespace meshwork
