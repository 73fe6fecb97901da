// The program's commands and options, as CLI11 holds them: one description, which is parsed, printed
// as help, printed as a manual page (man.cpp) and completed by shells (completion.cpp).
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "launch/command_line.h"
#include "launch/file_commands.h"

namespace meshwork {

struct CommandTree {
  CommandTree();
  CommandTree(const CommandTree&) = delete;  // `program` refers to `line`

  CLI::App program;
  CommandLine line;  // what parsing sets
  Commands commands;
};

/// The commands, in the order of the help.
[[nodiscard]] std::vector<const CLI::App*> commands_of(const CLI::App& program);

/// Names of an option, "--weights" and so on; none for a positional argument.
[[nodiscard]] std::vector<std::string> names_of(const CLI::Option& option);

/// What the value of an option or a positional argument is called: "FILE", "CONFIG"; "" for a flag.
[[nodiscard]] std::string value_of(const CLI::Option& option);

/// All values that an option takes, if there is a list of them.
[[nodiscard]] std::vector<std::string> choices_of(const CLI::Option& option);

/// What `man` and `completion` print.
[[nodiscard]] std::string man_text(const CommandLine& line, const Communicator* all);
[[nodiscard]] std::string completion_text(const CommandLine& line, const Communicator* all);

/// All names that `reference` explains.
[[nodiscard]] std::vector<std::string> reference_names(const CommandLine& line);

}  // namespace meshwork
