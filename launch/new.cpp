// `meshwork new KIND`: a configuration to start from.
#include "collectives/error.h"
#include "launch/commands.h"
#include "launch/new_configurations.h"

namespace meshwork {

std::string new_text(const CommandLine& line, const Communicator*) {
  for (const NewConfiguration& configuration : new_configurations()) {
    if (configuration.kind == line.names.front()) return configuration.text;
  }
  internal_error("the command line has checked the kind");
}

}  // namespace meshwork
