#include "runtime/mesh/device_mesh.h"

#include <fmt/format.h>

#include <algorithm>

#include "collectives/error.h"

namespace meshwork {
namespace {

void check_axes(const MeshShape& mesh, std::span<const Axis> axes) {
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 0 || axes[i] >= mesh.axis_count() || (i > 0 && axes[i] <= axes[i - 1])) {
      internal_error("a communicator over axes that are not ascending axes of " + to_string(mesh));
    }
  }
}

}  // namespace

DeviceMesh::DeviceMesh(std::vector<MeshAxis> axes, const Communicator& communicator)
    : all_(communicator.duplicate()), shape_(std::move(axes), communicator.size()) {
  for (Axis axis = 0; axis < shape_.axis_count(); ++axis) prepare(std::vector<Axis>{axis});
#ifndef NDEBUG
  check_calls();
#endif
}

void DeviceMesh::check_calls() {
  if (!calls_) calls_.emplace(all_.duplicate());
}

void DeviceMesh::require_same_call(const std::string& call, const Settings& settings) const {
  if (!calls_ || all_.size() == 1) return;
  meshwork::require_same_call(*calls_, call);
  require_same_settings(*calls_, settings, "what " + call + " is given");
}

std::int64_t DeviceMesh::coordinate(std::string_view name) const {
  return shape_.coordinate(rank(), shape_.axis(name));
}

void DeviceMesh::prepare(std::span<const Axis> axes) {
  check_axes(shape_, axes);
  std::vector<Axis> key(axes.begin(), axes.end());
  if (over_.contains(key)) return;
  // The ranks of one communicator are those that share the rank with index 0 over the axes.
  const auto color = static_cast<int>(shape_.neighbour(rank(), axes, 0));
  const auto number = static_cast<int>(shape_.index_over(rank(), axes));
  over_.emplace(std::move(key), all_.split(color, number));
}

const Communicator& DeviceMesh::communicator(std::span<const Axis> axes) const {
  check_axes(shape_, axes);
  const auto found = over_.find(std::vector<Axis>(axes.begin(), axes.end()));
  if (found == over_.end()) {
    internal_error(fmt::format("no communicator over {} of the mesh {} was prepared",
                               shape_.names(axes), to_string(shape_)));
  }
  return found->second;
}

}  // namespace meshwork
