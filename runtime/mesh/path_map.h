// PathMap: what a user says of paths of a model, by keys that are patterns (path_pattern.h).
//
// Lookup of a path: an exact key wins; otherwise every key is tried as a regular expression that has
// to match the whole path. One match gives its value, none means that nothing is said, two or more
// are an error even where their values are equal. A key is given once.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "runtime/config/nearest.h"
#include "runtime/mesh/path_pattern.h"

namespace meshwork {

template <class Value>
class PathMap {
 public:
  struct Entry {
    PathPattern pattern;
    Value value;
  };

  /// `what` is what messages call a key: "layout key".
  explicit PathMap(std::string what) : what_(std::move(what)) {}

  /// Adds a key, which `check`(value) may refuse. Throws `Error`: a key that is empty, malformed or
  /// there already.
  template <class Check>
  void insert(std::string key, Value value, std::string origin, const Check& check) {
    PathPattern pattern(what_, std::move(key), std::move(origin));
    for (const Entry& entry : entries_) {
      if (entry.pattern.key() != pattern.key()) continue;
      fail("{}{} \"{}\" is given twice{}; delete one of them", before(pattern.origin()), what_,
           pattern.key(),
           entry.pattern.origin().empty() ? ""
                                          : fmt::format(", before at {}", entry.pattern.origin()));
    }
    try {
      check(value);
    } catch (const Error& error) {
      fail("{}{}", before(pattern.origin()), error.what());
    }
    entries_.push_back({std::move(pattern), std::move(value)});
  }

  /// Removes exactly this key. Throws `Error` if it is not there, naming the nearest.
  void erase(std::string_view key) {
    const auto found = std::ranges::find_if(
        entries_, [&](const Entry& entry) { return entry.pattern.key() == key; });
    if (found == entries_.end()) {
      std::vector<std::string> keys;
      for (const Entry& entry : entries_) keys.push_back(entry.pattern.key());
      fail("there is no {} \"{}\" to delete{}", what_, key, did_you_mean(key, keys));
    }
    entries_.erase(found);
  }

  /// All, in the order in which they were added.
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }

  /// The entry for `path`, or null. Throws `Error` if two or more patterns match, naming the path and
  /// the keys.
  [[nodiscard]] const Entry* find(const std::string& path) const {
    std::vector<const Entry*> matches;
    for (const Entry& entry : entries_) {
      if (entry.pattern.key() == path) return &entry;
      if (entry.pattern.matches(path)) matches.push_back(&entry);
    }
    if (matches.size() < 2) return matches.empty() ? nullptr : matches.front();
    std::vector<std::string> keys;
    std::string origins;
    for (const Entry* match : matches) {
      keys.push_back(match->pattern.key());
      const std::string& origin = match->pattern.origin();
      if (!origin.empty()) origins += (origins.empty() ? "" : ", ") + origin;
    }
    fail("{}{}: {} {}s match it, {}; one at most may. The exact key \"{}\" would settle it",
         before(origins), path, matches.size(), what_, quoted_list(keys), path);
  }

  /// The keys that match none of `paths`.
  [[nodiscard]] std::vector<UnmatchedKey> unmatched(std::span<const std::string> paths) const {
    std::vector<UnmatchedKey> keys;
    for (const Entry& entry : entries_) {
      if (auto unmatched = entry.pattern.unmatched(paths)) keys.push_back(std::move(*unmatched));
    }
    return keys;
  }

 private:
  std::string what_;
  std::vector<Entry> entries_;
};

}  // namespace meshwork
