// Options, described once.
//
// The options of a layer, an optimizer, a callback are a struct of defaults. Beside it stands one
// description: what each option is called, which values it takes, and a line that explains it.
//
//     template <class Visitor>
//     void describe(SGDOptions& options, Visitor& option) {
//       option.about("steps along the gradient");
//       option("momentum", options.momentum, between(0, 1), "how much of the last update is kept");
//       option("nesterov", options.nesterov, "take the gradient one update ahead");
//       option.required("units", options.units, positive, "number of outputs");
//     }
//
// From it follow
//
//     read_options      what a configuration says, each error with its place (ConfigReader);
//     check_options     the ranges, for options that C++ gives;
//     settings_of       names and values, which ranks compare and checkpoints keep;
//     explained         what `meshwork reference` prints.
//
// An option may be a bool, a number, a string, a file name, anything with `from_config` and
// `to_text`, or a std::optional or std::vector of these. A range holds for numbers, for each number
// of a list, and for each of what `numbers_of` gives of a type of one's own. Values of an
// enumeration have names:
//
//       option.choice("mode", options.mode, {{"min", Mode::min}, {"max", Mode::max}}, "...");
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "runtime/config/reader.h"

namespace meshwork {

class Catalog;
template <class Value>
struct KindOf;

/// An option as `meshwork reference` prints it.
struct OptionText {
  std::string name;
  std::string expected;  // "a positive integer", "one of min, max"; "" if its value says it
  std::string initial;   // the default, which may be an empty string; "" if there is none
  std::string help;
  bool required = false;
};

/// A struct of options as `meshwork reference` prints it.
struct Explained {
  std::string about;  // what the class computes or the section is for; "" if nobody says
  std::vector<OptionText> options;
};

/// A string literal as a template argument.
template <std::size_t size>
struct Words {
  // NOLINTNEXTLINE: literals become words by themselves
  constexpr Words(const char (&words)[size]) { std::copy_n(words, size, text); }
  char text[size];
};

/// An option that its owner reads later or by itself. `expected_` says what it may be.
template <Words expected_>
struct Written {
  static constexpr const char* expected = expected_.text;
  const char* initial = "none";      // the default, in words
  std::optional<ConfigNode> node{};  // null, the value, is not absent
};

template <Words expected>
void from_config(const ConfigNode& node, Written<expected>& written) {
  written.node = node;
}
template <Words expected>
[[nodiscard]] std::string to_text(const Written<expected>& written) {
  return written.initial;
}

namespace options_detail {

template <class Value>
concept ReadWithCatalog = requires(const ConfigNode& node, Value& value, const Catalog& catalog) {
  from_config(node, value, catalog);
};

/// A type of one's own may say what a configuration has to give: `static constexpr const char*
/// expected`, or beside it `std::string expected_of(const Type&)`.
template <class Value>
std::string expected(const ValueRange& range) {
  using Element = config_detail::Element<Value>;
  if constexpr (Element::optional) {
    return expected<typename Element::Type>(range);
  } else if constexpr (requires { Value::expected; }) {
    return Value::expected;
  } else if constexpr (requires(const Value& value) { expected_of(value); }) {
    return expected_of(Value());
  } else if constexpr (std::is_same_v<Value, char>) {
    return "one character";
  } else if constexpr (requires { KindOf<Value>::article; }) {
    return KindOf<Value>::article;
  } else if constexpr (Element::list) {
    return "a list, each " + expected<typename Value::value_type>(range);
  } else {
    return expected_words<Value>(range);
  }
}

template <class Value>
std::string text(const Value& value) {
  using Element = config_detail::Element<Value>;
  if constexpr (Element::optional) {
    return value ? text(*value) : "none";
  } else if constexpr (Element::list) {
    std::string all;
    for (const auto& element : value) all += (all.empty() ? "" : ", ") + text(element);
    return "[" + all + "]";
  } else if constexpr (std::is_same_v<Value, char>) {
    return fmt::format("\"{}\"", value);
  } else if constexpr (std::is_arithmetic_v<Value> || std::is_same_v<Value, std::string>) {
    return fmt::format("{}", value);
  } else if constexpr (std::is_same_v<Value, std::filesystem::path>) {
    return value.string();
  } else {
    return to_text(value);
  }
}

/// Throws `Error` unless the number, or each of the list, lies in `range`.
template <class Value>
void check(const std::string& owner, const char* name, const Value& value,
           const ValueRange& range) {
  using Element = config_detail::Element<Value>;
  if constexpr (Element::optional) {
    if (value) check(owner, name, *value, range);
  } else if constexpr (Element::list) {
    for (const auto& element : value) check(owner, name, element, range);
  } else if constexpr (std::is_arithmetic_v<Value> && !std::is_same_v<Value, bool>) {
    if (range.contains(static_cast<double>(value))) return;
    fail("{}: {}: expected {}, found {}", owner, name,
         range.of(std::is_integral_v<Value> ? "integer" : "number"), value);
  } else if constexpr (std::is_class_v<Value> && requires { numbers_of(value); }) {
    // Not of what could be converted to a class that has numbers, as a bool can.
    for (const auto& number : numbers_of(value)) check(owner, name, number, range);
  }
}

/// What visitors have in common: an option without a range takes any value, and one that has to be
/// given is like others but for who reads it.
template <class Derived>
class OptionVisitor {
 public:
  /// What the class computes, or what the section is for.
  void about(const std::string&) {}
  template <class Value>
  void operator()(const char* name, Value& value, const char* help) {
    self().visit(name, value, {}, help, false);
  }
  template <class Value>
  void operator()(const char* name, Value& value, const ValueRange& range, const char* help) {
    self().visit(name, value, range, help, false);
  }
  template <class Value>
  void required(const char* name, Value& value, const char* help) {
    self().visit(name, value, {}, help, true);
  }
  template <class Value>
  void required(const char* name, Value& value, const ValueRange& range, const char* help) {
    self().visit(name, value, range, help, true);
  }
  template <class Value>
  void choice(const char* name, Value& value, const std::type_identity_t<ChoiceTable<Value>>& table,
              const char* help) {
    self().visit_choice(name, value, table, help);
  }

 private:
  Derived& self() { return static_cast<Derived&>(*this); }
};

}  // namespace options_detail

// The visitors; options that stand in several maps are visited by hand.

class OptionReader : public options_detail::OptionVisitor<OptionReader> {
 public:
  OptionReader(ConfigReader& reader, const Catalog& catalog) : reader_(reader), catalog_(catalog) {}
  template <class Value>
  void visit(const char* name, Value& value, const ValueRange& range, const char*, bool required) {
    reader_.check([&] {
      const std::optional<ConfigNode> node =
          required ? reader_.required_node(name, options_detail::expected<Value>(range))
                   : reader_.node(name);
      if (!node) return;
      if constexpr (options_detail::ReadWithCatalog<Value>) {
        from_config(*node, value, catalog_);  // what is wrong there is an option of another object
      } else {
        reader_.advised([&] { value = node->as<Value>(range); });
      }
    });
  }
  template <class Value>
  void visit_choice(const char* name, Value& value, const ChoiceTable<Value>& table, const char*) {
    if (const auto node = reader_.node(name)) {
      reader_.check([&] { reader_.advised([&] { value = node->choice(table); }); });
    }
  }

 private:
  ConfigReader& reader_;
  const Catalog& catalog_;
};

class OptionChecker : public options_detail::OptionVisitor<OptionChecker> {
 public:
  explicit OptionChecker(std::string owner) : owner_(std::move(owner)) {}
  template <class Value>
  void visit(const char* name, Value& value, const ValueRange& range, const char*, bool) {
    options_detail::check(owner_, name, value, range);
  }
  template <class Value>
  void visit_choice(const char* name, Value& value, const ChoiceTable<Value>& table, const char*) {
    if (name_in(table, value).empty()) {
      fail("{}: {}: expected {}", owner_, name, names_in(table));
    }
  }

 private:
  std::string owner_;
};

class OptionLister : public options_detail::OptionVisitor<OptionLister> {
 public:
  void about(const std::string& text) { explained.about = text; }
  template <class Value>
  void visit(const char* name, Value& value, const ValueRange& range, const char* help,
             bool required) {
    add(name, options_detail::expected<Value>(range), options_detail::text(value), help, required);
  }
  template <class Value>
  void visit_choice(const char* name, Value& value, const ChoiceTable<Value>& table,
                    const char* help) {
    add(name, names_in(table), name_in(table, value), help, false);
  }

  Settings settings;
  Explained explained;

 private:
  void add(const char* name, std::string expected, const std::string& value, const char* help,
           bool required) {
    settings.emplace_back(name, value);
    explained.options.push_back({name, std::move(expected), required ? "" : value, help, required});
  }
};

/// What the map `node`, or null, says; what it does not say is as in `options`. `meshwork
/// reference` lists them under `name`; of a class, `kind` is its kind. Other readers read the keys
/// in `others`. Throws `ConfigError`.
template <class Options>
[[nodiscard]] Options read_options(const ConfigNode& node, const Catalog& catalog,
                                   const std::string& name,
                                   const std::vector<std::string>& others = {},
                                   Options options = {}, const std::string& kind = "") {
  ConfigReader reader(node, name, kind);
  OptionReader option(reader, catalog);
  describe(options, option);
  for (const std::string& other : others) static_cast<void>(reader.node(other));
  reader.finish();
  return options;
}

/// Throws `Error`, "SGD: momentum: expected a number between 0 and 1, found 2", for an option out
/// of its range. `owner` is whose options they are.
template <class Options>
void check_options(const std::string& owner, Options options) {
  OptionChecker option(owner);
  describe(options, option);
}

/// In the order of the description.
template <class Options>
[[nodiscard]] Settings settings_of(Options options) {
  OptionLister option;
  describe(options, option);
  return std::move(option.settings);
}

/// "scale 2, mode fan_in".
[[nodiscard]] inline std::string words_of(const Settings& settings) {
  std::string words;
  for (const auto& [name, value] : settings) {
    words += (words.empty() ? "" : ", ") + name + " " + value;
  }
  return words;
}

/// With the values of `options` as those that need not be given.
template <class Options>
[[nodiscard]] Explained explained(Options options = {}) {
  OptionLister option;
  describe(options, option);
  return std::move(option.explained);
}

}  // namespace meshwork
