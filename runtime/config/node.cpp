#include "runtime/config/node.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <tuple>

#include "collectives/printable.h"
#include "runtime/config/absent.h"
#include "runtime/config/nearest.h"
#include "runtime/config/tree.h"

namespace meshwork {

namespace {

using Kind = ConfigTree::Kind;

std::string_view without_sign(std::string_view text) {
  if (!text.empty() && (text[0] == '+' || text[0] == '-')) text.remove_prefix(1);
  return text;
}

bool one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

bool is_infinity(std::string_view text) {
  return one_of(text, {".inf", ".Inf", ".INF"});
}
bool is_not_a_number(std::string_view text) {
  return one_of(text, {".nan", ".NaN", ".NAN"});
}

// 0o17 and 0x1f have no sign in the core schema.
int base_of(std::string_view text) {
  if (text.starts_with("0x") && text.size() > 2) return 16;
  if (text.starts_with("0o") && text.size() > 2) return 8;
  return 10;
}

// Whether all of `text` reads as a number of this type, also one that does not fit it.
template <class Number, class... Format>
bool reads_as(std::string_view text, Format... format) {
  Number value{};
  const char* const all = text.data() + text.size();
  const auto [end, code] = std::from_chars(text.data(), all, value, format...);
  return end == all && code != std::errc::invalid_argument;
}

bool is_integer(std::string_view text) {
  const int base = base_of(text);
  return reads_as<std::uint64_t>(base == 10 ? without_sign(text) : text.substr(2), base);
}

// [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?
bool is_number(std::string_view text) {
  if (is_not_a_number(text) || is_infinity(without_sign(text))) return true;
  text = without_sign(text);
  const bool of_letters = text.find_first_of("0123456789.") != 0;  // the "inf" and "nan" of C
  return !of_letters && reads_as<double>(text, std::chars_format::general);
}

// The value of an integer's text, or nothing if it does not fit.
template <class Integer>
std::optional<Integer> integer_value(std::string_view text) {
  const int base = base_of(text);
  if (base != 10) text.remove_prefix(2);
  if (text.starts_with('+')) text.remove_prefix(1);
  Integer value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The value of a number's text, or nothing if it does not fit.
std::optional<double> number_value(std::string_view text) {
  if (is_not_a_number(text)) return std::numeric_limits<double>::quiet_NaN();
  if (is_infinity(without_sign(text))) {
    const double infinity = std::numeric_limits<double>::infinity();
    return text.starts_with('-') ? -infinity : infinity;
  }
  if (base_of(text) != 10) {
    const auto integer = integer_value<std::uint64_t>(text);
    if (!integer) return std::nullopt;
    return static_cast<double>(*integer);
  }
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string join_names(const std::vector<std::string>& names) {
  std::string result;
  for (const std::string& name : names) {
    if (!result.empty()) result += ", ";
    result += in_one_line(name);
  }
  return result;
}

// What the same thing is called elsewhere.
struct OtherName {
  std::string_view theirs, ours;
};
constexpr OtherName other_names[] = {
    {"bf16", "bfloat16"},  {"f32", "float32"}, {"fp32", "float32"}, {"float", "float32"},
    {"single", "float32"}, {"32", "float32"},  {"gpu", "cuda"}};

std::string suggestion(std::string_view name, const std::vector<std::string>& known) {
  for (const OtherName& other : other_names) {
    if (name == other.theirs && std::find(known.begin(), known.end(), other.ours) != known.end()) {
      return fmt::format("; did you mean \"{}\"?", other.ours);
    }
  }
  constexpr std::size_t longest_name = 200;  // comparing more letters would only cost time
  return name.size() > longest_name ? "" : did_you_mean(name, known);
}

[[noreturn]] void fail_type(const ConfigNode& node, const std::string& expected,
                            std::string_view hint = "") {
  node.fail("expected {}, found {}{}", expected, node.found(), hint);
}

const ConfigTree* plain_scalar(const ConfigNode& node) {
  const ConfigTree& tree = node.tree();
  return tree.kind == Kind::scalar && tree.plain ? &tree : nullptr;
}

template <class Integer>
Integer read_integer(const ConfigNode& node, const ValueRange& range) {
  const std::string expected = range.of("integer");
  const ConfigTree* scalar = plain_scalar(node);
  if (scalar == nullptr) fail_type(node, expected);
  const std::string_view text = scalar->text;
  if (!is_integer(text)) {
    // 64.0 and 1e3 are what somebody may write who means an integer.
    if (is_number(text)) {
      const std::optional<double> value = number_value(text);
      if (value && std::trunc(*value) == *value && std::abs(*value) < 1e15) {
        fail_type(node, expected, fmt::format("; write {:.0f}", *value));
      }
    }
    fail_type(node, expected);
  }
  const std::optional<Integer> value = integer_value<Integer>(text);
  if (!value) {
    const bool too_small = std::is_unsigned_v<Integer> || text.starts_with('-');
    if (too_small && text.starts_with('-')) {
      if (!range.contains(-1)) fail_type(node, expected);
      fail_type(node, expected,
                fmt::format("; the least possible is {}", std::numeric_limits<Integer>::min()));
    }
    fail_type(node, expected,
              fmt::format("; the largest possible is {}", std::numeric_limits<Integer>::max()));
  }
  if (!range.contains(static_cast<double>(*value))) fail_type(node, expected);
  return *value;
}

double read_number(const ConfigNode& node, const ValueRange& range, double largest) {
  const std::string expected = range.of("number");
  const ConfigTree* scalar = plain_scalar(node);
  if (scalar == nullptr || scalar_kind(scalar->text) == ScalarKind::string ||
      scalar_kind(scalar->text) == ScalarKind::boolean) {
    fail_type(node, expected);
  }
  const std::optional<double> value = number_value(scalar->text);
  if (!value || (std::isfinite(*value) && std::abs(*value) > largest)) {
    fail_type(node, expected, ", which is too large or too small to be stored");
  }
  if (!range.contains(*value)) fail_type(node, expected);
  return *value;
}

}  // namespace

ScalarKind scalar_kind(std::string_view text) {
  if (one_of(text, {"true", "True", "TRUE", "false", "False", "FALSE"})) return ScalarKind::boolean;
  if (is_integer(text)) return ScalarKind::integer;
  if (is_number(text)) return ScalarKind::number;
  return ScalarKind::string;
}

bool is_class_name(std::string_view name) {
  return !name.empty() && name[0] >= 'A' && name[0] <= 'Z';
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t limit = 60;
  if (text.size() <= limit) return fmt::format("\"{}\"", in_one_line(text));
  std::size_t end = limit;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // whole letters
  return fmt::format("\"{}...\"", in_one_line(text.substr(0, end)));
}

std::string entry_path(const std::string& path, std::string_view key) {
  const bool simple = !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '/';
  });
  const std::string name = simple ? std::string(key) : in_quotes(key);
  return path.empty() ? name : fmt::format("{}.{}", path, name);
}

std::string ConfigPlace::text() const {
  if (!source) return "";
  return line == 0 ? *source : fmt::format("{}:{}:{}", *source, line, column);
}

void ConfigTree::add(Child child) {
  // All numbers are checked against their limits long before they could overflow.
  size += child.value->size;
  text_bytes += child.value->written_bytes();
  if (child.key) text_bytes += child.key->written_bytes();
  height = std::max(height, child.value->height + 1);
  children.push_back(std::move(child));
}

int ConfigTree::index_of(std::string_view key) const {
  for (std::size_t i = 0; i < children.size(); ++i) {
    if (children[i].key && children[i].key->text == key) return static_cast<int>(i);
  }
  return -1;
}

namespace {

std::vector<ConfigMistake> sorted(std::vector<ConfigMistake> mistakes) {
  const auto place = [](const ConfigMistake& mistake) {
    return std::tuple(mistake.line == 0, mistake.line, mistake.column);
  };
  std::stable_sort(mistakes.begin(), mistakes.end(),
                   [&](const auto& a, const auto& b) { return place(a) < place(b); });
  return mistakes;
}

// A line each.
std::string text_of(const std::vector<ConfigMistake>& mistakes) {
  constexpr std::size_t most = 20;
  std::string text;
  for (std::size_t i = 0; i < std::min(most, mistakes.size()); ++i) {
    text += (i == 0 ? "" : "\n") + mistakes[i].text;
  }
  return mistakes.size() <= most ? text
                                 : fmt::format("{}\nand {} more", text, mistakes.size() - most);
}

std::string mistake_text(const std::string& location, const std::string& path,
                         std::string_view problem) {
  // "--set roles", of whose value "roles.helper" is a part.
  const std::string_view option = "--set ";
  if (!path.empty() && location.starts_with(option) &&
      path.starts_with(std::string_view(location).substr(option.size()))) {
    return in_one_line(fmt::format("{}{}: {}", option, path, problem));
  }
  return in_one_line(fmt::format("{}{}{}{}{}", location, location.empty() ? "" : ": ", path,
                                 path.empty() ? "" : ": ", problem));
}

}  // namespace

ConfigError::ConfigError(const std::string& location, const std::string& path,
                         std::string_view problem)
    : ConfigError(std::vector{ConfigMistake{.text = mistake_text(location, path, problem)}}) {}

ConfigError::ConfigError(std::vector<ConfigMistake> mistakes)
    : Error(text_of(sorted(mistakes))), mistakes_(sorted(std::move(mistakes))) {}

bool ConfigError::only_of_missing_files() const {
  return std::all_of(mistakes_.begin(), mistakes_.end(),
                     [](const ConfigMistake& mistake) { return mistake.missing_file; });
}

ConfigError ConfigError::followed_by(std::string_view end) const {
  std::vector<ConfigMistake> mistakes = mistakes_;
  for (ConfigMistake& mistake : mistakes) mistake.text += end;
  return ConfigError(std::move(mistakes));
}

void ConfigErrors::add(const ConfigError& error) {
  for (const ConfigMistake& mistake : error.mistakes()) {
    if (std::find(mistakes_.begin(), mistakes_.end(), mistake) == mistakes_.end()) {
      mistakes_.push_back(mistake);
    }
  }
}

void ConfigErrors::raise() const {
  if (!empty()) throw ConfigError(mistakes_);
}

bool ConfigNode::is_map() const {
  return tree_->kind == Kind::map;
}
bool ConfigNode::is_sequence() const {
  return tree_->kind == Kind::sequence;
}
bool ConfigNode::is_scalar() const {
  return tree_->kind == Kind::scalar;
}
bool ConfigNode::is_null() const {
  return tree_->kind == Kind::null;
}

std::string ConfigNode::location() const {
  return tree_->place.text();
}

std::string ConfigNode::found() const {
  switch (tree_->kind) {
    case Kind::null:
      return "nothing";
    case Kind::sequence:
      return tree_->children.empty() ? "an empty list" : "a list";
    case Kind::map:
      return tree_->children.empty() ? "an empty map" : "a map";
    case Kind::scalar:
      break;
  }
  if (scalar_kind(tree_->text) == ScalarKind::string) return in_quotes(tree_->text);
  if (!tree_->plain) return fmt::format("the string {}", in_quotes(tree_->text));
  if (tree_->text.size() > 60) return tree_->text.substr(0, 60) + "...";
  return tree_->text;
}

ConfigError ConfigNode::error(std::string_view problem) const {
  return error_saying(mistake_text(location(), path_, problem));
}

ConfigError ConfigNode::error_saying(std::string text) const {
  const ConfigPlace& place = tree_->place;
  return ConfigError(std::vector{ConfigMistake{place.line, place.column, std::move(text)}});
}

ConfigError ConfigNode::error_of(const MissingFile& file) const {
  std::vector<ConfigMistake> mistakes = error(file.what()).mistakes();
  mistakes.front().missing_file = true;
  return ConfigError(std::move(mistakes));
}

void ConfigNode::rethrow_located(std::string_view path_says) const {
  try {
    throw;
  } catch (const ConfigError&) {
    throw;
  } catch (const MissingFile& file) {
    throw error_of(file);
  } catch (const std::exception& problem) {
    std::string text = message_of(problem);
    if (text.starts_with(path_says)) text.erase(0, path_says.size());
    throw error(text);
  } catch (...) {
    throw error("an exception of unknown type");
  }
}

ConfigError ConfigNode::unknown(std::string_view kind,
                                const std::vector<std::string>& known) const {
  const std::string name = is_scalar() ? tree_->text : "";
  if (const std::string_view instead = instead_of(kind, name); !instead.empty()) {
    return error(fmt::format("there is no {} {}: {}", kind, in_quotes(name), instead));
  }
  return error(fmt::format("unknown {} {}{} (known: {})", kind,
                           is_scalar() ? in_quotes(name) : found(), suggestion(name, known),
                           join_names(known)));
}

std::size_t ConfigNode::choose(const std::vector<std::string>& names) const {
  const std::string expected =
      names.size() == 1 ? names[0] : fmt::format("one of {}", join_names(names));
  if (!is_scalar()) fail_type(*this, expected);
  const auto found = std::find(names.begin(), names.end(), tree_->text);
  if (found == names.end()) fail_type(*this, expected, suggestion(tree_->text, names));
  return static_cast<std::size_t>(found - names.begin());
}

std::filesystem::path ConfigNode::as_path() const {
  if (!is_scalar() || tree_->text.empty()) fail_type(*this, "a file name");
  if (tree_->text.find('\0') != std::string::npos) {
    fail_type(*this, "a file name", ", which contains a zero byte");
  }
  return tree_->text;
}

std::vector<ConfigNode> ConfigNode::elements() const {
  if (!is_sequence()) fail_type(*this, "a list");
  std::vector<ConfigNode> result;
  result.reserve(tree_->children.size());
  for (const ConfigTree::Child& child : tree_->children) {
    result.emplace_back(child.value, fmt::format("{}[{}]", path_, result.size()));
  }
  return result;
}

std::vector<ConfigEntry> ConfigNode::entries() const {
  if (is_null()) return {};
  if (!is_map()) fail_type(*this, "a map");
  std::vector<ConfigEntry> result;
  result.reserve(tree_->children.size());
  for (const auto& [key, value] : tree_->children) {
    result.push_back(
        {key->text, ConfigNode(key, path_), ConfigNode(value, entry_path(path_, key->text))});
  }
  return result;
}

std::optional<ConfigNode> ConfigNode::find(std::string_view key) const {
  if (is_null()) return std::nullopt;
  if (!is_map()) fail_type(*this, "a map");
  const int index = tree_->index_of(key);
  if (index < 0) return std::nullopt;
  return ConfigNode(tree_->children[static_cast<std::size_t>(index)].value, entry_path(path_, key));
}

ConfigEntry ConfigNode::single_entry(std::string_view what) const {
  if (is_scalar() && !tree_->text.empty()) {
    auto nothing = std::make_shared<ConfigTree>(ConfigTree{.place = tree_->place});
    return {tree_->text, *this, ConfigNode(std::move(nothing), entry_path(path_, tree_->text))};
  }
  const std::string expected = fmt::format("{}, as Name: {{option: value}}", what);
  if (!is_map()) fail_type(*this, expected);
  std::vector<ConfigEntry> all = entries();
  if (all.size() != 1) {
    std::vector<std::string> names;
    for (const ConfigEntry& entry : all) names.push_back(entry.name);
    const std::string hint = all.empty()
                                 ? ""
                                 : fmt::format(" with {} entries ({}); is the indentation right?",
                                               all.size(), join_names(names));
    fail_type(*this, expected, hint);
  }
  return std::move(all[0]);
}

void ConfigNode::read(bool& value, const ValueRange&) const {
  const ConfigTree* scalar = plain_scalar(*this);
  const std::string expected = "true or false";
  if (scalar == nullptr) fail_type(*this, expected);
  if (scalar_kind(scalar->text) != ScalarKind::boolean) {
    std::string word = scalar->text;
    std::transform(word.begin(), word.end(), word.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (one_of(word, {"yes", "y", "on", "1"})) fail_type(*this, expected, "; write true");
    if (one_of(word, {"no", "n", "off", "0"})) fail_type(*this, expected, "; write false");
    fail_type(*this, expected);
  }
  value = scalar->text[0] == 't' || scalar->text[0] == 'T';
}

void ConfigNode::read(int& value, const ValueRange& range) const {
  value = read_integer<int>(*this, range);
}

void ConfigNode::read(std::int64_t& value, const ValueRange& range) const {
  value = read_integer<std::int64_t>(*this, range);
}

void ConfigNode::read(std::uint64_t& value, const ValueRange& range) const {
  value = read_integer<std::uint64_t>(*this, range);
}

void ConfigNode::read(float& value, const ValueRange& range) const {
  value = static_cast<float>(read_number(*this, range, std::numeric_limits<float>::max()));
}

void ConfigNode::read(double& value, const ValueRange& range) const {
  value = read_number(*this, range, std::numeric_limits<double>::max());
}

void ConfigNode::read(std::string& value, const ValueRange&) const {
  if (!is_scalar()) fail_type(*this, "a string");
  value = tree_->text;
}

void ConfigNode::read(std::filesystem::path& value, const ValueRange&) const {
  value = as_path();
}

}  // namespace meshwork
