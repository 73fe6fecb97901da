// A maximum is taken before an activation that keeps order.
//
// Where a larger number never becomes a smaller one, the maximum of activations is the activation of
// the maximum, to the bit, and behind a pooling there are fewer numbers: of windows of 2 x 2 x 2 an
// eighth is read, written and kept for backward. The gradient goes to the first of the largest
// numbers in front of the activation, which is among the largest behind it. Where the activation
// makes others as large, it is flat, and the gradient is 0; or it has rounded them to that.
//
// The two change places where nobody else uses what the activation gives, and the user neither sees
// nor lays it out.
#include <algorithm>
#include <memory>
#include <utility>

#include "runtime/graph/operations/pooling.h"
#include "runtime/graph/planning_problem.h"
#include "runtime/graph/rewrites/rewrites.h"

namespace meshwork {
namespace {

// The activation that can come behind operation `index`, which is in front of it; or -1.
int activation_before(const Graph& graph, int index, const PlanRequest& request) {
  const GraphOperation& operation = graph.operations[index];
  const auto* pooling = dynamic_cast<const PoolingOperation*>(operation.operation.get());
  if (pooling == nullptr || !pooling->takes_maxima()) {
    return -1;
  }
  const TensorId between = operation.inputs[0];
  const GraphTensor& tensor = graph.tensors[between];
  const bool seen =
      std::find(graph.outputs.begin(), graph.outputs.end(), between) != graph.outputs.end() ||
      request.closed.contains(between);
  const bool movable = tensor.producer >= 0 && tensor.consumers.size() == 1 && !seen &&
                       graph.operations[tensor.producer].operation->keeps_order();
  return movable ? tensor.producer : -1;
}

}  // namespace

std::shared_ptr<const Graph> pool_first(PlanRequest& request, std::shared_ptr<const Graph> graph) {
  std::shared_ptr<Graph> changed;
  for (int index = 0; index < static_cast<int>(graph->operations.size()); ++index) {
    const int before = activation_before(*graph, index, request);
    if (before < 0) {
      continue;
    }
    if (!changed) {
      changed = std::make_shared<Graph>(*graph);
    }
    GraphOperation& first = changed->operations[before];
    GraphOperation& second = changed->operations[index];
    GraphTensor maxima = changed->tensors[second.output];
    maxima.path.clear();
    request.closed[first.output] = {layout_by_batch_axis(request, changed->tensors[first.output]),
                                    "behind " + second.path};
    std::swap(first.output, second.output);
    std::swap(first.inputs, second.inputs);
    second.output = changed->add_tensor(std::move(maxima));
    first.inputs[0] = second.output;
    std::swap(first, second);
  }
  if (!changed) {
    return graph;
  }
  connect(*changed);
  request.graph = changed.get();
  return changed;
}

}  // namespace meshwork
