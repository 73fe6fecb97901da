// The candidates of an operation: the ways to spread it that a planner chooses among (plan.h, 3).
#pragma once

#include <vector>

#include "runtime/graph/planning_problem.h"

namespace meshwork {

/// One way to spread an operation. Layouts are by number.
struct Candidate {
  Split split;
  std::vector<int> needed;  // by input
  int natural = -1;
  int whole = -1;        // natural, no longer partial: how the output's gradient is needed
  int settled = -1;      // layout of the output tensor
  std::vector<int> raw;  // by input
};

/// All candidates of operation `index`: every way to let the axes in play split its letters, with
/// the output settled as the user says or, where it comes out partial, in each way to reduce it.
/// Never none; always in the same order.
[[nodiscard]] std::vector<Candidate> candidates_of(PlanningProblem& problem, int index);

}  // namespace meshwork
