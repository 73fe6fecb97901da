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
// One axis can have the *stages* of a pipeline, one at each coordinate or several (schedule.h). On it
// operations are placed in stages, by the same rules, and run at the coordinates of these.
//
// Where that is *balanced* the planner places all layers: in their order, a run of them in each stage, so
// that the longest takes as short as can be. What a layer takes is its arithmetic and
// the update of its variables. Where memory has a limit, and so a price, it is what the stage holds as
// well: variables, and outputs of the micro-batches that 1f1b would hold.
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

namespace meshwork {

/// Where each operation of `request`'s graph runs.
struct Placement {
  std::vector<Places> places;
  std::vector<std::vector<std::int64_t>> stages;  // ascending; none: everywhere, or no pipeline
};
[[nodiscard]] Placement placement_of(const PlanRequest& request);

/// Whether `operation` only passes a value on, such as the end of a block: it is where the value is.
[[nodiscard]] bool passes_on(const Operation& operation);

/// How many layers of `request`'s graph take time, so that each could be a stage that is balanced.
[[nodiscard]] std::int64_t layers_that_work(const PlanRequest& request);

/// Gives the layouts of a plan the places that follow from those of its graph's operations, in their
/// order, and the plan the axes of those.
void place(Plan& plan, const PlanRequest& request);

/// The stage in which `planned` runs on `rank`: of several there the first, of what runs in all of them
/// too; 0 without a pipeline, -1 if it does not run there.
[[nodiscard]] std::int64_t stage_on(const Plan& plan, const PlannedOperation& planned,
                                    std::int64_t rank);

/// Throws `Error` unless the plan's stages, if it has some, are those of a pipeline: their axis places
/// something, no value goes back from stage to stage, and no gradient forward.
void check_stages(const Plan& plan);

}  // namespace meshwork
