// Objective: a model's graph with its targets, loss and metrics joined to it, as training sees it.
//
// Loss and metrics become operations of the graph, so that they are planned like everything else.
// Their sums over a global batch, and the numbers of values that the sums are of, make the logs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/graph/graph.h"
#include "runtime/train/losses/loss.h"

namespace meshwork {

struct Objective {
  std::shared_ptr<const Graph> graph;
  std::vector<TensorId> targets;  // none without a loss and metrics
  int loss_operation = -1;
  std::vector<std::string> names;      // of the sums, in the order of the operations: "loss" first
  std::vector<double> values_per_row;  // of each sum
  std::int64_t target_classes = 0;     // 0 if targets are not class numbers
  Shape target;                        // of a sample

  /// Whether it has a loss that compares with targets of the shape `wanted`.
  [[nodiscard]] bool is_for(const Shape& wanted) const {
    return loss_operation >= 0 && target == wanted;
  }
};

/// `model` as it is, for prediction.
[[nodiscard]] Objective without_objective(std::shared_ptr<const Graph> model);

/// Throws `Error`, with their names, for a model of several outputs: there is one loss, and those
/// that it does not see would not be trained.
void check_one_output(const Graph& model);

/// What to warn of where `loss` takes the output of `model` for what it is not: a softmax or sigmoid
/// meets a loss of logits, or none a loss of probabilities. "" where they fit.
[[nodiscard]] std::string mismatch_of(const Graph& model, const Loss& loss);

/// `model` with `loss` and `metrics` on its output, compared with a target whose samples have the
/// shape `target` (an empty one: a scalar). Throws `Error` if they do not go together, and as
/// `check_one_output` does.
[[nodiscard]] Objective with_objective(const Graph& model, const Loss& loss,
                                       const std::vector<SharedMetric>& metrics,
                                       const Shape& target);

}  // namespace meshwork
