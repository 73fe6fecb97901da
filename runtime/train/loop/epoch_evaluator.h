// Who evaluates the weights of each epoch while training goes on: ranks that do not train.
//
// `fit` gathers the weights at the end of an epoch and hands them over on rank 0. It asks for the
// values when the next epoch ends, or before: at once where a callback waits for them or the best
// checkpoint goes by them, and before anything is saved. So whatever is saved has the values of all
// epochs before it, and a run that goes on from there has the history of one that was never cut off.
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
