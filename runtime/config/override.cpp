// Overrides of the command line: `path=value`. The rules stand in load.h.

#include <algorithm>
#include <charconv>
#include <span>

#include "runtime/config/nearest.h"
#include "runtime/config/node.h"
#include "runtime/config/tree.h"

namespace meshwork {

namespace {

using Kind = ConfigTree::Kind;

// One component of a path: the name of an entry or element, an index, or a new last element.
struct Component {
  std::string name;
  std::int64_t index = -1;
  bool is_new = false;
  [[nodiscard]] bool is_index() const { return index >= 0; }
};

struct Assignment {
  std::vector<Component> path;
  std::string path_text;
  std::string value;
};

// Reads `path=value`, where
//   path := component ( "." component | "[" digits "]" | "[]" )*
//   component := letters but . [ ] = " ' | quoted letters
class AssignmentReader {
 public:
  AssignmentReader(const std::string& text, const std::string& origin)
      : text_(text), origin_(origin.empty() ? "--set " + text : origin) {}

  [[nodiscard]] Assignment read() {
    Assignment result;
    result.path.push_back(component());
    while (at_ < text_.size() && text_[at_] != '=') {
      result.path.push_back(text_[at_] == '[' ? index() : dotted_component());
    }
    if (at_ == text_.size()) fail("\"=\" is missing");
    if (result.path.size() > static_cast<std::size_t>(config_height_limit)) {
      fail(fmt::format("the path has more than {} names", config_height_limit));
    }
    result.path_text = text_.substr(0, at_);
    result.value = text_.substr(at_ + 1);
    return result;
  }

 private:
  [[noreturn]] void fail(std::string_view problem) const {
    throw ConfigError(
        origin_, "",
        fmt::format("{}; expected a path and its value, such as fit.epochs=3", problem));
  }

  Component dotted_component() {
    if (text_[at_] != '.') fail(fmt::format("unexpected {} in the path", text_[at_]));
    ++at_;
    return component();
  }

  Component component() {
    std::string name;
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote == '"' || quote == '\'') {
      const std::size_t end = text_.find(quote, at_ + 1);
      if (end == std::string::npos) fail("a quote in the path is not closed");
      name = text_.substr(at_ + 1, end - at_ - 1);
      at_ = end + 1;
    } else {
      const std::size_t end = std::min(text_.find_first_of(".[]=\"'", at_), text_.size());
      name = text_.substr(at_, end - at_);
      at_ = end;
    }
    if (name.empty()) fail("a name is missing in the path");
    if (name.size() > config_key_limit) {
      fail(fmt::format("a name in the path has more than {} bytes", config_key_limit));
    }
    return {std::move(name), -1};
  }

  Component index() {
    const std::size_t end = std::min(text_.find(']', at_), text_.size());
    const char* last = text_.data() + end;
    Component result;
    if (text_.compare(at_, 2, "[]") == 0) {
      at_ += 2;
      result.is_new = true;
      return result;
    }
    const auto [read, code] = std::from_chars(text_.data() + at_ + 1, last, result.index);
    if (end == text_.size() || code != std::errc() || read != last || result.index < 0) {
      fail("an index is a number from 0 in brackets");
    }
    at_ = end + 1;
    return result;
  }

  const std::string& text_;
  std::string origin_;
  std::size_t at_ = 0;
};

// The only entry of a map that is an object with its class, `{Adam: {...}}` or `Adam:`; or null.
const ConfigTree::Child* wrapped_object(const ConfigTree& tree) {
  if (tree.kind != Kind::map || tree.children.size() != 1) return nullptr;
  const ConfigTree::Child& only = tree.children[0];
  const bool has_options = only.value->kind == Kind::map || only.value->kind == Kind::null;
  return has_options && is_class_name(only.key->text) ? &only : nullptr;
}

// The class of an element of a list, or "".
std::string class_of(const ConfigTree& tree) {
  if (tree.kind == Kind::scalar && tree.plain && is_class_name(tree.text)) return tree.text;
  const ConfigTree::Child* object = wrapped_object(tree);
  return object == nullptr ? "" : object->key->text;
}

// The `name` that an element of a list gives itself, or "".
std::string name_of(const ConfigTree& tree) {
  const ConfigTree::Child* object = wrapped_object(tree);
  const ConfigTree& options = object == nullptr ? tree : *object->value;
  if (options.kind != Kind::map) return "";
  const int index = options.index_of("name");
  if (index < 0) return "";
  const ConfigTree& name = *options.children[static_cast<std::size_t>(index)].value;
  return name.kind == Kind::scalar ? name.text : "";
}

class Assigner {
 public:
  Assigner(std::string origin, ConfigTreePointer value)
      : place_{std::make_shared<const std::string>(std::move(origin)), 0, 0},
        value_(std::move(value)) {}

  // `tree`, which stands at `path` in the document, with the value put where `rest` leads.
  [[nodiscard]] ConfigTreePointer assign(const ConfigTreePointer& tree,
                                         std::span<const Component> rest,
                                         const std::string& path) const {
    if (rest.empty()) return value_;
    const Component& first = rest.front();
    if (first.is_new) return with_new_element(tree, rest.subspan(1), path);
    if (tree->kind == Kind::sequence) {
      const std::size_t index = first.is_index() ? checked_index(*tree, first.index, path)
                                                 : named_index(*tree, first.name, path);
      return with_child(*tree, index, rest.subspan(1), fmt::format("{}[{}]", path, index));
    }
    if (first.is_index()) {
      fail(path, fmt::format("[{}] needs a list, found {}", first.index, found(tree)));
    }
    switch (tree->kind) {
      case Kind::map:
        return assign_in_map(tree, rest, path);
      case Kind::null:
        return assign_in_map(
            std::make_shared<ConfigTree>(ConfigTree{.kind = Kind::map, .place = place_}), rest,
            path);
      default:
        break;
    }
    // `optimizer: Adam` is `optimizer: {Adam: }`.
    if (tree->plain && is_class_name(tree->text)) {
      auto object =
          std::make_shared<ConfigTree>(ConfigTree{.kind = Kind::map, .place = tree->place});
      object->add({tree, std::make_shared<ConfigTree>(ConfigTree{.place = tree->place})});
      return assign_in_map(object, rest, path);
    }
    fail(path, fmt::format("{} needs a map, found {}", in_quotes(first.name), found(tree)));
  }

 private:
  [[noreturn]] void fail(const std::string& path, std::string_view problem) const {
    throw ConfigError(place_.text(), path, problem);
  }
  [[nodiscard]] static std::string found(const ConfigTreePointer& tree) {
    return ConfigNode(tree, "").found();
  }

  [[nodiscard]] ConfigTreePointer assign_in_map(const ConfigTreePointer& tree,
                                                std::span<const Component> rest,
                                                const std::string& path) const {
    const std::string& name = rest.front().name;
    const int index = tree->index_of(name);
    if (index >= 0) {
      return with_child(*tree, static_cast<std::size_t>(index), rest.subspan(1),
                        entry_path(path, name));
    }
    const ConfigTree::Child* object = wrapped_object(*tree);
    if (object != nullptr && !is_class_name(name)) {
      return with_child(*tree, 0, rest, entry_path(path, object->key->text));
    }
    auto key = std::make_shared<ConfigTree>(
        ConfigTree{.kind = Kind::scalar, .place = place_, .text = name});
    const auto nothing = std::make_shared<ConfigTree>(ConfigTree{.place = place_});
    auto map = std::make_shared<ConfigTree>(*tree);
    map->add({std::move(key), assign(nothing, rest.subspan(1), entry_path(path, name))});
    return map;
  }

  // A copy of `tree` with the value assigned somewhere in its child `index`.
  [[nodiscard]] ConfigTreePointer with_child(const ConfigTree& tree, std::size_t index,
                                             std::span<const Component> rest,
                                             const std::string& path) const {
    auto copy = std::make_shared<ConfigTree>(tree);
    copy->children.clear();
    copy->size = 1;
    copy->height = 1;
    for (std::size_t i = 0; i < tree.children.size(); ++i) {
      ConfigTree::Child child = tree.children[i];
      if (i == index) {
        child.value = assign(child.value, rest, path);
      }
      copy->add(std::move(child));
    }
    return copy;
  }

  // A copy of the list `tree`, or a list where there is nothing, with one more element.
  [[nodiscard]] ConfigTreePointer with_new_element(const ConfigTreePointer& tree,
                                                   std::span<const Component> rest,
                                                   const std::string& path) const {
    if (tree->kind != Kind::sequence && tree->kind != Kind::null) {
      fail(path, fmt::format("[] needs a list, found {}", found(tree)));
    }
    auto list = std::make_shared<ConfigTree>(*tree);
    list->kind = Kind::sequence;
    const auto nothing = std::make_shared<ConfigTree>(ConfigTree{.place = place_});
    list->add({nullptr, assign(nothing, rest, fmt::format("{}[{}]", path, tree->children.size()))});
    return list;
  }

  [[nodiscard]] std::size_t checked_index(const ConfigTree& tree, std::int64_t index,
                                          const std::string& path) const {
    const auto count = static_cast<std::int64_t>(tree.children.size());
    if (index >= count) {
      fail(path, fmt::format("has no element [{}]; it has {}, counted from 0", index, count));
    }
    return static_cast<std::size_t>(index);
  }

  // The element called `name`, or else the only one of that class.
  [[nodiscard]] std::size_t named_index(const ConfigTree& tree, const std::string& name,
                                        const std::string& path) const {
    std::vector<std::size_t> named, classed;
    std::vector<std::string> known;
    for (std::size_t i = 0; i < tree.children.size(); ++i) {
      const ConfigTree& element = *tree.children[i].value;
      const std::string own_name = name_of(element), own_class = class_of(element);
      if (own_name == name) named.push_back(i);
      if (own_class == name) classed.push_back(i);
      for (const std::string& word : {own_name, own_class}) {
        if (!word.empty()) known.push_back(word);
      }
    }
    const std::vector<std::size_t>& matches = named.empty() ? classed : named;
    if (matches.size() == 1) return matches[0];
    if (matches.size() > 1) {
      fail(path, fmt::format("{} elements are called {}; take one by its index, such as [{}]",
                             matches.size(), in_quotes(name), matches[0]));
    }
    fail(path,
         fmt::format("no element is called {}{}", in_quotes(name), did_you_mean(name, known)));
  }

  ConfigPlace place_;
  ConfigTreePointer value_;
};

}  // namespace

ConfigTreePointer apply_override(const ConfigTreePointer& root, const std::string& assignment,
                                 const std::string& given_origin) {
  if (const std::size_t bad = first_bad_byte(assignment); bad < assignment.size()) {
    throw ConfigError(given_origin.empty() ? "--set" : given_origin, "",
                      fmt::format("byte 0x{:02x} in an override is no text in UTF-8",
                                  static_cast<unsigned char>(assignment[bad])));
  }
  const Assignment parts = AssignmentReader(assignment, given_origin).read();
  const std::string origin = given_origin.empty() ? "--set " + parts.path_text : given_origin;
  const Assigner assigner(origin, parse_yaml(parts.value, origin, false));
  ConfigTreePointer result = assigner.assign(root, parts.path, "");
  if (result->height > config_height_limit || result->size > config_size_limit ||
      result->text_bytes > config_text_limit) {
    throw ConfigError(
        origin, "",
        fmt::format("makes the configuration larger than {} values of {} bytes in {} levels",
                    config_size_limit, config_text_limit, config_height_limit));
  }
  return result;
}

}  // namespace meshwork
