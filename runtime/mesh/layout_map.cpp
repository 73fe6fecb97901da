#include "runtime/mesh/layout_map.h"

#include <fmt/format.h>

#include <algorithm>

#include "collectives/error.h"
#include "runtime/config/nearest.h"

namespace meshwork {
namespace {

// libstdc++ backtracks unless told otherwise, and then a key such as "(.*)*x" takes time
// exponential in the length of the path.
#ifdef __GLIBCXX__
constexpr auto syntax = std::regex::ECMAScript | std::regex_constants::__polynomial;
#else
constexpr auto syntax = std::regex::ECMAScript;
#endif

// The place before a message.
std::string before(const std::string& origin) {
  return origin.empty() ? "" : origin + ": ";
}

/// At most four names, then how many more there are.
std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t shown = 4;
  if (names.size() <= shown) return quoted_list(names);
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) text += fmt::format("\"{}\", ", names[i]);
  return text + fmt::format("and {} more", names.size() - shown);
}

/// libstdc++ calls a repetition of nothing a parenthesis, so what stands at the position goes
/// first.
std::string_view reason_of(const std::regex_error& error, char at) {
  if (at == '*' || at == '+' || at == '?') return "nothing before it to repeat";
  switch (error.code()) {
    case std::regex_constants::error_collate:
      return "unknown name in [. .] or [= =]";
    case std::regex_constants::error_ctype:
      return "unknown character class";
    case std::regex_constants::error_escape:
      return "a backslash before a character that it means nothing for";
    case std::regex_constants::error_backref:
      return "a reference to a group that is not there";
    case std::regex_constants::error_brack:
      return "[ without ]";
    case std::regex_constants::error_paren:
      return "parentheses that do not match";
    case std::regex_constants::error_brace:
      return "{ without }";
    case std::regex_constants::error_badbrace:
      return "numbers in {} that are no range";
    case std::regex_constants::error_range:
      return "a range in [] that ends before it begins";
    case std::regex_constants::error_badrepeat:
      return "nothing before it to repeat";
    case std::regex_constants::error_complexity:
      return "a construction that cannot be matched in a reasonable time";
    default:
      return "too large";
  }
}

bool compiles(const std::string& pattern) {
  try {
    std::regex compiled(pattern, syntax);
    return true;
  } catch (const std::regex_error&) {
    return false;
  }
}

/// Where a malformed expression goes wrong: behind its longest beginning that is well-formed once
/// the open groups are closed; or, if that is all of it, at the last group that is not closed.
std::size_t position_of_error(const std::string& pattern) {
  std::vector<std::size_t> open;  // groups
  std::size_t good = 0;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '\\') {
      ++i;  // the next character means nothing here
    } else if (in_class) {
      in_class = pattern[i] != ']';
    } else if (pattern[i] == '[') {
      in_class = true;
    } else if (pattern[i] == '(') {
      open.push_back(i);
    } else if (pattern[i] == ')' && !open.empty()) {
      open.pop_back();
    }
    const std::size_t length = std::min(i + 1, pattern.size());
    if (compiles(pattern.substr(0, length) + std::string(open.size(), ')'))) good = length;
  }
  return good == pattern.size() && !open.empty() ? open.back() : good;
}

}  // namespace

void LayoutMap::insert(std::string key, TensorLayout layout, std::string origin) {
  const std::string where = before(origin);
  if (key.empty()) {
    fail(
        "{}a layout key is empty; it is a path such as \"d1/kernel\", or a regular expression that "
        "matches paths",
        where);
  }
  for (const Entry& entry : entries_) {
    if (entry.match.key != key) continue;
    fail("{}layout key \"{}\" is given twice{}; delete one of them", where, key,
         entry.match.origin.empty() ? "" : fmt::format(", before at {}", entry.match.origin));
  }
  std::regex expression;
  try {
    expression = std::regex(key, syntax);
  } catch (const std::regex_error& error) {
    const std::size_t position = position_of_error(key);
    fail("{}layout key \"{}\" is not a regular expression: {}, at character {}{}", where, key,
         reason_of(error, position < key.size() ? key[position] : '\0'), position + 1,
         position < key.size() ? fmt::format(" (\"{}\")", key.substr(position)) : ", its end");
  }
  try {
    (void)meshwork::resolve(layout, mesh_, fmt::format("layout of \"{}\"", key));
  } catch (const Error& error) {
    fail("{}{}", where, error.what());
  }
  entries_.push_back(
      {{std::move(key), std::move(layout), std::move(origin)}, std::move(expression)});
}

void LayoutMap::erase(std::string_view key) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.match.key == key; });
  if (found == entries_.end()) {
    std::vector<std::string> keys;
    for (const Entry& entry : entries_) keys.push_back(entry.match.key);
    fail("there is no layout key \"{}\" to delete{}", key, did_you_mean(key, keys));
  }
  entries_.erase(found);
}

bool LayoutMap::contains(std::string_view key) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const Entry& entry) { return entry.match.key == key; });
}

std::vector<LayoutMatch> LayoutMap::entries() const {
  std::vector<LayoutMatch> matches;
  for (const Entry& entry : entries_) matches.push_back(entry.match);
  return matches;
}

std::optional<LayoutMatch> LayoutMap::find(const std::string& path) const {
  std::vector<const LayoutMatch*> matches;
  for (const Entry& entry : entries_) {
    if (entry.match.key == path) return entry.match;
    if (std::regex_match(path, entry.expression)) matches.push_back(&entry.match);
  }
  if (matches.empty()) return std::nullopt;
  if (matches.size() == 1) return *matches[0];
  std::vector<std::string> keys;
  std::string origins;
  for (const LayoutMatch* match : matches) {
    keys.push_back(match->key);
    if (!match->origin.empty()) origins += (origins.empty() ? "" : ", ") + match->origin;
  }
  fail("{}{}: {} layout keys match it, {}; one at most may. The exact key \"{}\" would settle it",
       before(origins), path, matches.size(), quoted_list(keys), path);
}

Layout LayoutMap::resolve(const LayoutMatch& match, const std::string& path,
                          const Shape& shape) const {
  if (match.layout.size() != shape.size()) {
    fail("{}{}: the layout {}{} has {} dimension{}, but the tensor has {}, its shape is {}",
         before(match.origin), path, to_string(match.layout),
         match.key == path ? "" : fmt::format(" of layout key \"{}\"", match.key),
         match.layout.size(), match.layout.size() == 1 ? "" : "s", shape.size(), to_string(shape));
  }
  try {
    return meshwork::resolve(match.layout, mesh_, fmt::format("{}: layout", path));
  } catch (const Error& error) {
    fail("{}{}", before(match.origin), error.what());
  }
}

std::vector<UnmatchedKey> LayoutMap::unmatched(std::span<const std::string> paths) const {
  std::vector<UnmatchedKey> keys;
  for (const auto& [match, expression] : entries_) {
    const auto matches = [&, &match = match, &expression = expression](const std::string& path) {
      return path == match.key || std::regex_match(path, expression);
    };
    if (std::any_of(paths.begin(), paths.end(), matches)) continue;

    UnmatchedKey unmatched{match.key, match.origin, nearest_names(match.key, paths, 3), {}, {}};
    for (const std::string& path : paths) {
      if (std::regex_search(path, expression)) unmatched.unanchored.push_back(path);
    }
    std::string& message = unmatched.message;
    message = before(match.origin);
    message += fmt::format("layout key \"{}\" matches nothing in the model", match.key);
    // "d1/bias" where there is a d1: say what d1 has.
    const std::size_t slash = match.key.rfind('/');
    std::vector<std::string> names;
    for (const std::string& path : paths) {
      if (slash != std::string::npos && path.compare(0, slash + 1, match.key, 0, slash + 1) == 0 &&
          path.find('/', slash + 1) == std::string::npos) {
        names.push_back(path.substr(slash + 1));
      }
    }
    if (!names.empty()) {
      const std::string name = match.key.substr(slash + 1);
      message += fmt::format(": {} has no \"{}\", it has {}{}", match.key.substr(0, slash), name,
                             quoted_list(names), did_you_mean(name, names));
    } else if (!unmatched.unanchored.empty()) {
      const bool alternatives = match.key.find('|') != std::string::npos;
      message += fmt::format("; a key has to match the whole path: \".*{}{}{}.*\" would match {}",
                             alternatives ? "(" : "", match.key, alternatives ? ")" : "",
                             some_of(unmatched.unanchored));
    } else if (const std::string nearest = nearest_name(match.key, paths); !nearest.empty()) {
      message += fmt::format("; did you mean \"{}\"?", nearest);
    } else if (paths.empty()) {
      message += ", which has no variables and no outputs";
    } else {
      message += fmt::format("; the nearest there are: {}", quoted_list(unmatched.nearest));
    }
    keys.push_back(std::move(unmatched));
  }
  return keys;
}

}  // namespace meshwork
