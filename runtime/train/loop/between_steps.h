// The collectives of a run that belong to none of its steps, for plans to show.
//
// They are few and small: the agreement on stopping and saving (step_agreement.h), rank 0's word at
// the end of an epoch, and what callbacks hand out. Writing and reading checkpoints is not among
// them: it moves the state itself, through MPI-IO or by rank 0. Nor is what ranks tell each other
// while a step is made, before it is first run: that they are about to send the same, which kernels
// they choose (kernel_choice.h), and whether all have room for the samples (resident_data.h).
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/graph/plan_report.h"
#include "runtime/train/callbacks/callback.h"

namespace meshwork {

/// The float64 values that the root hands out at the end of an epoch: whether to stop, and the
/// learning rate.
inline constexpr std::size_t values_after_epoch = 2;

/// The float64 values that say in which range a variable's lie, for a histogram.
inline constexpr std::size_t values_of_range = 2;

/// What rank `rank` of `ranks` sends between the steps of a run that can be asked to stop, with
/// these callbacks, of a model of so many `variables` whose layers adapt by reductions of `adapted`
/// values. None on a single rank.
[[nodiscard]] std::vector<CollectiveBetweenSteps> collectives_between_steps(
    Mode mode, std::int64_t ranks, std::int64_t rank, const std::vector<SharedCallback>& callbacks,
    std::int64_t variables, const std::vector<std::int64_t>& adapted = {});

/// What `rank` sends of the weights of `plan` after every `epochs` epochs where other ranks evaluate
/// them: to rank 0, which has them whole then, and as rank 0 to the evaluators.
[[nodiscard]] std::vector<CollectiveBetweenSteps> weights_for_evaluators(const Plan& plan,
                                                                         std::int64_t rank,
                                                                         std::int64_t epochs);

}  // namespace meshwork
