#include "runtime/config/load.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

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
  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  if (!stream) {
    throw ConfigError(file, "", fmt::format("the file cannot be opened: {}", std::strerror(errno)));
  }
  std::string text(static_cast<std::size_t>(config_byte_limit) + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad()) {
    throw ConfigError(file, "", fmt::format("the file cannot be read: {}", std::strerror(errno)));
  }
  text.resize(static_cast<std::size_t>(stream.gcount()));
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
