#include "runtime/mesh/crossing.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>

namespace meshwork {
namespace {

// The coordinates of `places` on `axis`; all of them where it says nothing.
std::vector<std::int64_t> coordinates_of(const Places& places, Axis axis, const MeshShape& mesh) {
  const auto found = std::ranges::find(places, axis, &Place::axis);
  if (found != places.end()) return found->coordinates;
  std::vector<std::int64_t> all(static_cast<std::size_t>(mesh.size(axis)));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

Crossing crossing_of(const Places& from, const Places& to, const MeshShape& mesh,
                     std::int64_t rank) {
  std::set<Axis> axes;
  for (const Places* places : {&from, &to}) {
    for (const Place& place : *places) axes.insert(place.axis);
  }
  Crossing crossing{.axes = {axes.begin(), axes.end()}};
  std::vector<std::vector<std::int64_t>> held;
  for (const Axis axis : crossing.axes) held.push_back(coordinates_of(from, axis, mesh));
  // Of the rank that is `index` over the axes, the one that sends to it; itself if it holds it.
  const auto sender_to = [&](std::int64_t index) {
    const std::int64_t receiver = mesh.neighbour(rank, crossing.axes, index);
    std::int64_t sender = receiver;
    for (std::size_t i = 0; i < held.size(); ++i) {
      const std::vector<Axis> axis{crossing.axes[i]};
      const std::int64_t at = mesh.coordinate(receiver, axis.front());
      const auto above = std::ranges::upper_bound(held[i], at);
      sender = mesh.neighbour(sender, axis, above == held[i].begin() ? *above : *std::prev(above));
    }
    return mesh.index_over(sender, crossing.axes);
  };
  const std::int64_t own = mesh.index_over(rank, crossing.axes);
  for (std::int64_t index = 0; index < mesh.size_over(crossing.axes); ++index) {
    if (!includes(to, mesh, mesh.neighbour(rank, crossing.axes, index))) continue;
    const std::int64_t sender = sender_to(index);
    if (sender == index) continue;
    if (sender == own) crossing.sends_to.push_back(static_cast<int>(index));
    if (index == own) crossing.receives_from = static_cast<int>(sender);
  }
  return crossing;
}

Places joined(const Places& a, const Places& b) {
  Places both;
  for (const Place& place : a) {
    const auto other = std::ranges::find(b, place.axis, &Place::axis);
    if (other == b.end()) continue;  // everywhere
    Place& one = both.emplace_back(Place{place.axis, {}});
    std::ranges::set_union(place.coordinates, other->coordinates,
                           std::back_inserter(one.coordinates));
  }
  return both;
}

}  // namespace meshwork
