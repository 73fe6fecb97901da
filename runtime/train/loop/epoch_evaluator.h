// EpochEvaluator: how `fit` has other ranks evaluate each epoch's weights while training goes on.
//
// `fit` gathers the weights at the end of an epoch and hands them over on rank 0. It asks for the
// values when the next epoch ends. It asks earlier where a callback or the best checkpoint needs them,
// and before anything is saved. So a saved state has the values of all epochs before it, and a run that
// goes on from there has the same history as one that was never cut off.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/train/reporting/logs.h"

namespace meshwork {

class EpochEvaluator {
 public:
  virtual ~EpochEvaluator() = default;
  /// Begins to evaluate `weights`, those of all variables in the order of the model's graph, whole.
  /// Rank 0 alone. Does not wait.
  virtual void start(std::int64_t epoch, std::vector<float> weights) = 0;
  /// The loss and the metrics of what was started last, by the names that `Model::evaluate` gives
  /// them. Rank 0 alone. Waits. Throws `Error`.
  [[nodiscard]] virtual Logs finish() = 0;
};

}  // namespace meshwork
