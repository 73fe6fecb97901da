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
[[nodiscard]] int generate(Runtime& runtime, const CommandLine& line);
[[nodiscard]] int devices(Runtime& runtime, const CommandLine& line);
/// 1 if what a layer states of itself is not true.
[[nodiscard]] int test_layer(Runtime& runtime, const CommandLine& line);
[[nodiscard]] int import_weights(Runtime& runtime, const CommandLine& line);

/// What `plan` prints, for a job of `ranks` ranks, where that is known and asked for. Pure: uses
/// neither MPI nor the ranks. Adds to `warnings` what is not wrong but may be meant otherwise.
[[nodiscard]] std::string plan(const RunConfig& config, const CommandLine& line, std::int64_t ranks,
                               std::vector<std::string>& warnings);

/// The same of the configuration that `line` names, on the ranks `all`. Collective over them, if it
/// is not null. Prints the warnings. With `--svg` the root writes the picture to its file.
[[nodiscard]] std::string plan_text(const CommandLine& line, const Communicator* all);

/// What `summary` prints: the model and the run (run_summary.h).
[[nodiscard]] std::string summary_text(const CommandLine& line, const Communicator* all);

/// What `new` prints: a configuration to begin with (new_configurations.h). Pure.
[[nodiscard]] std::string new_text(const CommandLine& line, const Communicator* all);

/// What `reference` prints: the names of all sections and classes, or what those that are named
/// take. Throws `Error` for a name that is none. Pure.
[[nodiscard]] std::string reference_text(const CommandLine& line, const Communicator* all);

}  // namespace meshwork
