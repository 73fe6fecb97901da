#include "runtime/graph/rewrites/rewrites.h"

#include <utility>

namespace meshwork {

std::shared_ptr<const Graph> rewrite(PlanRequest& request, std::shared_ptr<const Graph> graph) {
  return pool_first(request, multiply_images(request, std::move(graph)));
}

void connect(Graph& graph) {
  for (GraphTensor& tensor : graph.tensors) {
    tensor.producer = -1;
    tensor.consumers.clear();
  }
  for (int index = 0; index < static_cast<int>(graph.operations.size()); ++index) {
    graph.tensors[graph.operations[index].output].producer = index;
    for (const TensorId input : graph.operations[index].inputs) {
      graph.tensors[input].consumers.push_back(index);
    }
  }
}

void rewrite(Plan& plan) {
  scale_inputs(plan);
  join_operations(plan);
  hand_over_derivatives(plan);
}

}  // namespace meshwork
