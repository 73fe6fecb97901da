// Plans of training steps, without a trainer: for meshes that need not be there.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/graph/plan_report.h"
#include "runtime/train/losses/sparse_categorical_crossentropy.h"
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

/// The plan for batches of `rows`; an empty `batch_axis` is none.
inline Plan plan_of(const Trained& training, const MeshShape& mesh, const LayoutEntries& entries,
                    const std::string& batch_axis, std::int64_t rows, CostModel costs = {}) {
  const auto input = Input(training.sample);
  const Graph model = make_graph({input}, {training.build(input)});
  Shape target = training.loss->target_shape(model.tensors[model.outputs.front()].shape);
  target.erase(target.begin());
  const Objective objective = with_objective(model, *training.loss, training.metrics, target);
  LayoutMap layouts(mesh);
  for (const auto& [key, layout] : entries) {
    layouts.insert(key, layout);
  }
  std::vector<std::string> warnings;
  PlanRequest request{objective.graph.get(),
                      objective.loss_operation,
                      mesh,
                      std::nullopt,
                      close_layouts(*objective.graph, layouts, UnmatchedLayouts::error, warnings),
                      rows,
                      costs};
  if (!batch_axis.empty()) {
    request.batch_axis = mesh.axis(batch_axis);
  }
  return make_plan(request, objective.graph);
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
