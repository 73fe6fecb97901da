#include "runtime/mesh/layout_map.h"

#include <fmt/format.h>

#include <algorithm>

#include "collectives/error.h"
#include "runtime/config/nearest.h"

namespace meshwork {
void LayoutMap::insert(std::string key, TensorLayout layout, std::string origin, bool chosen) {
  PathPattern pattern("layout key", key, origin);
  for (const Entry& entry : entries_) {
    if (entry.match.key != key) continue;
    fail("{}layout key \"{}\" is given twice{}; delete one of them", before(origin), key,
         entry.match.origin.empty() ? "" : fmt::format(", before at {}", entry.match.origin));
  }
  try {
    (void)meshwork::resolve(layout, mesh_, fmt::format("layout of \"{}\"", key));
  } catch (const Error& error) {
    fail("{}{}", before(origin), error.what());
  }
  entries_.push_back(
      {{std::move(key), std::move(layout), std::move(origin), chosen}, std::move(pattern)});
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
    if (entry.pattern.matches(path)) matches.push_back(&entry.match);
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
  for (const Entry& entry : entries_) {
    if (auto unmatched = entry.pattern.unmatched(paths)) keys.push_back(std::move(*unmatched));
  }
  return keys;
}

}  // namespace meshwork
