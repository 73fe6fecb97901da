#include "runtime/mesh/layout_map.h"

#include <fmt/format.h>

#include <algorithm>

#include "collectives/error.h"

namespace meshwork {

LayoutMatch LayoutMap::match_of(const PathMap<Value>::Entry& entry) {
  return {entry.pattern.key(), entry.value.layout, entry.pattern.origin(), entry.value.chosen};
}

void LayoutMap::insert(std::string key, TensorLayout layout, std::string origin, bool chosen) {
  const std::string what = fmt::format("layout of \"{}\"", key);
  map_.insert(std::move(key), {std::move(layout), chosen}, std::move(origin),
              [&](const Value& value) { (void)meshwork::resolve(value.layout, mesh_, what); });
}

void LayoutMap::erase(std::string_view key) {
  map_.erase(key);
}

bool LayoutMap::contains(std::string_view key) const {
  return std::ranges::any_of(map_.entries(),
                             [&](const auto& entry) { return entry.pattern.key() == key; });
}

std::vector<LayoutMatch> LayoutMap::entries() const {
  std::vector<LayoutMatch> matches;
  for (const auto& entry : map_.entries()) matches.push_back(match_of(entry));
  return matches;
}

std::optional<LayoutMatch> LayoutMap::find(const std::string& path) const {
  const auto* const entry = map_.find(path);
  return entry == nullptr ? std::nullopt : std::optional(match_of(*entry));
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

}  // namespace meshwork
