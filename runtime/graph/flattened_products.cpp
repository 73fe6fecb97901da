#include "runtime/graph/flattened_products.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/graph/operations/product.h"
#include "runtime/graph/operations/reshape.h"

namespace meshwork {
namespace {

// How many of the last dimensions of `from` are the last one of `to`, the others being the same; 0
// if the two differ otherwise.
std::size_t merged_dimensions(const Shape& from, const Shape& to) {
  const std::size_t kept = to.size() - 1;
  if (from.size() <= kept || !std::equal(to.begin(), to.end() - 1, from.begin())) {
    return 0;
  }
  return from.size() - kept;
}

// The operation that multiplies the result of reshape `index` and can do without it, or -1.
int product_behind(const Graph& graph, int index, const PlanRequest& request) {
  const GraphOperation& reshape = graph.operations[index];
  const GraphTensor& flat = graph.tensors[reshape.output];
  const bool seen = std::find(graph.outputs.begin(), graph.outputs.end(), reshape.output) !=
                        graph.outputs.end() ||
                    request.closed.contains(reshape.output);
  if (!dynamic_cast<const ReshapeOperation*>(reshape.operation.get()) || seen ||
      flat.consumers.size() != 1 ||
      merged_dimensions(graph.tensors[reshape.inputs[0]].shape, flat.shape) == 0) {
    return -1;
  }
  const GraphOperation& next = graph.operations[flat.consumers[0]];
  const auto* product = dynamic_cast<const ProductOperation*>(next.operation.get());
  return product && product->contracted() == 1 && next.inputs[0] == reshape.output
             ? flat.consumers[0]
             : -1;
}

// Makers and users of tensors, from the list of operations.
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

}  // namespace

std::shared_ptr<const Graph> multiply_images(PlanRequest& request,
                                             std::shared_ptr<const Graph> graph) {
  std::vector<int> product(graph->operations.size(), -1);  // by reshape
  bool any = false;
  for (int index = 0; index < static_cast<int>(product.size()); ++index) {
    product[index] = product_behind(*graph, index, request);
    any = any || product[index] >= 0;
  }
  if (!any) {
    return graph;
  }
  auto changed = std::make_shared<Graph>(*graph);
  std::vector<GraphOperation> kept;
  int loss = -1;
  for (int index = 0; index < static_cast<int>(product.size()); ++index) {
    GraphOperation& operation = changed->operations[index];
    if (product[index] < 0) {
      if (index == request.loss_operation) {
        loss = static_cast<int>(kept.size());
      }
      kept.push_back(std::move(operation));
      continue;
    }
    // Operations stand in order: the product comes later.
    GraphOperation& multiplied = changed->operations[product[index]];
    const auto& flat = dynamic_cast<const ProductOperation&>(*multiplied.operation);
    const TensorId image = operation.inputs[0];
    multiplied.inputs[0] = image;
    multiplied.operation = std::make_shared<ProductOperation>(
        flat.bias(), flat.activation(),
        merged_dimensions(graph->tensors[image].shape, graph->tensors[operation.output].shape));
    Layout layout = Layout::replicated(graph->tensors[operation.output].shape.size());
    if (graph->tensors[operation.output].batched() && request.batch_axis &&
        request.mesh.size(*request.batch_axis) > 1) {
      layout.dimensions[0] = {*request.batch_axis};
    }
    request.closed[operation.output] = {layout, "flattened within " + multiplied.path};
  }
  changed->operations = std::move(kept);
  connect(*changed);
  request.graph = changed.get();
  request.loss_operation = loss;
  return changed;
}

}  // namespace meshwork
