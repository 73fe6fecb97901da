#include "runtime/train/reporting/terminal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace meshwork {
namespace {

constexpr int usual_width = 80;

bool under_open_mpi() {
  return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr;
}

// The file behind the launcher's `descriptor`. The first rank's parent is the launcher, if they are
// on one host.
std::string launchers_file(int descriptor) {
  std::error_code problem;
  const auto file =
      std::filesystem::read_symlink(fmt::format("/proc/{}/fd/{}", getppid(), descriptor), problem);
  return problem ? "" : file.string();
}

int columns_of(int descriptor) {
  winsize size{};
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace

bool ends_at_terminal(int descriptor) {
  if (isatty(descriptor) != 1) {
    return false;
  }
  if (!under_open_mpi()) {
    return true;
  }
  const std::string output = launchers_file(descriptor);
  return output.starts_with("/dev/pts/") || output.starts_with("/dev/tty");
}

int terminal_width(int descriptor) {
  if (!ends_at_terminal(descriptor)) {
    return 0;
  }
  if (const char* columns = std::getenv("COLUMNS")) {
    const std::string_view text(columns);
    int width = 0;
    std::from_chars(text.data(), text.data() + text.size(), width);
    if (width > 0) return width;
  }
  int width = 0;
  if (under_open_mpi()) {
    const int terminal =
        ::open(launchers_file(descriptor).c_str(), O_RDONLY | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (terminal >= 0) {
      width = columns_of(terminal);
      ::close(terminal);
    }
  } else {
    width = columns_of(descriptor);
  }
  return width > 0 ? width : usual_width;
}

std::size_t text_width(int descriptor) {
  const int width = terminal_width(descriptor);
  return static_cast<std::size_t>(width == 0 ? 0 : std::max(width, usual_width));
}

bool takes_escapes(int descriptor) {
  const char* kind = std::getenv("TERM");
  return kind != nullptr && std::string_view(kind) != "dumb" && ends_at_terminal(descriptor);
}

bool shows_colours(int descriptor) {
  const char* no_colour = std::getenv("NO_COLOR");
  return !(no_colour != nullptr && *no_colour != '\0') && takes_escapes(descriptor);
}

std::string coloured(std::string_view text, Colour colour, int descriptor) {
  if (!shows_colours(descriptor)) {
    return std::string(text);
  }
  const int code = colour == Colour::red ? 31 : colour == Colour::yellow ? 33 : 32;
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

bool is_warning(std::string_view line) {
  return line.starts_with("warning:") || line.starts_with("WARNING:");
}

std::string coloured_message(std::string_view line, int descriptor) {
  return is_warning(line) ? coloured(line, Colour::yellow, descriptor) : std::string(line);
}

}  // namespace meshwork
