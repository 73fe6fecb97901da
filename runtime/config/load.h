// Loading a configuration: the YAML text, then the overrides of the command line.
//
// A file is one YAML document in UTF-8. Anchors and aliases work; an alias shows the place where
// its value was written. A key that is written twice in a map is an error. Limits keep a broken or
// hostile file from costing more than a message: 1 MiB of text, 64 levels, and once aliases are
// written out 200,000 values and 8 MiB.
//
// An override is `path=value`, the value in YAML. The path's components are separated by dots; one
// that contains a dot or an equals sign is quoted.
//
//     fit.epochs=1                      the entry of a map, made if it is not there
//     layout."feature.*kernel"=[~, model]
//     model.layers[1].Dense.units=5     an element of a list, counted from 0
//     extensions[]=mine.so              one more element; the list is made if it is not there
//     model.layers.d1.units=5           the element whose `name` is d1, or the only one of class d1
//     optimizer.Adam.learning_rate=0.1
//     optimizer.learning_rate=0.1       the same: see below
//
// Objects are written as maps with one entry, their class: `{Adam: {learning_rate: 0.1}}`, `Adam:`
// or only `Adam`. Class names begin with a capital letter, options do not; so a component that is
// an option is looked for inside, whatever the class.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/config/node.h"

namespace meshwork {

/// One override. `origin` is what messages give as the place of the value; "--set PATH" if empty.
struct ConfigOverride {
  std::string assignment;
  std::string origin;
  ConfigOverride(std::string assignment, std::string origin = "")
      : assignment(std::move(assignment)), origin(std::move(origin)) {}
  ConfigOverride(const char* assignment) : assignment(assignment) {}
};

/// The text of a configuration file. Throws `ConfigError` if there is none, it cannot be read, or
/// is too long.
[[nodiscard]] std::string read_config_file(const std::string& file);

/// The configuration in `text`, with `overrides` in order. `name` stands for the file in messages.
/// Throws `ConfigError`: text that is no YAML, is empty, is beyond the limits; a path that does
/// not fit the document.
[[nodiscard]] ConfigNode parse_config(std::string_view text, const std::string& name,
                                      const std::vector<ConfigOverride>& overrides = {});

/// The document in `text`, which may be empty: a null node then. Throws `ConfigError` for text that
/// is no YAML or beyond the limits.
[[nodiscard]] ConfigNode parse_document(std::string_view text, const std::string& name);

/// `parse_config` of the contents of `file`.
[[nodiscard]] ConfigNode load_config(const std::string& file,
                                     const std::vector<ConfigOverride>& overrides = {});

/// The node as YAML text, which parses to the same values; ends with a line end. Comments and
/// styles of the original are lost, aliases written out.
[[nodiscard]] std::string to_yaml(const ConfigNode& node);

/// The paths and values of all that the node has, in its order: "optimizer.Adam.learning_rate",
/// "1e-3". A list of scalars is one value.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> entries_of(const ConfigNode& node);

}  // namespace meshwork
