// The commands that look at files, as the command line has them: inspect, verify, diff, export.
#pragma once

#include <CLI/CLI.hpp>
#include <map>

#include "launch/command_line.h"

namespace meshwork {

/// Which command a part of the command line stands for.
using Commands = std::map<const CLI::App*, Command>;

/// Adds a command to `program` and to `commands`; `examples` end its help.
CLI::App* add_command(CLI::App& program, Commands& commands, const char* name, const char* what,
                      const char* examples, Command command);

/// Adds the commands that look at files; what they are given goes into `line`.
void add_file_commands(CLI::App& program, CommandLine& line, Commands& commands);

/// Takes numbers from `least` on.
[[nodiscard]] CLI::Validator number_from(int least);
/// Takes whole numbers from `least` to `most`.
[[nodiscard]] CLI::Validator whole_number(std::int64_t least, std::int64_t most);
/// Takes one of `choices`, which `choices_of` gives.
[[nodiscard]] CLI::Validator one_of(std::vector<std::string> choices);

/// The flag of the commands that write files.
void add_overwrite(CLI::App& command, CommandLine& line);

}  // namespace meshwork
