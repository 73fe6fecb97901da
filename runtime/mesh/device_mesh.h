// DeviceMesh: a mesh of ranks that are there, with the communicators along its axes.
//
// Built from splits of one communicator by all of its ranks. One communicator an axis is made at
// once; those over several axes that a plan needs are made by `prepare`, by all ranks in the same
// order, when the plan is made, and never later: `communicator` only finds.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/communicator.h"
#include "runtime/mesh/mesh_shape.h"

namespace meshwork {

class DeviceMesh {
 public:
  /// A mesh of all ranks of `communicator`, in their order. Collective. Errors as MeshShape's.
  explicit DeviceMesh(std::vector<MeshAxis> axes,
                      const Communicator& communicator = Communicator::world());

  [[nodiscard]] const MeshShape& shape() const { return shape_; }
  [[nodiscard]] std::int64_t rank() const { return all_.rank(); }
  /// This rank's coordinate on the axis called `name`.
  [[nodiscard]] std::int64_t coordinate(std::string_view name) const;

  /// All ranks of the mesh.
  [[nodiscard]] const Communicator& all() const { return all_; }

  /// Makes the communicator over `axes` (ascending) if there is none yet. Collective over the mesh.
  void prepare(std::span<const Axis> axes);
  /// The communicator over `axes` (ascending): this rank and those that differ from it on them
  /// only, numbered row-major. Throws if it has not been prepared; not collective.
  [[nodiscard]] const Communicator& communicator(std::span<const Axis> axes) const;

 private:
  Communicator all_;
  MeshShape shape_;
  std::map<std::vector<Axis>, Communicator> over_;
};

}  // namespace meshwork
