#include "runtime/mesh/layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "collectives/error.h"
#include "collectives/joined_text.h"
#include "runtime/config/nearest.h"

namespace meshwork {
namespace {

std::string bracketed(const std::vector<std::string>& entries) {
  return "[" + joined_text(entries, ", ") + "]";
}

}  // namespace

bool includes(const Places& places, const MeshShape& mesh, std::int64_t rank) {
  return std::all_of(places.begin(), places.end(), [&](const Place& place) {
    return std::binary_search(place.coordinates.begin(), place.coordinates.end(),
                              mesh.coordinate(rank, place.axis));
  });
}

std::string to_string(const Places& places, const MeshShape& mesh) {
  std::string text;
  for (const Place& place : places) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", mesh.name(place.axis),
                        joined_text(place.coordinates, ","));
  }
  return text;
}

Layout Layout::replicated(std::size_t dimension_count) {
  Layout layout;
  layout.dimensions.resize(dimension_count);
  return layout;
}

int Layout::dimension_of(Axis axis) const {
  for (int dimension = 0; dimension < dimension_count(); ++dimension) {
    const std::vector<Axis>& axes = dimensions[dimension];
    if (std::find(axes.begin(), axes.end(), axis) != axes.end()) return dimension;
  }
  return -1;
}

bool Layout::is_partial(Axis axis) const {
  return std::find(partial.begin(), partial.end(), axis) != partial.end();
}

bool Layout::replicates(Axis axis) const {
  return dimension_of(axis) < 0 && !is_partial(axis);
}

std::vector<Axis> Layout::splitting_axes() const {
  std::vector<Axis> splitting;
  for (const std::vector<Axis>& axes : dimensions) {
    splitting.insert(splitting.end(), axes.begin(), axes.end());
  }
  std::sort(splitting.begin(), splitting.end());
  return splitting;
}

Layout Layout::without_partial() const {
  Layout layout = *this;
  layout.partial.clear();
  return layout;
}

Layout Layout::at(Places others) const {
  Layout layout = *this;
  layout.places = std::move(others);
  return layout;
}

Layout Layout::canonical(const MeshShape& mesh) const {
  Layout layout = *this;
  const auto splits_nothing = [&](Axis axis) { return mesh.size(axis) == 1; };
  for (std::vector<Axis>& axes : layout.dimensions) std::erase_if(axes, splits_nothing);
  std::erase_if(layout.partial, splits_nothing);
  std::sort(layout.partial.begin(), layout.partial.end());
  std::erase_if(layout.places, [&](const Place& place) {
    return std::ssize(place.coordinates) == mesh.size(place.axis);
  });
  return layout;
}

std::size_t LayoutHash::operator()(const Layout& layout) const {
  std::uint64_t hash = 14695981039346656037u;
  const auto mix = [&](std::uint64_t value) { hash = (hash ^ value) * 1099511628211u; };
  for (const std::vector<Axis>& axes : layout.dimensions) {
    mix(0xD1);
    for (const Axis axis : axes) mix(static_cast<std::uint64_t>(axis) + 1);
  }
  mix(0xFA);
  for (const Axis axis : layout.partial) mix(static_cast<std::uint64_t>(axis) + 1);
  for (const Place& place : layout.places) {
    mix(0xA7 + static_cast<std::uint64_t>(place.axis));
    for (const std::int64_t at : place.coordinates) mix(static_cast<std::uint64_t>(at) + 1);
  }
  return static_cast<std::size_t>(hash ^ (hash >> 32));
}

std::string to_string(const Layout& layout, const MeshShape& mesh) {
  std::vector<std::string> entries;
  for (const std::vector<Axis>& axes : layout.dimensions) {
    entries.push_back(axes.empty() ? "~" : mesh.names(axes));
  }
  std::string text = bracketed(entries);
  if (!layout.partial.empty()) text += " partial over " + mesh.names(layout.partial);
  if (!layout.places.empty()) text += " at " + to_string(layout.places, mesh);
  return text;
}

Block block_of(const Layout& layout, const Shape& shape, const MeshShape& mesh, std::int64_t rank) {
  if (layout.dimensions.size() != shape.size()) {
    internal_error(fmt::format("layout {} for a tensor of shape {}", to_string(layout, mesh),
                               to_string(shape)));
  }
  if (!includes(layout.places, mesh, rank)) return Block(shape.size());
  Block block;
  block.reserve(shape.size());
  for (std::size_t dimension = 0; dimension < shape.size(); ++dimension) {
    const std::vector<Axis>& axes = layout.dimensions[dimension];
    block.push_back(
        block_range(shape[dimension], mesh.size_over(axes), mesh.index_over(rank, axes)));
  }
  return block;
}

Replica replica_of(const Layout& layout, const MeshShape& mesh, std::int64_t rank) {
  Replica replica;
  for (Axis axis = 0; axis < mesh.axis_count(); ++axis) {
    if (!layout.replicates(axis)) continue;
    std::int64_t at = mesh.coordinate(rank, axis), count = mesh.size(axis);
    const auto place = std::ranges::find(layout.places, axis, &Place::axis);
    if (place != layout.places.end()) {
      const auto found = std::ranges::find(place->coordinates, at);
      if (found == place->coordinates.end()) return {-1, 1};
      at = found - place->coordinates.begin();
      count = std::ssize(place->coordinates);
    }
    replica = {replica.index * count + at, replica.count * count};
  }
  return replica;
}

bool owns_block(const Layout& layout, const MeshShape& mesh, std::int64_t rank) {
  return replica_of(layout, mesh, rank).index == 0;
}

std::int64_t largest_block(const Layout& layout, const Shape& shape, const MeshShape& mesh) {
  // The dimensions are split by different axes, so some rank has the largest block in all of them.
  Shape largest;
  for (std::size_t dimension = 0; dimension < shape.size(); ++dimension) {
    const std::int64_t parts = mesh.size_over(layout.dimensions[dimension]);
    largest.push_back(shape[dimension] / parts + (shape[dimension] % parts != 0 ? 1 : 0));
  }
  return element_count(largest);
}

std::string to_string(const TensorLayout& layout) {
  std::vector<std::string> entries;
  for (const DimensionAxes& dimension : layout) {
    entries.push_back(dimension.axes.empty() ? "~" : joined_text(dimension.axes, "+"));
  }
  return bracketed(entries);
}

Layout resolve(const TensorLayout& layout, const MeshShape& mesh, const std::string& what) {
  Layout resolved = Layout::replicated(layout.size());
  for (std::size_t dimension = 0; dimension < layout.size(); ++dimension) {
    for (const std::string& name : layout[dimension].axes) {
      const Axis axis = mesh.find(name);
      if (axis < 0) {
        std::vector<std::string> names;
        for (const MeshAxis& each : mesh.axes()) names.push_back(each.name);
        const std::string nearest = did_you_mean(name, names);
        fail("{} {}: dimension {} is split by axis \"{}\", which the mesh {} does not have{}", what,
             to_string(layout), dimension, name, to_string(mesh),
             nearest.empty() ? fmt::format("; add the axis to the mesh ({}=1 splits nothing)", name)
                             : nearest);
      }
      const int before = resolved.dimension_of(axis);
      if (before == static_cast<int>(dimension)) {
        fail(
            "{} {}: axis \"{}\" (size {}) is used twice for dimension {}; an axis splits a "
            "dimension once",
            what, to_string(layout), name, mesh.size(axis), dimension);
      }
      if (before >= 0) {
        fail(
            "{} {}: axis \"{}\" (size {}) is used for dimension {} and for dimension {}; an axis "
            "splits one dimension only",
            what, to_string(layout), name, mesh.size(axis), before, dimension);
      }
      resolved.dimensions[dimension].push_back(axis);
    }
  }
  return resolved;
}

}  // namespace meshwork
