#include "launch/checkpoint_files.h"

#include <mpi.h>

#include <cstdio>
#include <exception>

#include "collectives/error.h"
#include "collectives/printable.h"

namespace meshwork {
namespace {

Said run(const CommandLine& line, const Communicator* all) {
  try {
    switch (line.command) {
      case Command::verify:
        return verify(line, all);
      case Command::inspect:
        return inspect(line);
      case Command::diff:
        return diff(line);
      default:
        return export_weights(line);
    }
  } catch (const std::exception& error) {
    return {2, "", fmt::format("{}\n", message_of(error))};
  }
}

}  // namespace

int run_on_files(const CommandLine& line, const Communicator* all) {
  const bool root = all == nullptr || all->rank() == 0;
  Said said;
  if (root || line.command == Command::verify) {
    said = run(line, all);
  }
  if (root) {
    std::fputs(printable(said.text).c_str(), stdout);
    std::fflush(stdout);
    std::fputs(printable(said.problems).c_str(), stderr);
  }
  if (all != nullptr) {
    check_mpi(MPI_Bcast(&said.status, 1, MPI_INT, 0, all->native()), "MPI_Bcast");
  }
  return said.status;
}

}  // namespace meshwork
