// to_yaml: maps and lists in block style, lists of scalars on one line, strings quoted where they
// would otherwise read as something else.

#include <algorithm>

#include "runtime/config/load.h"
#include "runtime/config/tree.h"

namespace meshwork {

namespace {

using Kind = ConfigTree::Kind;

bool is_safe_without_quotes(std::string_view text) {
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '/';
  };
  return !text.empty() && is_word(text[0]) &&
         std::all_of(text.begin(), text.end(),
                     [&](char c) { return is_word(c) || c == '-' || c == '.' || c == '+'; }) &&
         text != "null" && text != "Null" && text != "NULL";
}

std::string string_text(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (c == '\n') {
      result += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string scalar_text(const ConfigTree& tree) {
  if (tree.kind == Kind::null) return "~";
  const bool reads_as_string = scalar_kind(tree.text) == ScalarKind::string;
  if (!reads_as_string) return tree.plain ? tree.text : string_text(tree.text);
  return is_safe_without_quotes(tree.text) ? tree.text : string_text(tree.text);
}

bool is_leaf(const ConfigTree& tree) {
  return tree.kind == Kind::null || tree.kind == Kind::scalar;
}

// What fits behind a key or a dash; "" if the value needs lines of its own.
std::string inline_text(const ConfigTree& tree) {
  if (is_leaf(tree)) return scalar_text(tree);
  if (tree.kind == Kind::map) return tree.children.empty() ? "{}" : "";
  std::string result = "[";
  for (const ConfigTree::Child& child : tree.children) {
    if (!is_leaf(*child.value)) return "";
    if (result.size() > 1) result += ", ";
    result += scalar_text(*child.value);
  }
  return result + "]";
}

// Writes the children of `tree`, each on lines indented by `indent`, but for the first, which
// continues the line.
void write_children(const ConfigTree& tree, int indent, std::string& out) {
  const std::string margin(static_cast<std::size_t>(indent), ' ');
  bool first = true;
  for (const auto& [key, value] : tree.children) {
    if (!first) out += margin;
    first = false;
    if (key) {
      // A key of a number or a boolean is a name all the same.
      out += is_safe_without_quotes(key->text) ? key->text : string_text(key->text);
      out += ':';
      const std::string text = inline_text(*value);
      if (value->kind == Kind::null) {
        out += '\n';
      } else if (!text.empty()) {
        out += fmt::format(" {}\n", text);
      } else {
        out += fmt::format("\n{}  ", margin);
        write_children(*value, indent + 2, out);
      }
    } else {
      const std::string text = inline_text(*value);
      out += "- ";
      if (!text.empty()) {
        out += text + "\n";
      } else {
        write_children(*value, indent + 2, out);
      }
    }
  }
}

void list_entries(const ConfigTree& tree, const std::string& path,
                  std::vector<std::pair<std::string, std::string>>& entries) {
  if (std::string text = inline_text(tree); !text.empty()) {
    entries.emplace_back(path, std::move(text));
    return;
  }
  for (std::size_t i = 0; i < tree.children.size(); ++i) {
    const auto& [key, value] = tree.children[i];
    list_entries(*value, key ? entry_path(path, key->text) : fmt::format("{}[{}]", path, i),
                 entries);
  }
}

}  // namespace

std::string to_yaml(const ConfigNode& node) {
  const std::string text = inline_text(node.tree());
  if (!text.empty()) return text + "\n";
  std::string out;
  write_children(node.tree(), 0, out);
  return out;
}

std::vector<std::pair<std::string, std::string>> entries_of(const ConfigNode& node) {
  std::vector<std::pair<std::string, std::string>> entries;
  list_entries(node.tree(), node.path(), entries);
  return entries;
}

}  // namespace meshwork
