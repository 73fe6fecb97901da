#include "runtime/mesh/mesh_shape.h"

#include <fmt/format.h>

#include "collectives/error.h"
#include "runtime/config/nearest.h"

namespace meshwork {
namespace {

std::vector<std::string> names_of(const std::vector<MeshAxis>& axes) {
  std::vector<std::string> names;
  for (const MeshAxis& axis : axes) names.push_back(axis.name);
  return names;
}

/// "data=2 x model=-1": the axes as they were asked for.
std::string text_of(const std::vector<MeshAxis>& axes) {
  std::string text;
  for (const MeshAxis& axis : axes) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " x ", axis.name, axis.size);
  }
  return text;
}

}  // namespace

MeshShape::MeshShape(std::vector<MeshAxis> axes, std::int64_t rank_count)
    : axes_(std::move(axes)), rank_count_(rank_count) {
  if (axes_.empty()) fail("a mesh needs at least one axis, for example data={}", rank_count);
  if (rank_count < 1) fail("a mesh needs at least one rank, not {}", rank_count);
  std::int64_t product = 1;
  MeshAxis* open = nullptr;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    MeshAxis& axis = axes_[i];
    if (axis.name.empty()) fail("mesh {}: axis {} has no name", text_of(axes_), i);
    for (std::size_t j = 0; j < i; ++j) {
      if (axes_[j].name == axis.name) {
        fail("mesh {}: axes {} and {} are both called \"{}\"; names of axes are unique",
             text_of(axes_), j, i, axis.name);
      }
    }
    if (axis.size == -1) {
      if (open) {
        fail(
            "mesh {}: axes \"{}\" and \"{}\" both have the size -1; at most one axis can take all "
            "remaining ranks",
            text_of(axes_), open->name, axis.name);
      }
      open = &axis;
    } else if (axis.size < 1) {
      fail(
          "mesh {}: axis \"{}\" has the size {}; a size is positive, or -1 for all remaining "
          "ranks",
          text_of(axes_), axis.name, axis.size);
    } else if (__builtin_mul_overflow(product, axis.size, &product)) {
      fail("mesh {}: the product of the sizes is more than 2^63 - 1", text_of(axes_));
    }
  }
  if (open) {
    if (rank_count % product != 0) {
      fail(
          "mesh {}: the other axes need {} ranks, and {} ranks are not a multiple of that, so "
          "axis \"{}\" cannot be -1",
          text_of(axes_), product, rank_count, open->name);
    }
    open->size = rank_count / product;
  } else if (product != rank_count) {
    fail(
        "mesh {} has {} ranks, but there are {}; change a size (one may be -1: all remaining "
        "ranks) or start {} ranks",
        text_of(axes_), product, rank_count, product);
  }
  strides_.assign(axes_.size(), 1);
  for (int axis = axis_count() - 1; axis > 0; --axis) {
    strides_[axis - 1] = strides_[axis] * axes_[axis].size;
  }
}

Axis MeshShape::axis(std::string_view name) const {
  const Axis axis = find(name);
  if (axis >= 0) return axis;
  const std::vector<std::string> names = names_of(axes_);
  fail("the mesh has no axis \"{}\"; it has {}{}", name, quoted_list(names),
       did_you_mean(name, names));
}

Axis MeshShape::find(std::string_view name) const {
  for (int axis = 0; axis < axis_count(); ++axis) {
    if (axes_[axis].name == name) return axis;
  }
  return -1;
}

std::int64_t MeshShape::size_over(std::span<const Axis> axes) const {
  std::int64_t product = 1;
  for (const Axis axis : axes) product *= axes_[axis].size;
  return product;
}

std::vector<std::int64_t> MeshShape::coordinates(std::int64_t rank) const {
  std::vector<std::int64_t> coordinates(axes_.size());
  for (int axis = 0; axis < axis_count(); ++axis) coordinates[axis] = coordinate(rank, axis);
  return coordinates;
}

std::int64_t MeshShape::coordinate(std::int64_t rank, Axis axis) const {
  return rank / strides_[axis] % axes_[axis].size;
}

std::int64_t MeshShape::rank_at(std::span<const std::int64_t> coordinates) const {
  std::int64_t rank = 0;
  for (std::size_t axis = 0; axis < axes_.size(); ++axis)
    rank += coordinates[axis] * strides_[axis];
  return rank;
}

std::int64_t MeshShape::index_over(std::int64_t rank, std::span<const Axis> axes) const {
  std::int64_t index = 0;
  for (const Axis axis : axes) index = index * axes_[axis].size + coordinate(rank, axis);
  return index;
}

std::int64_t MeshShape::neighbour(std::int64_t rank, std::span<const Axis> axes,
                                  std::int64_t index) const {
  for (std::size_t i = axes.size(); i-- > 0;) {
    const Axis axis = axes[i];
    const std::int64_t size = axes_[axis].size;
    rank += (index % size - coordinate(rank, axis)) * strides_[axis];
    index /= size;
  }
  return rank;
}

std::string to_string(const MeshShape& mesh) {
  return text_of(mesh.axes());
}

std::string MeshShape::names(std::span<const Axis> axes) const {
  std::string text;
  for (const Axis axis : axes) text += (text.empty() ? "" : "+") + name(axis);
  return text;
}

}  // namespace meshwork
