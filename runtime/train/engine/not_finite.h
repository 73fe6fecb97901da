// Where, after a step whose loss is not finite, that was first seen: on which rank, in what.
//
// Each rank looks through what is left of the step (Step::first_not_finite), and the earliest place
// of all ranks is the answer. Ranks run nearly the same instructions (one that has no part in a
// window lacks its copies), so places can be compared; of several ranks with the same place the
// lowest is named. Nothing of this is done while steps go well.
#pragma once

#include <string>

#include "collectives/communicator.h"
#include "collectives/trace.h"
#include "runtime/train/engine/engine.h"

namespace meshwork {

/// "rank 1, in conv_2 (instruction 12 of 80: ...): element 17 of the rank's block is inf", the same
/// on all ranks, which all call it; "" if there is no such place. `at` records the waiting.
[[nodiscard]] std::string where_not_finite(const Step& step, const Communicator& all,
                                           const TracePoint& at);

}  // namespace meshwork
