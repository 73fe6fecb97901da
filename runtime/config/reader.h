// ConfigReader: reads a map of options, saying for each key what it must be.
//
//     ConfigReader reader(node);
//     reader.required("units", options.units, positive);
//     reader.optional("use_bias", options.use_bias);
//     reader.choice("activation", options.activation,
//                   {{"linear", Activation::linear}, {"relu", Activation::relu}});
//     if (auto nested = reader.node("kernel_initializer")) ...
//     reader.finish();
//
// A key that is absent leaves its variable as it was, which is how defaults are given. `finish`
// throws for keys that nobody asked for, with the nearest one that was. A null node reads as an
// empty map. Every error is a `ConfigError` with its place.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "runtime/config/node.h"

namespace meshwork {

class ConfigReader {
 public:
  /// Throws unless `node` is a map or null.
  explicit ConfigReader(const ConfigNode& node);

  /// Sets `value` if `key` is there; whether it is. Null clears a std::optional and is an error for
  /// other types.
  template <class Value>
  bool optional(const std::string& key, Value& value, const ValueRange& range = {}) {
    const std::optional<ConfigNode> found = node(key);
    if (found) value = found->as<Value>(range);
    return found.has_value();
  }

  /// Sets `value`. Throws if `key` is not there, naming a key that could be meant for it.
  template <class Value>
  void required(const std::string& key, Value& value, const ValueRange& range = {}) {
    value = required_node(key, expected_words<Value>(range)).template as<Value>(range);
  }

  /// Sets `value` by its name in `table` if `key` is there; whether it is.
  template <class Value>
  bool choice(const std::string& key, Value& value,
              const std::type_identity_t<ChoiceTable<Value>>& table) {
    const std::optional<ConfigNode> found = node(key);
    if (found) value = found->choice(table);
    return found.has_value();
  }

  /// Sets `value` by its name in `table`. Throws if `key` is not there.
  template <class Value>
  void required_choice(const std::string& key, Value& value,
                       const std::type_identity_t<ChoiceTable<Value>>& table) {
    std::string names = "one of ";
    for (const auto& entry : table) {
      names += (&entry == &table.front() ? "" : ", ") + entry.first;
    }
    value = required_node(key, names).choice(table);
  }

  /// The node under `key`, null or not, if it is there.
  [[nodiscard]] std::optional<ConfigNode> node(const std::string& key);
  /// The node under `key`. Throws if it is not there, saying that `expected` was: "a list of
  /// layers".
  [[nodiscard]] ConfigNode required_node(const std::string& key, std::string_view expected = "");
  /// The node under `key`; a null one, which reads as an empty map, if it is not there.
  [[nodiscard]] ConfigNode section(const std::string& key);

  /// The map that is read.
  [[nodiscard]] const ConfigNode& source() const { return source_; }

  /// Throws if the map has a key that was not asked for.
  void finish() const;

 private:
  [[nodiscard]] bool asked(const std::string& key) const;

  ConfigNode source_;
  std::vector<ConfigEntry> entries_;
  std::vector<std::string> asked_;  // in order
};

}  // namespace meshwork
