#include "runtime/config/reader.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "runtime/config/absent.h"
#include "runtime/config/nearest.h"
#include "runtime/config/tree.h"

namespace meshwork {

namespace {

// Whether `written` is likely `key` with a slip of the hand: the key may also be one that is still
// going to be asked for, so this is stricter than a suggestion.
bool is_slip(const std::string& written, const std::string& key) {
  const auto longer = static_cast<std::int64_t>(std::max(written.size(), key.size()));
  if (longer > 2 * static_cast<std::int64_t>(key.size())) return false;
  const std::int64_t distance = edit_distance(written, key);
  return distance <= std::max<std::int64_t>(1, longer / 3) && distance < longer;
}

}  // namespace

ConfigReader::ConfigReader(const ConfigNode& node, std::string name, std::string kind)
    : source_(node), name_(std::move(name)), kind_(std::move(kind)), entries_(node.entries()) {}

ConfigError ConfigReader::advised_error(const ConfigError& problem) const {
  return name_.empty() ? problem : problem.followed_by(" (meshwork reference " + name_ + ")");
}

bool ConfigReader::asked(const std::string& key) const {
  return std::find(asked_.begin(), asked_.end(), key) != asked_.end();
}

std::optional<ConfigNode> ConfigReader::node(const std::string& key) {
  if (!asked(key)) asked_.push_back(key);
  for (const ConfigEntry& entry : entries_) {
    if (entry.name == key) return entry.value;
  }
  return std::nullopt;
}

ConfigNode ConfigReader::required_node(const std::string& key, std::string_view expected) {
  if (auto found = node(key)) return *std::move(found);
  const std::string missing = fmt::format("key {} is missing{}{}", in_quotes(key),
                                          expected.empty() ? "" : "; expected ", expected);
  for (const ConfigEntry& entry : entries_) {
    if (!asked(entry.name) && is_slip(entry.name, key)) {
      slips_.push_back(entry.name);
      throw advised_error(
          entry.key.error(fmt::format("{}; is {} meant for it?", missing, in_quotes(entry.name))));
    }
  }
  throw advised_error(source_.error(missing));
}

ConfigNode ConfigReader::section(const std::string& key) {
  if (auto found = node(key)) return *std::move(found);
  return {std::make_shared<ConfigTree>(ConfigTree{.place = source_.tree().place}),
          entry_path(source_.path(), key)};
}

void ConfigReader::finish() {
  for (const ConfigEntry& entry : entries_) {
    const bool told = std::find(slips_.begin(), slips_.end(), entry.name) != slips_.end();
    if (!told && !asked(entry.name)) {
      const std::string_view instead = instead_of_option(kind_, name_, entry.name);
      errors_.add(advised_error(
          instead.empty() ? entry.key.unknown("key", asked_)
                          : entry.key.error(fmt::format("there is no option {}: {}",
                                                        in_quotes(entry.name), instead))));
    }
  }
  errors_.raise();
}

}  // namespace meshwork
