// ConfigNode: one value of a configuration, that knows where it stands.
//
// A configuration is a tree of maps, lists, scalars and nulls. A node of it is a cheap value: it
// shares the tree, and carries the file, line and column where it was written and its dotted path
// in the document ("model.layers[2].Dense.units"). Reading it as a C++ type either gives the value
// or throws a `ConfigError` that says where, what was expected and what was found:
//
//     configs/mnist.yaml:7:14: model.layers[1].Dense.units: expected a positive integer, found
//     "ten"
//
// Scalars are those of YAML 1.2's core schema: `true`, `1e-3`, `.inf`, `0x10`, `~` mean what they
// say, everything else that is not quoted is a string, also `yes` and `on`. What is quoted is a
// string always. Integers are exact: `64.0` is none.
//
// A type of one's own becomes readable by a function beside it:
//
//     void from_config(const ConfigNode& node, Activation& value);
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "runtime/config/range.h"

namespace meshwork {

struct ConfigTree;
struct ConfigEntry;
class ConfigNode;

/// A mistake in a configuration, in words on one line, and where it stands, to sort by: in the
/// file, or (line 0) on the command line.
struct ConfigMistake {
  int line = 0;
  int column = 0;
  std::string text;
  bool missing_file = false;  // a file that it names is not there
  bool operator==(const ConfigMistake&) const = default;
};

/// An error in a configuration, on one line: "location: path: problem". Either of the first two is
/// left out if it is empty. Or several, a line each (ConfigErrors).
class ConfigError : public Error {
 public:
  ConfigError(const std::string& location, const std::string& path, std::string_view problem);
  /// Of one mistake at least, by where they stand, those of the command line last; of many the
  /// first, and how many more there are.
  explicit ConfigError(std::vector<ConfigMistake> mistakes);

  /// This error with `end` behind the text of each mistake.
  [[nodiscard]] ConfigError followed_by(std::string_view end) const;
  [[nodiscard]] const std::vector<ConfigMistake>& mistakes() const { return mistakes_; }
  /// Whether nothing is wrong but that files are not there.
  [[nodiscard]] bool only_of_missing_files() const;

 private:
  std::vector<ConfigMistake> mistakes_;
};

/// All mistakes of a configuration, which are told together. What can be read apart from each other
/// is read by `check`, each; `raise` then throws one `ConfigError` of all that was wrong. Nobody
/// goes on to what needs a value that could not be read: that would be a mistake of nobody's.
///
///     ConfigErrors errors;
///     for (const ConfigNode& node : list.elements()) errors.check([&] { read(node); });
///     errors.raise();
class ConfigErrors {
 public:
  /// Whether `read` went through; a `ConfigError` out of it is kept.
  template <class Read>
  bool check(const Read& read) {
    try {
      read();
      return true;
    } catch (const ConfigError& error) {
      add(error);
      return false;
    }
  }
  /// Keeps what is not kept yet.
  void add(const ConfigError& error);
  [[nodiscard]] bool empty() const { return mistakes_.empty(); }
  /// Throws unless it is empty.
  void raise() const;

 private:
  std::vector<ConfigMistake> mistakes_;
};

/// Names and what they stand for, as messages list them.
template <class Value>
using ChoiceTable = std::vector<std::pair<std::string, Value>>;

/// Each of `values` under the name that `name_of` gives it.
template <class Values>
[[nodiscard]] auto by_name(const Values& values) {
  ChoiceTable<std::decay_t<decltype(*std::begin(values))>> table;
  for (const auto& value : values) table.emplace_back(name_of(value), value);
  return table;
}

/// The name of `value` in `table`; "" if it has none.
template <class Value>
[[nodiscard]] std::string name_in(const ChoiceTable<Value>& table, const Value& value) {
  for (const auto& [name, one] : table) {
    if (one == value) return name;
  }
  return "";
}

/// "one of min, max".
template <class Value>
[[nodiscard]] std::string names_in(const ChoiceTable<Value>& table) {
  std::string names;
  for (const auto& [name, value] : table) names += (names.empty() ? "one of " : ", ") + name;
  return names;
}

class ConfigNode {
 public:
  ConfigNode(std::shared_ptr<const ConfigTree> tree, std::string path)
      : tree_(std::move(tree)), path_(std::move(path)) {}

  [[nodiscard]] bool is_map() const;
  [[nodiscard]] bool is_sequence() const;
  [[nodiscard]] bool is_scalar() const;
  [[nodiscard]] bool is_null() const;

  /// "configs/mnist.yaml:7:14", or the option of the command line that gave the value:
  /// "--set fit.epochs". Lines and columns count from 1, columns in characters.
  [[nodiscard]] std::string location() const;
  /// "model.layers[2].Dense.units"; "" for the whole document.
  [[nodiscard]] const std::string& path() const { return path_; }
  /// What stands here, for messages: `"ten"`, `64.0`, `a map`, `a list`, `nothing`.
  [[nodiscard]] std::string found() const;

  /// The value as bool, int, std::int64_t, std::uint64_t, float, double, std::string,
  /// std::filesystem::path, a type that has a `from_config`, or a std::vector of one of them (a
  /// list), or a std::optional (which null clears). Throws `ConfigError` if it is something else,
  /// does not fit the type or does not lie in `range`.
  template <class Value>
  [[nodiscard]] Value as(const ValueRange& range = {}) const;
  /// The value of which this scalar is the name in `table`. Throws `ConfigError` listing the names,
  /// with the nearest one.
  template <class Value>
  [[nodiscard]] Value choice(const ChoiceTable<Value>& table) const;
  /// The name of a file. One that is not absolute is relative to the directory in which the program
  /// runs, as on the command line, not to that of the configuration.
  [[nodiscard]] std::filesystem::path as_path() const;

  /// The elements of a list, in order. Throws `ConfigError` if this is none.
  [[nodiscard]] std::vector<ConfigNode> elements() const;
  /// The entries of a map, in the order in which they are written; none if this is null. Throws
  /// `ConfigError` if this is neither.
  [[nodiscard]] std::vector<ConfigEntry> entries() const;
  /// The value under `key` of a map, if it is there. Throws as `entries`.
  [[nodiscard]] std::optional<ConfigNode> find(std::string_view key) const;
  /// The name and options of an object that is written as `{Adam: {learning_rate: 0.1}}`,
  /// `Flatten:`, or only `Flatten`; the options may be null. Throws `ConfigError` for a map with
  /// none or several entries and everything else, calling it `what`: "a layer".
  [[nodiscard]] ConfigEntry single_entry(std::string_view what = "a name with its options") const;

  /// An error about this node, to be thrown.
  [[nodiscard]] ConfigError error(std::string_view problem) const;
  /// The same of a text that says by itself where this is.
  [[nodiscard]] ConfigError error_saying(std::string text) const;
  /// The error about this node that a file is not there.
  [[nodiscard]] ConfigError error_of(const MissingFile& file) const;
  /// The error that this name is none of `known`: `unknown layer "Dens"; did you mean "Dense"?
  /// (known: ...)`, or for a name of Keras what to write instead (absent.h).
  [[nodiscard]] ConfigError unknown(std::string_view kind,
                                    const std::vector<std::string>& known) const;
  /// Throws an error about this node with a formatted message.
  template <class... Arguments>
  [[noreturn]] void fail(fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    throw error(fmt::format(format, std::forward<Arguments>(arguments)...));
  }
  /// What `function` returns. An exception out of it that does not yet say where in the
  /// configuration it arose is thrown on as an error about this node, without what `path_says` if
  /// it begins so. It may be of any type: an extension throws what it likes.
  template <class Function>
  decltype(auto) located(Function&& function, std::string_view path_says = "") const {
    try {
      return std::forward<Function>(function)();
    } catch (...) {
      rethrow_located(path_says);
    }
  }

  [[nodiscard]] const ConfigTree& tree() const { return *tree_; }

 private:
  void read(bool& value, const ValueRange& range) const;
  void read(int& value, const ValueRange& range) const;
  void read(std::int64_t& value, const ValueRange& range) const;
  void read(std::uint64_t& value, const ValueRange& range) const;
  void read(float& value, const ValueRange& range) const;
  void read(double& value, const ValueRange& range) const;
  void read(std::string& value, const ValueRange& range) const;
  void read(std::filesystem::path& value, const ValueRange& range) const;
  template <class Value>
  void read(std::vector<Value>& values, const ValueRange& range) const;
  template <class Value>
  void read(std::optional<Value>& value, const ValueRange& range) const;
  template <class Value>
  requires requires(const ConfigNode& node, Value& value) { from_config(node, value); }
  void read(Value& value, const ValueRange&) const { from_config(*this, value); }
  [[nodiscard]] std::size_t choose(const std::vector<std::string>& names) const;
  [[noreturn]] void rethrow_located(std::string_view path_says) const;

  std::shared_ptr<const ConfigTree> tree_;
  std::string path_;
};

/// `key: value` in a map. `key` is the name as a node, for errors about the name itself; its path
/// is that of the map.
struct ConfigEntry {
  std::string name;
  ConfigNode key;
  ConfigNode value;
};

/// The words for what `as<Value>(range)` expects: "a positive integer"; "" for types that have a
/// `from_config`.
template <class Value>
[[nodiscard]] std::string expected_words(const ValueRange& range);

/// `text` in quotes, for messages: without line ends and control characters, and cut if long.
[[nodiscard]] std::string in_quotes(std::string_view text);

// Implementation of the templates.

template <class Value>
Value ConfigNode::as(const ValueRange& range) const {
  Value value{};
  read(value, range);
  return value;
}

template <class Value>
void ConfigNode::read(std::vector<Value>& values, const ValueRange& range) const {
  values.clear();
  ConfigErrors errors;
  for (const ConfigNode& element : elements()) {
    errors.check([&] { values.push_back(element.as<Value>(range)); });
  }
  errors.raise();
}

template <class Value>
void ConfigNode::read(std::optional<Value>& value, const ValueRange& range) const {
  value.reset();
  if (!is_null()) value = as<Value>(range);
}

template <class Value>
Value ConfigNode::choice(const ChoiceTable<Value>& table) const {
  std::vector<std::string> names;
  for (const auto& entry : table) names.push_back(entry.first);
  return table[choose(names)].second;
}

namespace config_detail {
template <class Value>
struct Element {
  static constexpr bool optional = false, list = false;
};
template <class Value>
struct Element<std::optional<Value>> {
  using Type = Value;
  static constexpr bool optional = true, list = false;
};
template <class Value>
struct Element<std::vector<Value>> {
  static constexpr bool optional = false, list = true;
};
}  // namespace config_detail

template <class Value>
std::string expected_words(const ValueRange& range) {
  using Element = config_detail::Element<Value>;
  if constexpr (Element::optional) {
    return expected_words<typename Element::Type>(range);
  } else if constexpr (Element::list) {
    return "a list";
  } else if constexpr (std::is_same_v<Value, bool>) {
    return "true or false";
  } else if constexpr (std::is_integral_v<Value>) {
    return range.of("integer");
  } else if constexpr (std::is_floating_point_v<Value>) {
    return range.of("number");
  } else if constexpr (std::is_same_v<Value, std::string>) {
    return "a string";
  } else if constexpr (std::is_same_v<Value, std::filesystem::path>) {
    return "a file name";
  } else {
    return "";
  }
}

}  // namespace meshwork
