#include "runtime/train/distribution.h"

#include <algorithm>

#include "collectives/error.h"

namespace meshwork {
namespace {

std::optional<Axis> batch_axis_of(const MeshShape& mesh, const PlaceMap& places,
                                  const DistributionOptions& options) {
  if (!options.batch_axis) {
    return first_batch_axis(mesh, places);
  }
  if (options.batch_axis->empty()) {
    return std::nullopt;
  }
  try {
    return mesh.axis(*options.batch_axis);
  } catch (const Error& error) {
    fail("batch_axis: {}", error.what());
  }
}

}  // namespace

std::optional<Axis> first_batch_axis(const MeshShape& mesh, const PlaceMap& places) {
  const std::vector<Axis> placing = places.axes();
  for (Axis axis = 0; axis < mesh.axis_count(); ++axis) {
    if (!std::ranges::binary_search(placing, axis)) return axis;
  }
  return std::nullopt;
}

Distribution DataParallel(DeviceMesh& mesh, const DistributionOptions& options) {
  return ModelParallel(mesh, LayoutMap(mesh), options);
}

Distribution ModelParallel(DeviceMesh& mesh, LayoutMap layouts,
                           const DistributionOptions& options) {
  if (layouts.mesh() != mesh.shape()) {
    fail("the layout map is for the mesh {}, the model for {}: a model has one mesh",
         to_string(layouts.mesh()), to_string(mesh.shape()));
  }
  PlaceMap places(mesh.shape());
  for (const auto& [key, at] : options.places) places.insert(key, at);
  if (const auto& [axis, chunks, balanced] = options.stages; !axis.empty()) {
    places.stage_over(axis, chunks, balanced);
  }
  const std::optional<Axis> batch_axis = batch_axis_of(mesh.shape(), places, options);
  return {&mesh, std::move(layouts), batch_axis, options.unmatched_layouts, std::move(places)};
}

Distribution spread_by(DeviceMesh& mesh, SharedStrategy strategy,
                       const DistributionOptions& options) {
  Distribution distribution = DataParallel(mesh, options);
  distribution.strategy = std::move(strategy);
  return distribution;
}

}  // namespace meshwork
