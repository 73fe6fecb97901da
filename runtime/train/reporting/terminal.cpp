#include "runtime/train/reporting/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace meshwork {

bool ends_at_terminal(int descriptor) {
  if (isatty(descriptor) != 1) {
    return false;
  }
  if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr) {
    return true;
  }
  // The first rank's parent is the launcher, if they are on one host.
  std::error_code problem;
  const std::string output =
      std::filesystem::read_symlink(fmt::format("/proc/{}/fd/{}", getppid(), descriptor), problem)
          .string();
  return !problem && (output.starts_with("/dev/pts/") || output.starts_with("/dev/tty"));
}

}  // namespace meshwork
