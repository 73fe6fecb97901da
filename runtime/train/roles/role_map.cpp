#include "runtime/train/roles/role_map.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "collectives/error.h"
#include "runtime/config/nearest.h"

namespace meshwork {

void RoleMap::add(std::string name, std::string class_name, std::int64_t count) {
  entries_.push_back({std::move(name), std::move(class_name), size(), static_cast<int>(count)});
}

int RoleMap::size() const {
  return entries_.empty() ? 0 : entries_.back().first + entries_.back().count;
}

const RoleMap::Entry* RoleMap::find(std::string_view role) const {
  const auto found = std::ranges::find_if(
      entries_, [&](const Entry& entry) { return entry.name == role || entry.class_name == role; });
  return found == entries_.end() ? nullptr : &*found;
}

bool RoleMap::has(std::string_view role) const {
  return find(role) != nullptr;
}

std::vector<int> RoleMap::ranks_of(std::string_view role) const {
  const Entry* const entry = find(role);
  if (entry == nullptr) {
    std::vector<std::string> names;
    std::string list;
    for (const Entry& one : entries_) {
      names.push_back(one.name);
      list += fmt::format("{}\"{}\"", list.empty() ? "" : ", ", one.name);
    }
    fail("no rank has the role \"{}\"; there are {}{}", role, list.empty() ? "none" : list,
         did_you_mean(std::string(role), names));
  }
  std::vector<int> ranks(static_cast<std::size_t>(entry->count));
  std::iota(ranks.begin(), ranks.end(), entry->first);
  return ranks;
}

const std::string& RoleMap::role_of(int rank) const {
  for (const Entry& entry : entries_) {
    if (rank >= entry.first && rank < entry.first + entry.count) return entry.name;
  }
  fail("there is no rank {}: the job has {}", rank, size());
}

}  // namespace meshwork
