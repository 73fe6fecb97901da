// Rewrites: what a graph becomes before it is planned, and a plan before it is lowered.
//
// Layers are made of small operations, so that the rule of each is simple; devices like larger
// ones. A rewrite replaces operations by others that give the same numbers with less to move or to
// run. Each is a page of this folder, and the two functions below call them in order.
//
// A rewrite before planning changes what the planner can choose. One after planning needs to know
// where tensors lie: it joins what nothing stands between, and changes no layout and no collective.
//
// What a rewrite has to know of an operation is its `Fusible` (operation.h), or the operation's
// class where the rewrite is about that class.
//
// Two things look like rewrites and are not here, since they depend on what only booking knows:
// which numbers a product reads, which depends on where they stand in memory (step/factors.h), and
// kernels that are neighbours only in the program (runtime/device/kernel_joins.h).
#pragma once

#include <memory>

#include "runtime/graph/plan.h"

namespace meshwork {

/// What is planned instead of `graph`, which stays as it is. `request` is made to speak of it: its
/// graph, its loss, and a layout for tensors that are no longer computed, which stay in the graph
/// without an operation that makes or uses them.
[[nodiscard]] std::shared_ptr<const Graph> rewrite(PlanRequest& request,
                                                   std::shared_ptr<const Graph> graph);

/// Rewrites `plan`, whose operations are those of its graph.
void rewrite(Plan& plan);

// The pages, which say more. Before planning:

/// A product of a flattened image is one over the image.
[[nodiscard]] std::shared_ptr<const Graph> multiply_images(PlanRequest& request,
                                                           std::shared_ptr<const Graph> graph);
/// A maximum is taken before an activation that keeps order.
[[nodiscard]] std::shared_ptr<const Graph> pool_first(PlanRequest& request,
                                                      std::shared_ptr<const Graph> graph);

/// Makers and users of tensors, from the list of operations.
void connect(Graph& graph);

// After planning:

/// What is fed is scaled where it is converted.
void scale_inputs(Plan& plan);
/// An operation does what the next one does behind it.
void join_operations(Plan& plan);
/// Who uses a value takes the derivative of the activation that made it.
void hand_over_derivatives(Plan& plan);

/// One operation that does `first` and then `next`, which takes its output as input 0; null if
/// there is none. Its inputs are those of `first`, then the other inputs of `next` in order.
[[nodiscard]] std::unique_ptr<Operation> joined(const Operation& first, const Operation& next);

}  // namespace meshwork
