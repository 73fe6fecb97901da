// Products over images that a model flattens first.
//
// Flatten and Dense are a reshape and a product. A reshape needs what it merges whole, since blocks
// of rows are no blocks of the flattened image; an image that is spread by rows, columns or
// channels would be gathered for it. A product can take the image as it is (operations/product.h):
// then nothing moves but the sums. So before planning, a reshape that merges the last dimensions is
// left out where the user sees neither it nor lays it out, and all that uses its result is an
// operation that can take what was reshaped (`Operation::before_merging`).
#pragma once

#include <memory>

#include "runtime/graph/plan.h"

namespace meshwork {

/// The graph with products over images in it, or `graph` itself if there are none. `request` is
/// made to speak of it: its graph, its loss, and a layout for tensors that are no longer computed,
/// which stay in the graph without an operation that makes or uses them.
[[nodiscard]] std::shared_ptr<const Graph> multiply_images(PlanRequest& request,
                                                           std::shared_ptr<const Graph> graph);

}  // namespace meshwork
