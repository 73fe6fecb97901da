// ConfigReader: the keys of a map, each asked for by its name.
//
//     ConfigReader reader(node);
//     const ConfigNode model = reader.required_node("model", "the model's input and layers");
//     if (const auto fit = reader.node("fit")) ...
//     reader.finish();
//
// `finish` throws for keys that nobody asked for, with the nearest one that was, together with what
// `check` met before: all mistakes of the map come in one error. A null node reads
// as an empty map. Every error is a `ConfigError` with its place. Options are described and read by
// their description (options.h), which asks through a reader. A reader that knows under which name
// `meshwork reference` lists the keys ends its errors with that command.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/node.h"

namespace meshwork {

class ConfigReader {
 public:
  /// Throws unless `node` is a map or null. `name` is what `meshwork reference` calls it, or "",
  /// and `kind` the kind of the class whose options these are, or "".
  explicit ConfigReader(const ConfigNode& node, std::string name = "", std::string kind = "");

  /// The node under `key`, null or not, if it is there.
  [[nodiscard]] std::optional<ConfigNode> node(const std::string& key);
  /// The node under `key`. Throws if it is not there, saying that `expected` was: "a list of
  /// layers".
  [[nodiscard]] ConfigNode required_node(const std::string& key, std::string_view expected = "");
  /// The node under `key`; a null one, which reads as an empty map, if it is not there.
  [[nodiscard]] ConfigNode section(const std::string& key);

  /// Keeps what is wrong in `read`, for `finish` to throw. Whether nothing is.
  template <class Read>
  bool check(const Read& read) {
    return errors_.check(read);
  }
  /// Throws if something was wrong, or the map has a key that was not asked for.
  void finish();

  /// Calls `read`, whose errors then end with "(meshwork reference Adam)".
  template <class Read>
  void advised(const Read& read) const {
    try {
      read();
    } catch (const ConfigError& problem) {
      throw advised_error(problem);
    }
  }

 private:
  [[nodiscard]] bool asked(const std::string& key) const;
  [[nodiscard]] ConfigError advised_error(const ConfigError& problem) const;

  ConfigNode source_;
  std::string name_, kind_;
  std::vector<ConfigEntry> entries_;
  std::vector<std::string> asked_;  // in order
  std::vector<std::string> slips_;  // keys that have been told to be meant for others
  ConfigErrors errors_;
};

}  // namespace meshwork
