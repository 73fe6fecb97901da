// The commands of the program. Each gives the exit status: 0, 1 for a failure while running, 2 for
// a wrong configuration or command line, `unsaved_status`. What went wrong has been said.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/command_line.h"
#include "runtime/train/runtime.h"

namespace meshwork {

/// Of a run whose last state could not be saved.
inline constexpr int unsaved_status = 76;

[[nodiscard]] int train(Runtime& runtime, const CommandLine& line);
[[nodiscard]] int evaluate(Runtime& runtime, const CommandLine& line);
[[nodiscard]] int predict(Runtime& runtime, const CommandLine& line);
[[nodiscard]] int devices(Runtime& runtime, const CommandLine& line);
[[nodiscard]] int import_weights(Runtime& runtime, const CommandLine& line);

/// What `plan` prints, for a job of `ranks` ranks, where that is known and asked for. Pure: uses
/// neither MPI nor the ranks. Adds to `warnings` what is not wrong but may be meant otherwise.
[[nodiscard]] std::string plan(const RunConfig& config, const CommandLine& line, std::int64_t ranks,
                               std::vector<std::string>& warnings);

/// The same of the configuration that `line` names, on the ranks `all`. Collective over them, if it
/// is not null. Says the warnings.
[[nodiscard]] std::string plan_text(const CommandLine& line, const Communicator* all);

/// What `options` prints: the classes and sections, or the options of the one that is named. Throws
/// `Error` for a name that is none. Pure.
[[nodiscard]] std::string options_text(const CommandLine& line, const Communicator* all);

}  // namespace meshwork
