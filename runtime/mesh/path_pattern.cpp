#include "runtime/mesh/path_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <utility>

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

struct PathPattern::Expression {
  std::regex compiled;
};

std::string before(const std::string& origin) {
  return origin.empty() ? "" : origin + ": ";
}

PathPattern::PathPattern(std::string_view what, std::string key, std::string origin)
    : what_(what), key_(std::move(key)), origin_(std::move(origin)) {
  if (key_.empty()) {
    fail("{}{} \"\" is empty; expected a path or a regular expression", before(origin_), what_);
  }
  if (key_.find_first_of("^$\\.*+?()[]{}|") == std::string::npos) return;
  try {
    expression_ = std::make_shared<const Expression>(std::regex(key_, syntax));
  } catch (const std::regex_error& error) {
    const std::size_t position = position_of_error(key_);
    fail("{}{} \"{}\" is not a regular expression: {}, at character {}{}", before(origin_), what_,
         key_, reason_of(error, position < key_.size() ? key_[position] : '\0'), position + 1,
         position < key_.size() ? fmt::format(" (\"{}\")", key_.substr(position)) : ", its end");
  }
}

bool PathPattern::matches(const std::string& path) const {
  return path == key_ || (expression_ && std::regex_match(path, expression_->compiled));
}

bool PathPattern::is_found_in(const std::string& path) const {
  return expression_ ? std::regex_search(path, expression_->compiled)
                     : path.find(key_) != std::string::npos;
}

std::optional<UnmatchedKey> PathPattern::unmatched(std::span<const std::string> paths) const {
  if (std::any_of(paths.begin(), paths.end(),
                  [&](const std::string& path) { return matches(path); })) {
    return std::nullopt;
  }
  UnmatchedKey unmatched{key_, origin_, nearest_names(key_, paths, 3), {}, {}};
  for (const std::string& path : paths) {
    if (is_found_in(path)) unmatched.unanchored.push_back(path);
  }
  std::string& message = unmatched.message;
  message = before(origin_);
  message += fmt::format("{} \"{}\" matches nothing in the model", what_, key_);
  // "d1/bias" where there is a d1: say what d1 has.
  const std::size_t slash = key_.rfind('/');
  std::vector<std::string> names;
  for (const std::string& path : paths) {
    if (slash != std::string::npos && path.compare(0, slash + 1, key_, 0, slash + 1) == 0 &&
        path.find('/', slash + 1) == std::string::npos) {
      names.push_back(path.substr(slash + 1));
    }
  }
  if (!names.empty()) {
    const std::string name = key_.substr(slash + 1);
    message += fmt::format(": {} has no \"{}\", it has {}{}", key_.substr(0, slash), name,
                           quoted_list(names), did_you_mean(name, names));
  } else if (!unmatched.unanchored.empty()) {
    const bool alternatives = key_.find('|') != std::string::npos;
    message += fmt::format("; a key has to match the whole path: \".*{}{}{}.*\" would match {}",
                           alternatives ? "(" : "", key_, alternatives ? ")" : "",
                           some_of(unmatched.unanchored));
  } else if (const std::string nearest = nearest_name(key_, paths); !nearest.empty()) {
    message += fmt::format("; did you mean \"{}\"?", nearest);
  } else if (paths.empty()) {
    message += ", which has no variables and no outputs";
  } else {
    message += fmt::format("; the nearest there are: {}", quoted_list(unmatched.nearest));
  }
  return unmatched;
}

}  // namespace meshwork
