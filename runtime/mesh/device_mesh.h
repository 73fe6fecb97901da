// DeviceMesh: a mesh of ranks that are there, with the communicators along its axes.
//
// Built from splits of one communicator by all of its ranks. One communicator an axis is made at
// once; those over several axes that a plan needs are made by `prepare`, by all ranks in the same
// order, when the plan is made, and never later: `communicator` only finds.
//
// Collective functions are called by all ranks of a mesh, in one order. A rank that calls one alone
// is answered by whatever collective the others enter next, or waits for ever. Where calls are
// *checked*, in debug builds and for models with the option `check_plan`, every such function of
// models and sharded tensors first compares its name and its arguments on all ranks, and throws an
// `Error` on all that says which rank calls what.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/exchange.h"
#include "runtime/mesh/mesh_shape.h"

namespace meshwork {

class DeviceMesh {
 public:
  /// A mesh of all ranks of `communicator`, in their order. Collective. Errors as MeshShape's.
  /// Debug builds check calls from then on.
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

  /// Has calls checked from now on. Collective over the mesh.
  void check_calls();
  [[nodiscard]] bool checks_calls() const { return calls_.has_value(); }
  /// Where calls are checked, throws an `Error` on all ranks unless all make `call`, and with the
  /// same `settings`. Collective over the mesh.
  void require_same_call(const std::string& call, const Settings& settings = {}) const;

 private:
  Communicator all_;
  std::optional<Communicator> calls_;  // apart from what a call under way sends
  MeshShape shape_;
  std::map<std::vector<Axis>, Communicator> over_;
};

}  // namespace meshwork
