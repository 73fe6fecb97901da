#include "runtime/train/distribution.h"

#include "collectives/error.h"

namespace meshwork {
namespace {

std::optional<Axis> batch_axis_of(const MeshShape& mesh, const DistributionOptions& options) {
  if (!options.batch_axis) {
    return 0;
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

Distribution DataParallel(DeviceMesh& mesh, const DistributionOptions& options) {
  return ModelParallel(mesh, LayoutMap(mesh), options);
}

Distribution ModelParallel(DeviceMesh& mesh, LayoutMap layouts,
                           const DistributionOptions& options) {
  if (layouts.mesh() != mesh.shape()) {
    fail("the layout map is for the mesh {}, the model for {}: a model has one mesh",
         to_string(layouts.mesh()), to_string(mesh.shape()));
  }
  return {&mesh, std::move(layouts), batch_axis_of(mesh.shape(), options),
          options.unmatched_layouts};
}

Distribution spread_by(DeviceMesh& mesh, SharedStrategy strategy,
                       const DistributionOptions& options) {
  Distribution distribution = DataParallel(mesh, options);
  distribution.strategy = std::move(strategy);
  return distribution;
}

}  // namespace meshwork
