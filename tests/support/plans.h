// Plans of training steps, without a trainer: for meshes that need not be there.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/graph/plan_report.h"
#include "runtime/train/losses/categorical_crossentropy.h"
#include "runtime/train/optimizers/sgd.h"
#include "tests/support/one_rank.h"

namespace meshwork::test {

/// A model of one input, and what it is trained with.
struct Trained {
  Shape sample{12};
  std::function<SymbolicTensor(const SymbolicTensor&)> build;
  SharedLoss loss = SparseCategoricalCrossentropy({.from_logits = true});
  std::vector<SharedMetric> metrics;
  Optimizer optimizer = SGD();
};

/// A mesh of as many ranks as its axes make.
inline MeshShape mesh_of(const std::vector<MeshAxis>& axes) {
  std::int64_t ranks = 1;
  for (const MeshAxis& axis : axes) {
    ranks *= axis.size;
  }
  return {axes, ranks};
}

struct TrainedBlueprint {
  Blueprint blueprint;
  LossData data;
};

/// An empty `batch_axis` is none.
inline TrainedBlueprint blueprint_of(const Trained& training, const MeshShape& mesh,
                                     const LayoutEntries& entries, const std::string& batch_axis) {
  const auto input = Input(training.sample);
  const Graph model = make_graph({input}, {training.build(input)});
  Shape target = training.loss->target_shape(model.tensors[model.outputs.front()].shape);
  target.erase(target.begin());
  LayoutMap layouts(mesh);
  for (const auto& [key, layout] : entries) {
    layouts.insert(key, layout);
  }
  return {Blueprint(std::make_shared<Graph>(model), layouts,
                    batch_axis.empty() ? std::nullopt : std::optional(mesh.axis(batch_axis)),
                    UnmatchedLayouts::error, {},
                    CompileOptions{training.loss, training.optimizer, training.metrics}),
          LossData{.targets = {target}}};
}

/// The plan for batches of `rows`.
inline Plan plan_of(const Trained& training, const MeshShape& mesh, const LayoutEntries& entries,
                    const std::string& batch_axis, std::int64_t rows, CostModel costs = {}) {
  TrainedBlueprint of = blueprint_of(training, mesh, entries, batch_axis);
  of.blueprint.spread.costs = costs;
  of.blueprint.draw(of.data, rows);
  return of.blueprint.planned->plan;
}

/// "data+model".
inline std::string names_of(const std::vector<Axis>& axes, const MeshShape& mesh) {
  std::string names;
  for (const Axis axis : axes) {
    names += (names.empty() ? "" : "+") + mesh.name(axis);
  }
  return names;
}

}  // namespace meshwork::test
