// Plans of placed models.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "layers/add.h"
#include "layers/dense.h"
#include "layers/layer_normalization.h"
#include "tests/support/plans.h"

namespace meshwork::test {

using PlaceEntries = std::map<std::string, std::vector<PlacedAt>>;

/// A trunk that two towers read, and their sum.
inline Trained two_towers() {
  return {.sample = {6}, .build = [](const SymbolicTensor& x) {
            const auto trunk = LayerNormalization({.name = "trunk"})(x);
            const auto left = Dense({.name = "left", .units = 5})(trunk);
            const auto right = Dense({.name = "right", .units = 5})(trunk);
            return Dense({.name = "last", .units = 4})(Add({.name = "sum"})({left, right}));
          }};
}

/// The plan for batches of `rows`, which an axis "data" splits where there is one. The stages of a
/// pipeline are over `stages`; "": there is none.
inline Plan placed_plan(const Trained& training, const MeshShape& mesh, const PlaceEntries& entries,
                        const LayoutEntries& layouts = {}, std::int64_t rows = 8,
                        const std::string& stages = "", std::int64_t chunks = 1) {
  PlaceMap places(mesh);
  if (!stages.empty()) places.stage_over(stages, chunks);
  for (const auto& [key, at] : entries) places.insert(key, at);
  TrainedBlueprint of = blueprint_of(training, mesh, layouts, mesh.find("data") < 0 ? "" : "data");
  of.blueprint.place(places);
  of.blueprint.draw(of.data, rows);
  return of.blueprint.planned->plan;
}

}  // namespace meshwork::test
