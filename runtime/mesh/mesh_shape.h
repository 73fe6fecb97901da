// The shape of a mesh: named axes with sizes, and where each rank stands. Pure arithmetic, no MPI,
// so that plans can be made for meshes that are not there.
//
// Ranks are numbered row-major over the axes: the last axis is the fastest, so its ranks are
// neighbours (inside one node, as a rule).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace meshwork {

/// The index of an axis in its mesh.
using Axis = int;

struct MeshAxis {
  std::string name;
  std::int64_t size = 1;  // -1 in a request: what the ranks leave
  bool operator==(const MeshAxis&) const = default;
};

class MeshShape {
 public:
  /// Axes with their sizes. One size may be -1 and becomes `rank_count` divided by the others.
  /// Throws `Error`: no axes, an empty or repeated name, a size that is neither positive nor -1,
  /// two sizes of -1, a product that is not `rank_count` (the message states both).
  MeshShape(std::vector<MeshAxis> axes, std::int64_t rank_count);

  [[nodiscard]] int axis_count() const { return static_cast<int>(axes_.size()); }
  [[nodiscard]] const std::vector<MeshAxis>& axes() const { return axes_; }
  [[nodiscard]] const std::string& name(Axis axis) const { return axes_[axis].name; }
  /// "data+model".
  [[nodiscard]] std::string names(std::span<const Axis> axes) const;
  [[nodiscard]] std::int64_t size(Axis axis) const { return axes_[axis].size; }
  [[nodiscard]] std::int64_t rank_count() const { return rank_count_; }

  /// The axis called `name`. Throws `Error` naming the axes there are and the nearest one.
  [[nodiscard]] Axis axis(std::string_view name) const;
  /// The same, or -1.
  [[nodiscard]] Axis find(std::string_view name) const;

  /// The product of the sizes of `axes`.
  [[nodiscard]] std::int64_t size_over(std::span<const Axis> axes) const;

  /// The coordinate of `rank` on each axis.
  [[nodiscard]] std::vector<std::int64_t> coordinates(std::int64_t rank) const;
  [[nodiscard]] std::int64_t coordinate(std::int64_t rank, Axis axis) const;
  /// The rank at `coordinates`.
  [[nodiscard]] std::int64_t rank_at(std::span<const std::int64_t> coordinates) const;
  /// Row-major index of `rank` over the axes in the given order, the first the most major.
  [[nodiscard]] std::int64_t index_over(std::int64_t rank, std::span<const Axis> axes) const;
  /// The rank that differs from `rank` only on `axes`, where its index over them is `index`.
  [[nodiscard]] std::int64_t neighbour(std::int64_t rank, std::span<const Axis> axes,
                                       std::int64_t index) const;

  bool operator==(const MeshShape&) const = default;

 private:
  std::vector<MeshAxis> axes_;
  std::vector<std::int64_t> strides_;
  std::int64_t rank_count_ = 1;
};

/// "data=2 x model=4".
[[nodiscard]] std::string to_string(const MeshShape& mesh);

}  // namespace meshwork
