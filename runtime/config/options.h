// Options, described once.
//
// The options of a layer, an optimizer, a callback are a struct of defaults. Beside it stands one
// description: what each option is called, which values it takes, and a line that explains it.
//
//     template <class Visitor>  // an OptionVisitor
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
#include <functional>
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

/// The value of an option, whatever its type.
class AnyValue {
 public:
  /// What a configuration has to give.
  [[nodiscard]] virtual std::string expected(const ValueRange& range) const = 0;
  [[nodiscard]] virtual std::string text() const = 0;
  /// Throws `Error` for a value out of its range.
  virtual void check(const std::string& owner, const char* name, const ValueRange& range) const = 0;
  virtual void read(const ConfigNode& node, const ValueRange& range, const Catalog& catalog) = 0;
  /// Whether it is an object, whose own options are read with it.
  [[nodiscard]] virtual bool is_object() const { return false; }

 protected:
  ~AnyValue() = default;
};

template <class Value>
class ValueOf final : public AnyValue {
 public:
  explicit ValueOf(Value& value) : value_(value) {}
  [[nodiscard]] std::string expected(const ValueRange& range) const override {
    return options_detail::expected<Value>(range);
  }
  [[nodiscard]] std::string text() const override { return options_detail::text(value_); }
  void check(const std::string& owner, const char* name, const ValueRange& range) const override {
    options_detail::check(owner, name, value_, range);
  }
  void read(const ConfigNode& node, const ValueRange& range, const Catalog& catalog) override {
    if constexpr (ReadWithCatalog<Value>) {
      from_config(node, value_, catalog);
    } else {
      value_ = node.as<Value>(range);
    }
  }
  [[nodiscard]] bool is_object() const override { return ReadWithCatalog<Value>; }

 private:
  Value& value_;
};

/// One of some that have names.
template <class Value>
class Choice final : public AnyValue {
 public:
  Choice(Value& value, const ChoiceTable<Value>& table) : value_(value), table_(table) {}
  [[nodiscard]] std::string expected(const ValueRange&) const override { return names_in(table_); }
  [[nodiscard]] std::string text() const override { return name_in(table_, value_); }
  void check(const std::string& owner, const char* name, const ValueRange&) const override {
    if (text().empty()) fail("{}: {}: expected {}", owner, name, names_in(table_));
  }
  void read(const ConfigNode& node, const ValueRange&, const Catalog&) override {
    value_ = node.choice(table_);
  }

 private:
  Value& value_;
  const ChoiceTable<Value>& table_;
};

}  // namespace options_detail

/// Receives a description, option by option. Its functions see each value as an `AnyValue`. So each
/// description compiles once.
class OptionVisitor {
 public:
  using Visit = std::function<void(const char* name, options_detail::AnyValue& value,
                                   const ValueRange& range, const char* help, bool required)>;
  explicit OptionVisitor(Visit visit, std::function<void(const std::string& text)> about = {})
      : visit_(std::move(visit)), about_(std::move(about)) {}

  /// What the class computes, or what the section is for.
  void about(const std::string& text) const {
    if (about_) about_(text);
  }
  /// An option without a range takes any value.
  template <class Value>
  void operator()(const char* name, Value& value, const char* help) const {
    (*this)(name, value, {}, help);
  }
  template <class Value>
  void operator()(const char* name, Value& value, const ValueRange& range, const char* help) const {
    options_detail::ValueOf<Value> any(value);
    visit_(name, any, range, help, false);
  }
  template <class Value>
  void required(const char* name, Value& value, const char* help) const {
    required(name, value, {}, help);
  }
  template <class Value>
  void required(const char* name, Value& value, const ValueRange& range, const char* help) const {
    options_detail::ValueOf<Value> any(value);
    visit_(name, any, range, help, true);
  }
  template <class Value>
  void choice(const char* name, Value& value, const std::type_identity_t<ChoiceTable<Value>>& table,
              const char* help) const {
    options_detail::Choice<Value> any(value, table);
    visit_(name, any, {}, help, false);
  }

 private:
  Visit visit_;
  std::function<void(const std::string& text)> about_;
};

// The visitors. Options that stand in several maps are visited by hand.

/// Reads options by `reader`, which outlives it, as `catalog` does.
[[nodiscard]] OptionVisitor option_reader(ConfigReader& reader, const Catalog& catalog);
/// Throws `Error` for an option out of its range. `owner` is whose options they are.
[[nodiscard]] OptionVisitor option_checker(std::string owner);

/// Options with their values.
struct OptionList {
  Settings settings;
  Explained explained;
};
/// Adds options to `list`, which outlives it.
[[nodiscard]] OptionVisitor option_lister(OptionList& list);

namespace options_detail {

/// Options of some type, and what describes them.
struct AnyOptions {
  void* options;
  void (*describe)(void* options, OptionVisitor& visitor);
};

template <class Options>
AnyOptions any(Options& options) {
  return {&options,
          [](void* of, OptionVisitor& visitor) { describe(*static_cast<Options*>(of), visitor); }};
}

void read(const AnyOptions& options, const ConfigNode& node, const Catalog& catalog,
          const std::string& name, const std::vector<std::string>& others, const std::string& kind);
void check(const AnyOptions& options, const std::string& owner);
[[nodiscard]] OptionList list(const AnyOptions& options);

}  // namespace options_detail

/// What the map `node`, or null, says; what it does not say is as in `options`. `meshwork
/// reference` lists them under `name`; of a class, `kind` is its kind. Other readers read the keys
/// in `others`. Throws `ConfigError`.
template <class Options>
[[nodiscard]] Options read_options(const ConfigNode& node, const Catalog& catalog,
                                   const std::string& name,
                                   const std::vector<std::string>& others = {},
                                   Options options = {}, const std::string& kind = "") {
  options_detail::read(options_detail::any(options), node, catalog, name, others, kind);
  return options;
}

/// Throws `Error`, "SGD: momentum: expected a number between 0 and 1, found 2", for an option out
/// of its range. `owner` is whose options they are.
template <class Options>
void check_options(const std::string& owner, Options options) {
  options_detail::check(options_detail::any(options), owner);
}

/// In the order of the description.
template <class Options>
[[nodiscard]] Settings settings_of(Options options) {
  return options_detail::list(options_detail::any(options)).settings;
}

/// "scale 2, mode fan_in".
[[nodiscard]] std::string words_of(const Settings& settings);

/// With the values of `options` as those that need not be given.
template <class Options>
[[nodiscard]] Explained explained(Options options = {}) {
  return options_detail::list(options_detail::any(options)).explained;
}

}  // namespace meshwork
