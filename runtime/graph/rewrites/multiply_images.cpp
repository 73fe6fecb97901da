// A product of a flattened image is one over the image.
//
// Flatten and Dense are a reshape and a product. A reshape needs what it merges whole, since blocks
// of rows are no blocks of the flattened image; an image that is spread by rows, columns or
// channels would be gathered for it. A product can take the image as it is
// (operations/contraction.h): then nothing moves but the sums. So a reshape that merges the last
// dimensions is left out where the user sees neither it nor lays it out, and all that uses its
// result is a product.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/graph/operations/contraction.h"
#include "runtime/graph/operations/identity.h"
#include "runtime/graph/operations/reshape.h"
#include "runtime/graph/planning_problem.h"
#include "runtime/graph/rewrites/rewrites.h"

namespace meshwork {
namespace {

// How many of the last dimensions of `from` are merged into the last one of `to`, the others being
// the same; 0 if the two differ otherwise, 1 if they do not.
std::size_t merged_dimensions(const Shape& from, const Shape& to) {
  const std::size_t kept = to.size() - 1;
  if (from.size() <= kept || !std::equal(to.begin(), to.end() - 1, from.begin())) {
    return 0;
  }
  return from.size() - kept;
}

bool only_reshapes(const Operation& operation) {
  return dynamic_cast<const ReshapeOperation*>(&operation) != nullptr ||
         dynamic_cast<const IdentityOperation*>(&operation) != nullptr;
}

// What can do without operation `index`: what is behind it, made to take what is before it.
struct Unmerged {
  int user = -1;  // or -1 for none
  std::shared_ptr<const Operation> operation;
};
Unmerged without(const Graph& graph, int index, const PlanRequest& request) {
  const GraphOperation& reshape = graph.operations[index];
  const GraphTensor& flat = graph.tensors[reshape.output];
  const bool seen = std::find(graph.outputs.begin(), graph.outputs.end(), reshape.output) !=
                        graph.outputs.end() ||
                    request.closed.contains(reshape.output);
  if (!only_reshapes(*reshape.operation) || seen || flat.consumers.size() != 1) {
    return {};
  }
  const std::size_t merged = merged_dimensions(graph.tensors[reshape.inputs[0]].shape, flat.shape);
  const int user = flat.consumers[0];
  const GraphOperation& next = graph.operations[user];
  const auto* product = dynamic_cast<const ContractionOperation*>(next.operation.get());
  if (merged < 2 || next.inputs[0] != reshape.output || product == nullptr) {
    return {};
  }
  std::shared_ptr<const Operation> over_image = product->over_unmerged(merged);
  return over_image ? Unmerged{user, std::move(over_image)} : Unmerged{};
}

}  // namespace

std::shared_ptr<const Graph> multiply_images(PlanRequest& request,
                                             std::shared_ptr<const Graph> graph) {
  std::vector<Unmerged> unmerged;  // by operation
  bool any = false;
  for (int index = 0; index < static_cast<int>(graph->operations.size()); ++index) {
    unmerged.push_back(without(*graph, index, request));
    any = any || unmerged.back().user >= 0;
  }
  if (!any) {
    return graph;
  }
  auto changed = std::make_shared<Graph>(*graph);
  std::vector<GraphOperation> kept;
  std::map<int, double> losses;
  for (int index = 0; index < static_cast<int>(unmerged.size()); ++index) {
    GraphOperation& operation = changed->operations[index];
    if (unmerged[index].user < 0) {
      if (const auto loss = request.losses.find(index); loss != request.losses.end()) {
        losses[static_cast<int>(kept.size())] = loss->second;
      }
      kept.push_back(std::move(operation));
      continue;
    }
    // Operations stand in order: the user comes later.
    GraphOperation& user = changed->operations[unmerged[index].user];
    user.inputs[0] = operation.inputs[0];
    user.operation = unmerged[index].operation;
    request.closed[operation.output] = {
        layout_by_batch_axis(request, graph->tensors[operation.output]),
        "flattened within " + user.path};
  }
  changed->operations = std::move(kept);
  connect(*changed);
  request.graph = changed.get();
  request.losses = std::move(losses);
  return changed;
}

}  // namespace meshwork
