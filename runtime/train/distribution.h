// How a model is spread: the mesh, the layouts of its variables and outputs, where its layers are
// placed, and the axis that splits batches. DataParallel replicates all variables; ModelParallel takes
// a LayoutMap; a strategy (strategies/) makes one of the model. The batch axis is the mesh's first that
// places nothing, unless another is named.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/mesh/device_mesh.h"
#include "runtime/mesh/layout_map.h"
#include "runtime/mesh/place_map.h"
#include "runtime/train/strategies/strategy.h"

namespace meshwork {

/// What to do with a key of the layout map that matches nothing in the model.
enum class UnmatchedLayouts : std::uint8_t { error, warn };

/// A pipeline: which axis has the stages of the model (graph/schedule.h).
struct StagesOptions {
  std::string axis = "";    // "": none
  std::int64_t chunks = 1;  // stages at each coordinate
  bool balanced = false;    // the planner places layers, instead of `places`
};

struct DistributionOptions {
  /// The axis that splits batches; unset: the first of the mesh that places nothing; "": none, every
  /// rank sees every row.
  std::optional<std::string> batch_axis;
  UnmatchedLayouts unmatched_layouts = UnmatchedLayouts::error;
  /// Where layers and blocks are, by path or pattern: {{"decoder/.*", {{"stage", 1}}}}.
  std::map<std::string, std::vector<PlacedAt>> places = {};
  StagesOptions stages = {};
};

/// The mesh must outlive every model that is spread over it.
struct Distribution {
  DeviceMesh* mesh = nullptr;
  LayoutMap layouts;
  std::optional<Axis> batch_axis;
  UnmatchedLayouts unmatched_layouts = UnmatchedLayouts::error;
  PlaceMap places;
  SharedStrategy strategy = {};  // of what `layouts` does not name
};

/// The axis that splits batches where nobody names one, or none.
[[nodiscard]] std::optional<Axis> first_batch_axis(const MeshShape& mesh, const PlaceMap& places);

/// Throws `Error` for a batch axis that the mesh does not have, naming those it has.
[[nodiscard]] Distribution DataParallel(DeviceMesh& mesh, const DistributionOptions& options = {});
/// `layouts` must be a map for `mesh`.
[[nodiscard]] Distribution ModelParallel(DeviceMesh& mesh, LayoutMap layouts,
                                         const DistributionOptions& options = {});
/// As `strategy`, which may be null, lays the model out.
[[nodiscard]] Distribution spread_by(DeviceMesh& mesh, SharedStrategy strategy,
                                     const DistributionOptions& options = {});

}  // namespace meshwork
