#include "runtime/train/reporting/model_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "collectives/joined_text.h"
#include "runtime/config/text_table.h"
#include "runtime/graph/plan_report.h"

namespace meshwork {
namespace {

// Null where nobody says.
const Layout* layout_of(const Blueprint& blueprint, TensorId tensor) {
  if (blueprint.planned) {
    return &blueprint.planned->plan.tensors[tensor].layout;
  }
  const auto closed = blueprint.spread.closed.find(tensor);
  return closed == blueprint.spread.closed.end() ? nullptr : &closed->second.layout;
}

// Whether `layout` splits a dimension, from `first` on or by others than `batch_axis`, over more
// than one rank.
bool splits(const Layout& layout, const MeshShape& mesh, std::optional<Axis> batch_axis) {
  for (std::size_t d = 0; d < layout.dimensions.size(); ++d) {
    for (const Axis axis : layout.dimensions[d]) {
      const bool batch = d == 0 && batch_axis && axis == *batch_axis;
      if (!batch && mesh.size(axis) > 1) return true;
    }
  }
  return false;
}

// Calls `visit` with each part of `path` that ends before a slash: "a/b/c" is in "a/b" and "a".
void for_places_of(const std::string& path, const auto& visit) {
  for (std::size_t end = path.find('/'); end != std::string::npos; end = path.find('/', end + 1)) {
    visit(path.substr(0, end));
  }
}

std::string number_text(std::int64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t i = 3; i < text.size(); i += 4) text.insert(text.size() - i, ",");
  return text;
}

}  // namespace

ModelSummary summary_of(const Blueprint& blueprint) {
  const Graph& graph = *blueprint.graph;
  const MeshShape& mesh = blueprint.spread.mesh;
  ModelSummary summary;
  const auto add_layout = [&](LayerSummary& row, const std::string& name, TensorId tensor,
                              std::optional<Axis> batch_axis) {
    const Layout* layout = layout_of(blueprint, tensor);
    if (layout == nullptr || !splits(*layout, mesh, batch_axis)) return;
    row.layouts +=
        fmt::format("{}{} {}", row.layouts.empty() ? "" : ", ", name, to_string(*layout, mesh));
  };
  std::unordered_set<std::string> blocks;
  for (const GraphLayer& layer : graph.layers) {
    for_places_of(layer.path, [&](std::string place) { blocks.insert(std::move(place)); });
  }
  std::unordered_map<std::string, std::vector<const Variable*>> variables;
  for (const Variable& variable : graph.variables) {
    for_places_of(variable.path,
                  [&](const std::string& place) { variables[place].push_back(&variable); });
  }
  std::unordered_set<std::string> seen;
  for (const GraphLayer& layer : graph.layers) {
    if (!seen.insert(layer.path).second || blocks.contains(layer.path)) {
      continue;
    }
    const Shape& shape = graph.tensors[layer.output].shape;
    LayerSummary row{layer.path, layer.class_name, {shape.begin() + 1, shape.end()}, 0, ""};
    for (const Variable* variable : variables[layer.path]) {
      row.parameters += element_count(variable->options.shape);
      add_layout(row, variable->path.substr(layer.path.size() + 1), variable->tensor, std::nullopt);
    }
    add_layout(row, "output", layer.output, blueprint.spread.batch_axis);
    summary.layers.push_back(std::move(row));
  }
  for (const Variable& variable : graph.variables) {
    const std::int64_t count = element_count(variable.options.shape);
    summary.parameters += count;
    summary.fixed_parameters += variable.options.trainable ? 0 : count;
  }
  return summary;
}

std::string to_text(const ModelSummary& summary, std::size_t width, std::size_t most_layers,
                    const std::string& how_to_see_all) {
  const bool split = std::any_of(summary.layers.begin(), summary.layers.end(),
                                 [](const LayerSummary& layer) { return !layer.layouts.empty(); });
  std::vector<std::string> heading{"layer (class)", "output", "parameters"};
  if (split) heading.emplace_back("layout");
  TextTable table(heading, {1, 2});
  const std::size_t count = summary.layers.size();
  const bool cut = most_layers > 0 && count > most_layers;
  const std::size_t head = cut ? (most_layers + 1) / 2 : count;
  const std::size_t tail = cut ? most_layers / 2 : 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (i == head) {
      table.add_line(fmt::format("... {} more layers{}", count - head - tail, how_to_see_all));
    }
    if (i >= head && i < count - tail) continue;
    const LayerSummary& layer = summary.layers[i];
    std::vector<std::string> row{fmt::format("{} ({})", layer.path, layer.class_name),
                                 joined_text(layer.output, " x "), number_text(layer.parameters)};
    if (split) row.push_back(layer.layouts);
    table.add(std::move(row));
  }
  return fmt::format(
      "{}  {} parameters, {}{}\n", table.text(2, width), number_text(summary.parameters),
      readable_bytes(summary.parameters * float32_bytes),
      summary.fixed_parameters == 0
          ? ""
          : fmt::format("; {} of them not trained", number_text(summary.fixed_parameters)));
}

}  // namespace meshwork
