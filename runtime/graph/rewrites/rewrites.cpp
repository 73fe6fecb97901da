#include "runtime/graph/rewrites/rewrites.h"

#include <utility>

namespace meshwork {

std::shared_ptr<const Graph> rewrite(PlanRequest& request, std::shared_ptr<const Graph> graph) {
  return multiply_images(request, std::move(graph));
}

void rewrite(Plan& plan) {
  scale_inputs(plan);
  join_operations(plan);
  hand_over_derivatives(plan);
}

}  // namespace meshwork
