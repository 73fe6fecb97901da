#include "runtime/mesh/place_map.h"

#include <algorithm>
#include <set>

namespace meshwork {

void PlaceMap::insert(std::string key, std::vector<PlacedAt> places, std::string origin) {
  const std::string what = fmt::format("place of \"{}\"", key);
  map_.insert(std::move(key), std::move(places), std::move(origin),
              [&](const std::vector<PlacedAt>& all) {
                std::set<std::string> named;
                for (const PlacedAt& place : all) {
                  try {
                    (void)mesh_.axis(place.axis);
                  } catch (const Error& error) {
                    fail("{}: {}", what, error.what());
                  }
                  if (!named.insert(place.axis).second) {
                    fail("{}: the axis \"{}\" is named twice", what, place.axis);
                  }
                  if (place.last.value_or(place.first) >= most_places) {
                    fail("{}: no axis has as many as {} places", what, most_places);
                  }
                  if (place.first < 0 || place.last.value_or(place.first) < place.first) {
                    fail(
                        "{}: expected a coordinate of the axis \"{}\" from 0 on, or the first and "
                        "the last of several",
                        what, place.axis);
                  }
                }
                if (all.empty()) fail("{}: expected an axis and a coordinate", what);
              });
}

void PlaceMap::stage_over(const std::string& axis, std::int64_t chunks, bool balanced,
                          std::string origin) {
  const Axis over = mesh_.axis(axis);
  if (chunks < 1 || chunks > most_places) {
    fail("chunks: expected an integer from 1 to {}, found {}", most_places, chunks);
  }
  if (balanced && std::ranges::binary_search(axes(), over)) {
    fail("layers are placed on the axis \"{}\", and are to be balanced over it; do one of the two",
         axis);
  }
  staged_ = {over, chunks, balanced};
  staged_origin_ = std::move(origin);
}

std::vector<Axis> PlaceMap::axes() const {
  std::set<Axis> axes;
  if (staged_ && staged_->balanced) axes.insert(staged_->axis);
  for (const auto& entry : map_.entries()) {
    for (const PlacedAt& place : entry.value) axes.insert(mesh_.axis(place.axis));
  }
  return {axes.begin(), axes.end()};
}

std::int64_t PlaceMap::places_on(const std::string& axis) const {
  std::int64_t places = 1;
  for (const auto& entry : map_.entries()) {
    for (const PlacedAt& place : entry.value) {
      if (place.axis == axis) places = std::max(places, place.last.value_or(place.first) + 1);
    }
  }
  return places;
}

std::vector<std::int64_t> PlaceMap::unnamed_on(const std::string& axis) const {
  std::vector<bool> named(static_cast<std::size_t>(places_on(axis)), false);
  for (const auto& entry : map_.entries()) {
    for (const PlacedAt& place : entry.value) {
      if (place.axis != axis) continue;
      const std::int64_t last = place.last.value_or(place.first);
      std::fill(named.begin() + place.first, named.begin() + last + 1, true);
    }
  }
  std::vector<std::int64_t> unnamed;
  for (std::size_t i = 0; i < named.size(); ++i) {
    if (!named[i]) unnamed.push_back(static_cast<std::int64_t>(i));
  }
  return unnamed;
}

Places PlaceMap::find(std::string path) const {
  const auto* entry = map_.find(path);
  for (std::size_t end = path.rfind('/'); entry == nullptr && end != std::string::npos;
       end = path.rfind('/')) {
    path.resize(end);
    entry = map_.find(path);
  }
  Places places;
  if (entry == nullptr) return places;
  for (const PlacedAt& at : entry->value) {
    const Axis axis = mesh_.axis(at.axis);
    if (mesh_.size(axis) == 1) continue;
    const std::int64_t chunks = staged_ && staged_->axis == axis ? staged_->chunks : 1;
    const std::int64_t size = mesh_.size(axis) * chunks, named = places_on(at.axis);
    std::set<std::int64_t> coordinates;
    for (std::int64_t place = at.first; place <= at.last.value_or(at.first); ++place) {
      coordinates.insert(named > size ? place * size / named : place);
    }
    places.push_back({axis, {coordinates.begin(), coordinates.end()}});
  }
  std::ranges::sort(places, {}, &Place::axis);
  return places;
}

}  // namespace meshwork
