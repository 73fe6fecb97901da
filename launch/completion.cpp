// `meshwork completion SHELL`: a script that completes command lines of meshwork.
//
// What can stand in a place follows from its description: a name of a command or an option; one of the
// values that an option lists; a file where the value is called FILE or PATH; a YAML file for CONFIG; a
// class or section for NAME. Other values, such as numbers, are not completed.
#include <fmt/format.h>

#include "collectives/joined_text.h"
#include "launch/command_tree.h"

namespace meshwork {
namespace {

enum class Kind { nothing, words, files, configurations };

struct Value {
  Kind kind = Kind::nothing;
  std::vector<std::string> words;
};

Value value(const CLI::Option& option, const CommandLine& line) {
  const std::string name = value_of(option);
  if (const std::vector<std::string> choices = choices_of(option); !choices.empty()) {
    return {Kind::words, choices};
  }
  if (name == "NAME") return {Kind::words, reference_names(line)};
  if (name == "CONFIG") return {Kind::configurations, {}};
  if (name == "FILE" || name == "FILES" || name == "PATH") return {Kind::files, {}};
  return {};
}

// In single quotes, of which both shells know no exception.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? "'\\''" : std::string(1, c);
  return result + "'";
}

std::string assignments(const Value& value) {
  switch (value.kind) {
    case Kind::nothing:
      return "kind=nothing";
    case Kind::words:
      return "words=" + quoted(joined_text(value.words, " "));
    case Kind::files:
      return "kind=files";
    case Kind::configurations:
      return "kind=configurations";
  }
  return "";
}

constexpr const char* bash_begin =
    R"(# Completes command lines of meshwork in bash: made by `meshwork completion bash`.
_meshwork() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command='' i
  local kind=words words='' options=''
  # bash takes the = of --option=value for a word.
  if [ "$word" = = ]; then
    word=''
  elif [ "$before" = = ]; then
    before=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case ${COMP_WORDS[i]} in
      -*) ;;
      *) command=${COMP_WORDS[i]}; break ;;
    esac
  done
  case $command in
)";

constexpr const char* bash_end = R"(  esac
  if [[ $word == -* && -n $options ]]; then kind=words words=$options; fi
  COMPREPLY=()
  case $kind in
    words) mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word") ;;
    files) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
    configurations) mapfile -t COMPREPLY < <(compgen -d -- "$word"; compgen -f -X '!*.y*ml' -- "$word") ;;
  esac
  case $kind in
    files | configurations)
      # compgen gives a line a name: what is there, and not the pieces of a name with line feeds.
      local name names=("${COMPREPLY[@]}")
      COMPREPLY=()
      for name in "${names[@]}"; do
        if [[ $name == '~'* || -e $name || -L $name ]]; then COMPREPLY+=("$name"); fi
      done
      compopt -o filenames 2>/dev/null
      ;;
  esac
}
complete -F _meshwork meshwork
)";

// The case of `command`, whose positional arguments are `arguments`.
std::string bash_case(const CLI::App& command, const std::string& pattern, const Value& arguments,
                      const CommandLine& line) {
  std::vector<std::string> options;
  std::string text = fmt::format("    {})\n      case $before in\n", pattern);
  for (const CLI::Option* option : command.get_options()) {
    const std::vector<std::string> names = names_of(*option);
    options.insert(options.end(), names.begin(), names.end());
    if (!names.empty() && !value_of(*option).empty()) {
      text += fmt::format("        {}) {} ;;\n", joined_text(names, " | "),
                          assignments(value(*option, line)));
    }
  }
  return text + fmt::format("        *) {} options='{}' ;;\n      esac\n      ;;\n",
                            assignments(arguments), joined_text(options, " "));
}

std::string bash(const CommandTree& tree, const CommandLine& line) {
  std::string text = bash_begin;
  Value names{Kind::words, {}};
  for (const CLI::App* command : commands_of(tree.program)) {
    names.words.push_back(command->get_name());
    Value arguments;
    for (const CLI::Option* option : command->get_options()) {
      if (!option->nonpositional() && arguments.kind == Kind::nothing) {
        arguments = value(*option, line);
      } else if (!option->nonpositional() && arguments.kind == Kind::configurations) {
        arguments.kind = Kind::files;  // CONFIG and another file: either may be next
      }
    }
    text += bash_case(*command, command->get_name(), arguments, line);
  }
  text += bash_case(tree.program, "''", names, line);
  return text + bash_end;
}

// "value:what to do", as _arguments of zsh has it.
std::string zsh_action(const CLI::Option& option, const CommandLine& line) {
  const Value wanted = value(option, line);
  const std::string name = value_of(option);
  switch (wanted.kind) {
    case Kind::nothing:
      return fmt::format("{}: ", name);
    case Kind::words:
      return fmt::format("{}:({})", name, joined_text(wanted.words, " "));
    case Kind::files:
      return fmt::format("{}:_files", name);
    case Kind::configurations:
      return fmt::format("{}:_files -g \"*.(yaml|yml)\"", name);
  }
  return "";
}

std::string in_brackets(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == '\\') result += '\\';
    result += c;
  }
  return "[" + result + "]";
}

std::string zsh_options(const CLI::App& command, const CommandLine& line) {
  std::string text;
  int place = 0;
  for (const CLI::Option* option : command.get_options()) {
    const bool many = option->get_items_expected_max() > 1;
    const bool takes_value = !value_of(*option).empty();
    if (!option->nonpositional()) {
      const std::string at = many ? "*" : fmt::format("{}", ++place);
      text += " \\\n        " + quoted(at + ":" + zsh_action(*option, line));
    }
    for (const std::string& name : names_of(*option)) {
      const std::string equals = takes_value && name.starts_with("--") ? "=" : "";
      text += " \\\n        " +
              quoted((many ? "*" : "") + name + equals + in_brackets(option->get_description()) +
                     (takes_value ? ":" + zsh_action(*option, line) : ""));
    }
  }
  return text;
}

std::string zsh(const CommandTree& tree, const CommandLine& line) {
  std::string text =
      "#compdef meshwork\n"
      "# Completes command lines of meshwork in zsh: made by `meshwork completion zsh`.\n"
      "_meshwork() {\n"
      "  local curcontext=$curcontext state line\n"
      "  typeset -A opt_args\n"
      "  local -a commands=(\n";
  for (const CLI::App* command : commands_of(tree.program)) {
    text += "    " + quoted(command->get_name() + ":" + command->get_description()) + "\n";
  }
  text += "  )\n  _arguments -C" + zsh_options(tree.program, line) +
          " \\\n        '1:command:->command' '*::argument:->argument'\n"
          "  case $state in\n"
          "    command) _describe command commands ;;\n"
          "    argument)\n      case $words[1] in\n";
  for (const CLI::App* command : commands_of(tree.program)) {
    text += fmt::format("      {}) _arguments{} ;;\n", command->get_name(),
                        zsh_options(*command, line));
  }
  return text +
         "      esac\n      ;;\n  esac\n}\n"
         "if [ \"$funcstack[1]\" = _meshwork ]; then _meshwork \"$@\"; else compdef _meshwork "
         "meshwork; fi\n";
}

}  // namespace

std::string completion_text(const CommandLine& line, const Communicator*) {
  const CommandTree tree;
  return line.names.front() == "zsh" ? zsh(tree, line) : bash(tree, line);
}

}  // namespace meshwork
