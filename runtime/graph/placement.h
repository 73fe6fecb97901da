// Placement: at which coordinates of some axes the operations of a graph run.
//
// An axis can split a model as it splits tensors: an operation that is *placed* runs on the ranks at
// some coordinates of the axis, and the others know nothing of it. Layouts over all other axes hold
// as they do without.
//
// The user places layers. An operation that is not placed follows, on each axis, what it reads: of
// several places the last, so that a model goes forward along the axis. What reads nothing placed,
// such as a preparation of the data, follows what reads it, to all places that need it. Any other
// operation runs everywhere.
//
// Over an axis that is *balanced* the planner places all layers: in their order, a run of them at each
// coordinate, so that the longest takes as short as can be. What a layer takes is its arithmetic and
// the update of its variables.
//
// From this follows where tensors are *held*: a value where it is made; variables, inputs and targets
// where they are used. A variable that is used at several places is held at each of them. Where an
// operation reads a value that is held elsewhere, that crosses (runtime/mesh/crossing.h), once for all
// that read it there, in its layout. The gradient that a place gives goes back to where the tensor is
// held, once, and is added to those of other places in the order of backward. So a model computes the
// same bits placed and not, but for sums to which several places add: there it is the same to rounding.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/graph/plan.h"
#include "runtime/graph/walk.h"

namespace meshwork {

/// Where each operation of `request`'s graph runs.
[[nodiscard]] std::vector<Places> places_of_operations(const PlanRequest& request);

/// Gives the layouts of a plan the places that follow from those of its graph's operations, in their
/// order, and the plan the axes of those.
void place(Plan& plan, const std::vector<Places>& places);

/// Throws `Error` unless a step on this plan can walk so: its axis of stages is there and places
/// something, and no value goes back along it.
void check_stages(const Plan& plan, const StepWalk& walk);

}  // namespace meshwork
