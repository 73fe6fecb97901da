// The commands that look at files, as the command line has them: inspect, verify, diff, export.
#pragma once

#include <CLI/CLI.hpp>
#include <map>

#include "launch/command_line.h"

namespace meshwork {

/// Adds them to `program`; what they are given goes into `line`, which of them is which into
/// `commands`.
void add_file_commands(CLI::App& program, CommandLine& line,
                       std::map<const CLI::App*, Command>& commands);

/// The flag of the commands that write files.
void add_overwrite(CLI::App& command, CommandLine& line);

}  // namespace meshwork
