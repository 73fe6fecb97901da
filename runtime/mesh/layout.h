// Layout: how a tensor lies on a mesh.
//
// For each dimension, the ordered list of mesh axes, major to minor, that split it; and the set of
// axes over which the value is a *partial* sum: the true value is the sum over the ranks along
// them. An axis occurs at most once; over an axis that does not occur the tensor is replicated.
// Blocks follow partition.h, by the flat index over all axes of the dimension, major to minor, so
// that gathering over the minor axes gives exactly the block of the remaining layout.
//
// A tensor may be *placed*: on one axis, only the ranks at some coordinates hold it. To the others it
// is empty. So an axis can split a model as it splits tensors (graph/placement.h); such an axis
// splits no dimension.
//
// `Layout` names axes by index into one MeshShape and is what plans are made of. `TensorLayout` is
// the same as a user writes it, by axis name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "runtime/mesh/mesh_shape.h"
#include "runtime/shape/block.h"

namespace meshwork {

/// The coordinates of an axis at which something is.
struct Place {
  Axis axis = 0;
  std::vector<std::int64_t> coordinates;  // ascending, one at least
  bool operator==(const Place&) const = default;
};
/// By ascending axis. Over an axis that is not there: everywhere.
using Places = std::vector<Place>;

/// The axis of a pipeline (graph/schedule.h).
struct StagedAxis {
  Axis axis = 0;
  std::int64_t chunks = 1;  // stages at a coordinate
  bool balanced = false;    // the planner places layers
};

/// Whether `rank` is there.
[[nodiscard]] bool includes(const Places& places, const MeshShape& mesh, std::int64_t rank);
/// "stage=0", "stage=0,2 tower=1"; "" for everywhere.
[[nodiscard]] std::string to_string(const Places& places, const MeshShape& mesh);

struct Layout {
  std::vector<std::vector<Axis>> dimensions;  // by dimension: axes, major to minor
  std::vector<Axis> partial;                  // ascending
  Places places = {};                         // where it is held

  /// The layout of a tensor of `dimension_count` dimensions that every rank holds whole.
  [[nodiscard]] static Layout replicated(std::size_t dimension_count);

  [[nodiscard]] int dimension_count() const { return static_cast<int>(dimensions.size()); }
  /// The dimension that `axis` splits, or -1.
  [[nodiscard]] int dimension_of(Axis axis) const;
  [[nodiscard]] bool is_partial(Axis axis) const;
  /// Whether `axis` neither splits a dimension nor is partial.
  [[nodiscard]] bool replicates(Axis axis) const;
  /// Every axis that splits a dimension, ascending.
  [[nodiscard]] std::vector<Axis> splitting_axes() const;
  [[nodiscard]] Layout without_partial() const;
  /// The same, held at `places`; without an argument: without places.
  [[nodiscard]] Layout at(Places places = {}) const;
  /// The same without axes of size 1, which split nothing. Equal placements have equal canonical
  /// forms.
  [[nodiscard]] Layout canonical(const MeshShape& mesh) const;

  bool operator==(const Layout&) const = default;
};

struct LayoutHash {
  [[nodiscard]] std::size_t operator()(const Layout& layout) const;
};

/// "[data, ~, data+model]", with " partial over model" and " at stage=0" behind where they apply.
[[nodiscard]] std::string to_string(const Layout& layout, const MeshShape& mesh);

/// The block of `rank` in a tensor of `shape` (global) lying as `layout`. Empty where the rank holds
/// nothing of it, but for a tensor of no dimension.
[[nodiscard]] Block block_of(const Layout& layout, const Shape& shape, const MeshShape& mesh,
                             std::int64_t rank);

/// Those that hold the same block, on every axis that neither splits the tensor nor is partial: how
/// many they are, and which of them a rank is; -1 if it holds none.
struct Replica {
  std::int64_t index = 0, count = 1;
};
[[nodiscard]] Replica replica_of(const Layout& layout, const MeshShape& mesh, std::int64_t rank);

/// Whether `rank` is the one that answers for its block among those that hold the same block: the
/// first of them.
[[nodiscard]] bool owns_block(const Layout& layout, const MeshShape& mesh, std::int64_t rank);

/// The length of the largest block, in elements.
[[nodiscard]] std::int64_t largest_block(const Layout& layout, const Shape& shape,
                                         const MeshShape& mesh);

/// One entry of a TensorLayout: the axes that split one dimension. `unsharded`, "model" and
/// {"data", "model"} all convert to it.
struct DimensionAxes {
  std::vector<std::string> axes;
  DimensionAxes() = default;
  DimensionAxes(const char* axis) : axes{axis} {}
  DimensionAxes(std::string axis) : axes{std::move(axis)} {}
  DimensionAxes(std::initializer_list<const char*> list) : axes(list.begin(), list.end()) {}
  explicit DimensionAxes(std::vector<std::string> list) : axes(std::move(list)) {}
  bool operator==(const DimensionAxes&) const = default;
};
inline const DimensionAxes unsharded{};

/// A layout as the user writes it: one entry a dimension, axes by name.
using TensorLayout = std::vector<DimensionAxes>;

/// "[~, model]".
[[nodiscard]] std::string to_string(const TensorLayout& layout);

/// `layout` by axis index. Throws `Error`: an axis that `mesh` lacks (naming those it has), an axis
/// used twice (naming both dimensions). `what` names the entry in messages: "layout of d1/kernel".
[[nodiscard]] Layout resolve(const TensorLayout& layout, const MeshShape& mesh,
                             const std::string& what);

}  // namespace meshwork
