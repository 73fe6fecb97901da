// `meshwork man`: the manual page meshwork(1), made of the help of all commands. `meshwork reference
// --man` makes meshwork(5), of what a configuration may contain.
#include <fmt/format.h>

#include "collectives/joined_text.h"
#include "launch/command_tree.h"
#include "launch/roff.h"

namespace meshwork {
namespace {

std::string synopsis(const CLI::App& command) {
  std::string text = fmt::format("\\fBmeshwork {}\\fR [OPTIONS]", roff(command.get_name()));
  for (const CLI::Option* option : command.get_options()) {
    if (option->nonpositional()) continue;
    const std::string dots = option->get_items_expected_max() > 1 ? "..." : "";
    const std::string value = roff(value_of(*option)) + dots;
    text += option->get_required() ? " " + value : " [" + value + "]";
  }
  return text;
}

std::string options(const CLI::App& command) {
  std::string text;
  for (const CLI::Option* option : command.get_options()) {
    const std::vector<std::string> names = names_of(*option);
    text += roff_item(joined_text(names, ", "), value_of(*option), roff(option->get_description()));
  }
  return text;
}

}  // namespace

std::string man_text(const CommandLine&, const Communicator*) {
  const CommandTree tree;
  std::string text =
      roff_title(1, "trains neural networks over MPI on any mix of data and model parallelism");
  text += ".SH SYNOPSIS\n";
  for (const CLI::App* command : commands_of(tree.program)) {
    text += synopsis(*command) + "\n.br\n";
  }
  text += "\\fBmpirun \\-n\\fR \\fIRANKS\\fR \\fBmeshwork\\fR \\fICOMMAND\\fR ...\n";
  text += ".SH OPTIONS\n" + options(tree.program) + ".SH COMMANDS\n";
  for (const CLI::App* command : commands_of(tree.program)) {
    text += fmt::format(".SS \"{}\"\n{}.\n", roff("meshwork " + command->get_name()),
                        roff(command->get_description()));
    text += options(*command) + ".PP\n" + roff_text(command->get_footer(), ".PP\n.B");
  }
  text += roff_text(tree.program.get_footer(), ".SH");
  return text + ".SH SEE ALSO\n.BR meshwork (5),\n.BR mpirun (1)\n";
}

}  // namespace meshwork
