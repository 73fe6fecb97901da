#include "runtime/graph/step/recomputation.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "collectives/error.h"
#include "runtime/mesh/path_pattern.h"

namespace meshwork {
namespace {

// The beginnings of a path that end where a part does: "a", "a/b" of "a/b/c".
std::vector<std::string> beginnings(const std::string& path) {
  std::vector<std::string> found;
  for (std::size_t end = path.find('/'); end != std::string::npos; end = path.find('/', end + 1)) {
    found.push_back(path.substr(0, end));
  }
  return found;
}

// The layer of an operation's output. Losses, metrics and weights of classes are of none.
const GraphLayer* layer_of(const Graph& graph, const PlannedOperation& planned) {
  const int layer = graph.operations[graph.tensors[planned.output].producer].layer;
  return layer < 0 ? nullptr : &graph.layers[layer];
}

// The outermost layer or block around an operation that is chosen; "" for none. Joined operations are of the first
// one's layer and of the last one's.
std::string matched(const std::function<bool(const std::string&)>& is_chosen,
                    const PlannedOperation& planned, const GraphLayer* layer) {
  if (layer == nullptr) return "";
  std::vector<std::string> around = beginnings(planned.path);
  const std::vector<std::string> of_last = beginnings(layer->path + "/");
  around.insert(around.end(), of_last.begin(), of_last.end());
  const auto found = std::ranges::find_if(around, is_chosen);
  return found == around.end() ? "" : *found;
}

// Whether `operation` reads `tensor`, or takes a derivative at it.
bool reads(const Plan& plan, const PlannedOperation& operation, TensorId tensor) {
  return std::ranges::any_of(operation.inputs, [&](TensorId input) {
    return input == tensor || plan.tensors[input].derivative_at == tensor;
  });
}

bool has_gradient(const PlannedOperation& operation) {
  return std::ranges::find(operation.gradient, true) != operation.gradient.end();
}

}  // namespace

std::vector<RecomputedSpan> recomputed_spans(const Plan& plan, const std::string& pattern) {
  std::vector<RecomputedSpan> spans;
  if (pattern.empty()) {
    return spans;
  }
  std::set<std::string> names, blocks;
  for (const GraphLayer& layer : plan.graph->layers) {
    const std::vector<std::string> around = beginnings(layer.path + "/");
    names.insert(around.begin(), around.end());
    if (around.size() > 1) blocks.insert(around.front());
  }
  std::function<bool(const std::string&)> is_chosen;
  if (pattern == all_blocks && !names.contains(pattern)) {
    if (blocks.empty()) {
      fail("recompute: \"{}\": there are none: no layer stands within another", all_blocks);
    }
    is_chosen = [&](const std::string& path) { return blocks.contains(path); };
  } else {
    const PathPattern matching("recompute", pattern);
    const std::vector<std::string> known(names.begin(), names.end());
    if (const auto unmatched = matching.unmatched(known)) {
      fail("{}", unmatched->message);
    }
    is_chosen = [matching](const std::string& path) { return matching.matches(path); };
  }
  std::string open;  // the layer or block of the last span, if that may go on
  std::map<std::string, const GraphLayer*> layers;  // of it; another call has others
  for (std::size_t o = 0; o < plan.operations.size(); ++o) {
    const GraphLayer* layer = layer_of(*plan.graph, plan.operations[o]);
    const std::string name = matched(is_chosen, plan.operations[o], layer);
    if (!name.empty() && name == open &&
        layers.try_emplace(layer->path, layer).first->second == layer) {
      spans.back().last = o;
      continue;
    }
    open = name;
    if (!name.empty()) {
      layers = {{layer->path, layer}};
      spans.push_back({.first = o, .last = o});
    }
  }
  for (RecomputedSpan& span : spans) {
    for (std::size_t o = span.first; o <= span.last; ++o) {
      const bool taken =
          std::any_of(plan.operations.begin() + static_cast<std::ptrdiff_t>(span.last) + 1,
                      plan.operations.end(), [&](const PlannedOperation& later) {
                        return reads(plan, later, plan.operations[o].output);
                      });
      if (!taken) span.operations.push_back(o);
    }
  }
  // Nothing goes backward through the others.
  std::erase_if(spans, [&](const RecomputedSpan& span) {
    return std::ranges::none_of(span.operations,
                                [&](std::size_t o) { return has_gradient(plan.operations[o]); });
  });
  return spans;
}

}  // namespace meshwork
