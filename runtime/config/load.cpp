#include "runtime/config/load.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "collectives/stop_signals.h"
#include "runtime/config/nearest.h"
#include "runtime/config/tree.h"

namespace meshwork {

namespace {

// The file in the same directory with the nearest name, or "".
std::string nearest_file(const std::filesystem::path& file) {
  const std::filesystem::path directory = file.parent_path();
  std::vector<std::string> names;
  std::error_code code;
  std::filesystem::directory_iterator entry(directory.empty() ? "." : directory, code);
  for (; !code && entry != std::filesystem::directory_iterator(); entry.increment(code)) {
    names.push_back(entry->path().filename().string());
  }
  const std::string nearest = nearest_name(file.filename().string(), names);
  return nearest.empty() ? "" : (directory / nearest).string();
}

// The first `most` bytes of a file, or of a pipe. It waits for what is written to a pipe as long as
// nobody asks this process to stop, but for somebody who opens it to write no longer than a moment.
std::string begin_of(const std::string& file, std::size_t most) {
  const auto fail_to = [&](const char* what) {
    throw ConfigError(file, "",
                      fmt::format("the file cannot be {}: {}", what, std::strerror(errno)));
  };
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) fail_to("opened");
  const std::unique_ptr<const int, void (*)(const int*)> closing(
      &descriptor, [](const int* open) { ::close(*open); });
  std::string text(most, '\0');
  std::size_t length = 0;
  constexpr int patience = 200;  // milliseconds between two looks at the signals
  int looks = 5;                 // before the first writer
  while (length < most) {
    pollfd waited{.fd = descriptor, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waited, 1, patience);
    if (ready < 0 && errno != EINTR) fail_to("read");
    if (ready <= 0) {
      if (received_stop_signal() != StopSignal::none) {
        throw ConfigError(
            file, "", fmt::format("nothing came of it until {}", name_of(received_stop_signal())));
      }
      if (ready < 0 || --looks > 0) continue;
      // Now reading tells a pipe without a writer, which is at its end, from one that is silent.
    }
    const ssize_t count = ::read(descriptor, text.data() + length, most - length);
    if (count == 0 && ready == 0) {
      throw ConfigError(file, "", "this is a pipe without a writer; expected a YAML file");
    }
    if (count == 0) break;
    if (count > 0) length += static_cast<std::size_t>(count);
    if (count < 0 && errno != EINTR && errno != EAGAIN) fail_to("read");
  }
  text.resize(length);
  return text;
}

}  // namespace

std::string read_config_file(const std::string& file) {
  if (file.empty()) throw ConfigError("", "", "the name of the configuration file is empty");
  std::error_code code;
  const std::filesystem::file_status status = std::filesystem::status(file, code);
  if (status.type() == std::filesystem::file_type::not_found) {
    const std::string nearest = nearest_file(file);
    throw ConfigError(file, "",
                      nearest.empty() ? "there is no such file"
                                      : fmt::format("there is no such file; did you mean {}?",
                                                    in_quotes(nearest)));
  }
  if (status.type() == std::filesystem::file_type::directory) {
    throw ConfigError(file, "", "this is a directory; expected a YAML file");
  }
  const std::string text = begin_of(file, static_cast<std::size_t>(config_byte_limit) + 1);
  if (text.size() > static_cast<std::size_t>(config_byte_limit)) {
    throw ConfigError(
        file, "",
        fmt::format("the file has more than {} bytes; is it a configuration?", config_byte_limit));
  }
  return text;
}

ConfigNode parse_document(std::string_view text, const std::string& name) {
  return {parse_yaml(text, name, true), ""};
}

ConfigNode parse_config(std::string_view text, const std::string& name,
                        const std::vector<ConfigOverride>& overrides) {
  ConfigTreePointer root = parse_yaml(text, name, true);
  if (root->kind == ConfigTree::Kind::null) {
    throw ConfigError(root->place.text(), "", "the configuration is empty");
  }
  for (const ConfigOverride& change : overrides) {
    root = apply_override(root, change.assignment, change.origin);
  }
  return {std::move(root), ""};
}

ConfigNode load_config(const std::string& file, const std::vector<ConfigOverride>& overrides) {
  return parse_config(read_config_file(file), file, overrides);
}

}  // namespace meshwork
