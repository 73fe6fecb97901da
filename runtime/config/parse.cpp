// From YAML text to a ConfigTree, over the events of yaml-cpp's parser.
//
// Taking the events and not yaml-cpp's own nodes gives the place of every key, also in empty
// values, keeps aliases shared, and lets limits end a hostile document while it is read.

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <unordered_map>

#include "collectives/printable.h"
#include "runtime/config/node.h"
#include "runtime/config/tree.h"

namespace meshwork {

namespace {

using Kind = ConfigTree::Kind;

bool is_continuation_byte(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}

// The text with the places of its bytes.
class SourceText {
 public:
  SourceText(std::string_view text, const std::string& name, bool with_lines)
      : text_(text), name_(std::make_shared<const std::string>(name)), with_lines_(with_lines) {
    line_starts_.push_back(0);
    letters_before_.reserve(text.size() + 1);
    std::int32_t letters = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      letters_before_.push_back(letters);
      if (!is_continuation_byte(text[i])) ++letters;
      if (text[i] == '\n') line_starts_.push_back(i + 1);
    }
    letters_before_.push_back(letters);
  }

  [[nodiscard]] ConfigPlace place(std::size_t byte) const {
    if (!with_lines_) return {name_, 0, 0};
    byte = std::min(byte, text_.size());
    const std::size_t line = line_of(byte);
    return {name_, static_cast<int>(line + 1),
            letters_before_[byte] - letters_before_[line_starts_[line]] + 1};
  }

  // yaml-cpp counts bytes in columns, and lines as we do.
  [[nodiscard]] std::size_t byte_of(const YAML::Mark& mark) const {
    if (mark.line < 0 || mark.column < 0) return 0;
    // At the end its column is 0.
    if (static_cast<std::size_t>(mark.pos) >= text_.size()) return text_.size();
    const auto line = std::min(static_cast<std::size_t>(mark.line), line_starts_.size() - 1);
    return std::min(line_starts_[line] + static_cast<std::size_t>(mark.column), text_.size());
  }
  [[nodiscard]] ConfigPlace place(const YAML::Mark& mark) const { return place(byte_of(mark)); }

  // Whether "---" or "..." set `mark` apart from what is above.
  [[nodiscard]] bool begins_document(const YAML::Mark& mark) const {
    const std::size_t byte = byte_of(mark);
    return text_.substr(byte).starts_with("---") ||
           text_.substr(0, byte).find("\n...") != std::string_view::npos;
  }

  // The white space that the line of `mark` begins with.
  [[nodiscard]] std::string_view margin_of(const YAML::Mark& mark) const {
    const std::string_view line = text_.substr(line_starts_[line_of(byte_of(mark))]);
    return line.substr(0, line.find_first_not_of(" \t"));
  }

  // The place of a null. Where a value was left out, yaml-cpp gives what comes next; a reader
  // looks for the ':' or '-' that has nothing behind it.
  [[nodiscard]] ConfigPlace place_of_null(const YAML::Mark& mark) const {
    const std::size_t byte = byte_of(mark);
    if (is_written_null(byte)) return place(byte);
    std::size_t line = line_of(byte);
    std::size_t last =
        last_letter(line, text_.substr(line_starts_[line], byte - line_starts_[line]));
    while (last == std::string_view::npos && line > 0) {
      --line;
      std::string_view text =
          text_.substr(line_starts_[line], line_starts_[line + 1] - line_starts_[line]);
      text = text.substr(0, text.find(" #"));
      const std::size_t first = text.find_first_not_of(" \t");
      if (first == std::string_view::npos || text[first] != '#') last = last_letter(line, text);
    }
    return place(last == std::string_view::npos ? byte : last);
  }

 private:
  // From 0.
  [[nodiscard]] std::size_t line_of(std::size_t byte) const {
    const auto next = std::upper_bound(line_starts_.begin(), line_starts_.end(), byte);
    return static_cast<std::size_t>(next - line_starts_.begin()) - 1;
  }

  // The byte of the last letter of `text`, the beginning of `line`.
  [[nodiscard]] std::size_t last_letter(std::size_t line, std::string_view text) const {
    const std::size_t last = text.find_last_not_of(" \t\r\n");
    return last == std::string_view::npos ? last : line_starts_[line] + last;
  }

  [[nodiscard]] bool is_written_null(std::size_t byte) const {
    const std::string_view text = text_.substr(byte);
    for (const std::string_view word : {"~", "null", "Null", "NULL"}) {
      if (!text.starts_with(word)) continue;
      const std::string_view rest = text.substr(word.size());
      if (!rest.empty() && std::string_view(" \t\r\n,]}").find(rest[0]) == std::string_view::npos) {
        continue;
      }
      // `null : 1` on the next line is a key.
      const std::size_t behind = rest.find_first_not_of(" \t");
      if (behind == std::string_view::npos || rest[behind] != ':') return true;
    }
    return false;
  }

  std::string_view text_;
  std::shared_ptr<const std::string> name_;
  bool with_lines_;
  std::vector<std::size_t> line_starts_;
  std::vector<std::int32_t> letters_before_;  // by byte
};

class TreeBuilder final : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const SourceText& source) : source_(source) {}

  [[nodiscard]] ConfigTreePointer root() const { return root_; }
  // The innermost map or list that is not finished; null at the top.
  [[nodiscard]] const ConfigTree* unfinished() const {
    return open_.empty() ? nullptr : open_.back().node.get();
  }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    finish(std::make_shared<ConfigTree>(ConfigTree{
               .place = expects_key() ? source_.place(mark) : source_.place_of_null(mark)}),
           anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchored_.find(anchor);
    if (found == anchored_.end()) throw error(source_.place(mark), "the alias is part of itself");
    append(found->second, source_.place(mark));
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    auto node = start(Kind::scalar, mark, tag);
    node->text = value;
    // yaml-cpp gives "?" for a scalar without quotes and "!" for one with them.
    node->plain = tag != "!" && tag != "tag:yaml.org,2002:str";
    finish(node, anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(start(Kind::sequence, mark, tag), anchor);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(start(Kind::map, mark, tag), anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    std::shared_ptr<ConfigTree> node;
    YAML::anchor_t anchor;
    ConfigTreePointer key;                              // waits for its value
    std::unordered_map<std::string, ConfigPlace> keys;  // so far
  };

  [[nodiscard]] ConfigError error(const ConfigPlace& place, std::string_view problem) const {
    std::string path;
    for (const Open& parent : open_) {
      if (parent.key) path = entry_path(path, parent.key->text);
      if (parent.node->kind == Kind::sequence) {
        path += fmt::format("[{}]", parent.node->children.size());
      }
    }
    return {place.text(), path, problem};
  }

  std::shared_ptr<ConfigTree> start(Kind kind, const YAML::Mark& mark, const std::string& tag) {
    auto node =
        std::make_shared<ConfigTree>(ConfigTree{.kind = kind, .place = source_.place(mark)});
    const bool standard =
        tag.empty() || tag == "?" || tag == "!" || tag.starts_with("tag:yaml.org,2002:");
    if (!standard) {
      throw error(node->place,
                  fmt::format("unknown tag {}; a configuration needs none", in_quotes(tag)));
    }
    return node;
  }

  void open(std::shared_ptr<ConfigTree> node, YAML::anchor_t anchor) {
    if (open_.size() + 1 > static_cast<std::size_t>(config_height_limit)) {
      throw error(node->place, fmt::format("more than {} levels of nesting", config_height_limit));
    }
    open_.push_back({std::move(node), anchor, nullptr, {}});
  }

  void close() {
    Open finished = std::move(open_.back());
    open_.pop_back();
    finish(finished.node, finished.anchor);
  }

  void finish(std::shared_ptr<const ConfigTree> node, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) anchored_[anchor] = node;
    const ConfigPlace place = node->place;
    append(std::move(node), place);
  }

  [[nodiscard]] bool expects_key() const {
    return !open_.empty() && open_.back().node->kind == Kind::map && !open_.back().key;
  }

  void append(ConfigTreePointer node, const ConfigPlace& place) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (expects_key()) {
      if (node->kind != Kind::scalar) {
        throw error(place,
                    fmt::format("expected a name as key, found {}", ConfigNode(node, "").found()));
      }
      if (node->text.size() > config_key_limit) {
        throw error(place, fmt::format("key {} has more than {} bytes", in_quotes(node->text),
                                       config_key_limit));
      }
      const auto [first, is_new] = parent.keys.emplace(node->text, place);
      if (!is_new) {
        const bool lines_tell = first->second.line > 0 && first->second.line != place.line;
        const std::string where = lines_tell ? fmt::format("at line {} and again at line {}",
                                                           first->second.line, place.line)
                                             : "twice";
        throw error(place, fmt::format("key {} is written {}", in_quotes(node->text), where));
      }
      parent.key = std::move(node);
      return;
    }
    if (static_cast<int>(open_.size()) + node->height > config_height_limit) {
      throw error(place, fmt::format("more than {} levels of nesting", config_height_limit));
    }
    parent.node->add({std::move(parent.key), std::move(node)});
    parent.key = nullptr;
    if (parent.node->size > config_size_limit) {
      throw error(place, fmt::format("more than {} values once aliases are written out",
                                     config_size_limit));
    }
    if (parent.node->text_bytes > config_text_limit) {
      throw error(place, fmt::format("more than {} bytes of text once aliases are written out",
                                     config_text_limit));
    }
  }

  const SourceText& source_;
  ConfigTreePointer root_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, ConfigTreePointer> anchored_;
};

constexpr std::string_view not_continued =
    "this line does not continue the one above; is the indentation right?";

// Refuses what follows the first document.
class NothingMore final : public YAML::EventHandler {
 public:
  explicit NothingMore(const SourceText& source) : source_(source) {}
  void OnDocumentStart(const YAML::Mark& mark) override { refuse(mark); }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { refuse(mark); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { refuse(mark); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                const std::string&) override {
    refuse(mark);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    refuse(mark);
  }
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    refuse(mark);
  }
  void OnMapEnd() override {}

 private:
  [[noreturn]] void refuse(const YAML::Mark& mark) const {
    throw ConfigError(source_.place(mark).text(), "",
                      source_.begins_document(mark)
                          ? "a second document begins here; a configuration is one document"
                          : fmt::format("not valid YAML: {}", not_continued));
  }
  const SourceText& source_;
};

// What yaml-cpp complains of, in words for somebody who does not know its grammar.
ConfigError syntax_error(const YAML::Exception& problem, const SourceText& source,
                         const TreeBuilder& builder, const std::string& name) {
  using namespace YAML::ErrorMsg;
  struct Words {
    std::string_view begin;  // of yaml-cpp's message; some versions append a name
    std::string_view plain;
  };
  const Words table[] = {
      {MAP_VALUE, "a \":\" is not expected here; is the indentation right, or a quote missing?"},
      {MAP_KEY, "a key is not expected here; is the indentation right?"},
      {BLOCK_ENTRY, "a \"-\" is not expected here; is the indentation right?"},
      {END_OF_MAP_FLOW, "expected \",\" or \"}\""},
      {END_OF_SEQ_FLOW, "expected \",\" or \"]\""},
      {END_OF_MAP, "expected a key of the map; is the indentation right?"},
      {END_OF_SEQ, "expected a \"-\" of the list; is the indentation right?"},
      {FLOW_END, "there is nothing here to be closed"},
      {EOF_IN_SCALAR, "a quote is not closed"},
      {DOC_IN_SCALAR, "a quote is not closed before the end of the document"},
      {UNKNOWN_TOKEN, "this character cannot begin a value; quote the value"},
      {"plain value cannot start with", "this character cannot begin a value; quote the value"},
      {UNKNOWN_ANCHOR, "no anchor of this name stands before the alias"},
      {TAB_IN_INDENTATION, "a tab in the indentation; indent with spaces"},
      {BAD_FILE, "too many levels of nesting"},  // what its depth guard says
      {"unexpected token after end of document", not_continued},
  };
  if (problem.mark.is_null()) return {name, "", fmt::format("not valid YAML: {}", problem.msg)};
  std::string text = problem.msg;
  for (const Words& words : table) {
    if (problem.msg.starts_with(words.begin)) {
      text = words.plain;
      break;
    }
  }
  if (problem.msg == END_OF_MAP_FLOW || problem.msg == END_OF_SEQ_FLOW) {
    // Where the bracket was opened says more than where its absence was noticed.
    const Kind kind = problem.msg == END_OF_MAP_FLOW ? Kind::map : Kind::sequence;
    const ConfigTree* open = builder.unfinished();
    if (open != nullptr && open->kind == kind) {
      const int line = source.place(problem.mark).line;
      return {open->place.text(), "",
              fmt::format("not valid YAML: this {} is not closed: {} {}",
                          kind == Kind::map ? "map" : "list", text,
                          line > open->place.line ? fmt::format("before line {}", line)
                                                  : "before the end")};
    }
  }
  const std::string_view margin = source.margin_of(problem.mark);
  if (problem.msg != TAB_IN_INDENTATION && margin.find('\t') != std::string_view::npos) {
    text += "; there is a tab in the indentation, use spaces";
  }
  return {source.place(problem.mark).text(), "", fmt::format("not valid YAML: {}", text)};
}

}  // namespace

std::size_t first_bad_byte(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = character_length(text.substr(i));
    const char c = text[i];
    // yaml-cpp takes a carriage return for a letter unless a line feed follows.
    const bool space =
        c == '\n' || c == '\t' || (c == '\r' && text.substr(i + 1).starts_with('\n'));
    const bool control = (c >= '\0' && c < ' ' && !space) || c == '\x7f';
    if (length == 0 || control) return i;
    i += length;
  }
  return text.size();
}

ConfigTreePointer parse_yaml(std::string_view text, const std::string& name, bool with_lines) {
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  const SourceText source(text, name, with_lines);
  if (text.size() > static_cast<std::size_t>(config_byte_limit)) {
    throw ConfigError(name, "",
                      fmt::format("the text has {} bytes; a configuration may have {}", text.size(),
                                  config_byte_limit));
  }
  const std::size_t bad = first_bad_byte(text);
  if (bad < text.size()) {
    throw ConfigError(source.place(bad).text(), "",
                      fmt::format("byte 0x{:02x} is no text; is this a YAML file in UTF-8?",
                                  static_cast<unsigned char>(text[bad])));
  }
  TreeBuilder builder(source);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    if (parser.HandleNextDocument(builder)) {
      NothingMore nothing_more(source);
      parser.HandleNextDocument(nothing_more);
    }
  } catch (const Error&) {
    throw;
  } catch (const YAML::Exception& problem) {
    throw syntax_error(problem, source, builder, name);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& problem) {
    throw ConfigError(name, "", fmt::format("not valid YAML: {}", problem.what()));
  }
  if (builder.root()) return builder.root();
  return std::make_shared<ConfigTree>(ConfigTree{.place = source.place(std::size_t{0})});
}

}  // namespace meshwork
