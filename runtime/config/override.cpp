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

// One component of a path: the name of an entry or element, or an index.
struct Component {
  std::string name;
  std::int64_t index = -1;
  [[nodiscard]] bool is_index() const { return index >= 0; }
};

struct Assignment {
  std::vector<Component> path;
  std::string path_text;
  std::string value;
};

[[noreturn]] void fail_syntax(const std::string& assignment, std::string_view problem) {
  throw ConfigError(
      "--set " + assignment, "",
      fmt::format("{}; expected a path and its value, such as fit.epochs=3", problem));
}

// path := component ( "." component | "[" digits "]" )* ; component := word | quoted
Assignment split(const std::string& text) {
  Assignment result;
  std::size_t at = 0;
  const auto next_is = [&](char c) { return at < text.size() && text[at] == c; };
  const auto component = [&] {
    std::string name;
    if (next_is('"') || next_is('\'')) {
      const char quote = text[at];
      const std::size_t end = text.find(quote, at + 1);
      if (end == std::string::npos) fail_syntax(text, "a quote is not closed");
      name = text.substr(at + 1, end - at - 1);
      at = end + 1;
    } else {
      const std::size_t end = std::min(text.find_first_of(".[]=\"'", at), text.size());
      name = text.substr(at, end - at);
      at = end;
    }
    if (name.empty()) fail_syntax(text, "a name is missing in the path");
    result.path.push_back({std::move(name), -1});
  };
  component();
  while (at < text.size() && text[at] != '=') {
    if (next_is('.')) {
      ++at;
      component();
    } else if (next_is('[')) {
      const std::size_t end = std::min(text.find(']', at), text.size());
      Component index;
      const char* last = text.data() + end;
      const auto [read, code] = std::from_chars(text.data() + at + 1, last, index.index);
      if (end == text.size() || code != std::errc() || read != last || index.index < 0) {
        fail_syntax(text, "an index is a number from 0 in brackets");
      }
      result.path.push_back(index);
      at = end + 1;
    } else {
      fail_syntax(text,
                  fmt::format("{} is not expected in the path", in_quotes(text.substr(at, 1))));
    }
  }
  if (at == text.size()) fail_syntax(text, "\"=\" is missing");
  if (result.path.size() > static_cast<std::size_t>(config_height_limit)) {
    fail_syntax(text, fmt::format("the path has more than {} names", config_height_limit));
  }
  result.path_text = text.substr(0, at);
  result.value = text.substr(at + 1);
  return result;
}

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
        return assign_in_map(empty_map(), rest, path);
      default:
        break;
    }
    // `optimizer: Adam` is `optimizer: {Adam: }`.
    if (tree->plain && is_class_name(tree->text)) {
      const auto object = empty_map();
      object->place = tree->place;
      auto nothing = std::make_shared<ConfigTree>();
      nothing->place = tree->place;
      object->add({tree, std::move(nothing)});
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
  [[nodiscard]] std::shared_ptr<ConfigTree> empty_map() const {
    auto map = std::make_shared<ConfigTree>();
    map->kind = Kind::map;
    map->place = place_;
    return map;
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
    auto key = std::make_shared<ConfigTree>();
    key->kind = Kind::scalar;
    key->text = name;
    key->place = place_;
    auto nothing = std::make_shared<ConfigTree>();
    nothing->place = place_;
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
  const Assignment parts = split(assignment);
  const std::string origin = given_origin.empty() ? "--set " + parts.path_text : given_origin;
  const Assigner assigner(origin, parse_yaml(parts.value, origin, false));
  ConfigTreePointer result = assigner.assign(root, parts.path, "");
  if (result->height > config_height_limit || result->size > config_size_limit) {
    throw ConfigError(origin, "",
                      fmt::format("makes the configuration larger than {} values in {} levels",
                                  config_size_limit, config_height_limit));
  }
  return result;
}

}  // namespace meshwork
