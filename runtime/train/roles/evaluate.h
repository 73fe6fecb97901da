// The role `evaluate`: ranks that score the weights of each epoch on the validation data, while the
// others train the next one.
//
//     roles: {train: 6, evaluate: 1}
//
// The values are those that `Model::evaluate` gives on as many ranks as have the role. Whatever the
// mesh of the ranks that train, the evaluators split batches alone.
#pragma once

#include <memory>

#include "runtime/rpc/rpc.h"
#include "runtime/train/loop/epoch_evaluator.h"

namespace meshwork {

/// Its class in the catalog.
inline constexpr const char* evaluating_role = "Evaluate";

/// The evaluators of which `rank` is the first, as `fit` takes them. They have to answer within
/// `seconds`; 0: when they like. `rpc` outlives it.
[[nodiscard]] std::shared_ptr<EpochEvaluator> evaluator_at(Rpc& rpc, int rank, double seconds);

}  // namespace meshwork
