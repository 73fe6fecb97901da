#include "launch/terminal.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace meshwork {

bool output_is_terminal() {
  if (isatty(STDOUT_FILENO) == 0) {
    return false;
  }
  if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr) {
    return true;
  }
  // The first rank's parent is the launcher, if they are on one host.
  std::error_code problem;
  const std::string output =
      std::filesystem::read_symlink("/proc/" + std::to_string(getppid()) + "/fd/1", problem)
          .string();
  return !problem && (output.starts_with("/dev/pts/") || output.starts_with("/dev/tty"));
}

}  // namespace meshwork
