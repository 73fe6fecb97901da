#include "runtime/train/strategies/strategy.h"

#include <utility>

#include "collectives/error.h"

namespace meshwork {

namespace {

// An `Error` of a strategy names it.
LayoutMap layouts_of(const Strategy& strategy, const Graph& model, const MeshShape& mesh,
                     std::optional<Axis> batch_axis) {
  try {
    return strategy.layouts(model, mesh, batch_axis);
  } catch (const Error&) {
    throw;
  } catch (...) {
    rethrow_from(strategy.name());
  }
}

}  // namespace

std::string to_text(const SharedStrategy& strategy) {
  return strategy ? strategy->name() : "DataParallel";
}

LayoutMap with_strategy(LayoutMap layouts, const SharedStrategy& strategy, const Graph& model,
                        std::optional<Axis> batch_axis) {
  if (!strategy) return layouts;
  const LayoutMap its = layouts_of(*strategy, model, layouts.mesh(), batch_axis);
  LayoutMap all = layouts;
  const std::vector<std::string> paths = model.layout_paths();
  std::string unmatched;
  for (const UnmatchedKey& key : its.unmatched(paths)) {
    unmatched +=
        fmt::format("{}{}: {}", unmatched.empty() ? "" : "\n", strategy->name(), key.message);
  }
  if (!unmatched.empty()) throw Error(unmatched);
  for (const std::string& path : paths) {
    if (layouts.find(path)) continue;
    if (const auto match = its.find(path)) all.insert(path, match->layout, strategy->name(), true);
  }
  return all;
}

Axis axis_of_strategy(const std::string& who, const MeshShape& mesh,
                      const std::optional<std::string>& name, std::optional<Axis> otherwise) {
  if (!name && !otherwise) {
    fail("{}: no axis splits batches; `axis` names the one that splits weights", who);
  }
  if (!name) return *otherwise;
  try {
    return mesh.axis(*name);
  } catch (const Error& error) {
    fail("{}: axis: {}", who, error.what());
  }
}

TensorLayout split_by(const MeshShape& mesh, Axis axis, std::size_t dimensions,
                      std::size_t dimension) {
  TensorLayout layout(dimensions);
  layout[dimension] = DimensionAxes(mesh.axes()[static_cast<std::size_t>(axis)].name);
  return layout;
}

}  // namespace meshwork
