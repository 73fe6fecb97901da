// Objective: a model's graph with its targets, loss and metrics joined to it, as training sees it.
//
// Loss and metrics become operations of the graph, so that they are planned like everything else.
// Weights of samples are fed, as targets are; weights of classes come from an operation on targets
// (class_weights.h). An objective whose loss takes weights of samples serves data without such as
// well: their samples weigh 1.
// Their sums over a global batch, and the numbers of values that the sums are of, make the logs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/graph/graph.h"
#include "runtime/train/losses/loss.h"

namespace meshwork {

/// What a loss is given beside predictions.
struct LossData {
  Shape target;                       // of a sample
  std::optional<Shape> weights = {};  // of a sample's weights, if samples have them
  ClassWeights class_weight = {};     // in training
};

struct Objective {
  std::shared_ptr<const Graph> graph;
  std::vector<TensorId> targets;         // none without a loss and metrics
  std::optional<TensorId> weights = {};  // of samples, if the loss takes some
  int loss_operation = -1;
  std::vector<std::string> names;      // of the sums, in the order of the operations: "loss" first
  std::vector<double> values_per_row;  // of each sum
  std::int64_t target_classes = 0;     // 0 if targets are not class numbers
  LossData data = {};

  /// Whether it has a loss that takes what is `wanted`.
  [[nodiscard]] bool is_for(const LossData& wanted) const {
    return loss_operation >= 0 && data.target == wanted.target &&
           data.class_weight == wanted.class_weight &&
           (!wanted.weights || wanted.weights == data.weights);
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

/// `model` with `loss` and `metrics` on its output, given what `data` says (an empty shape: a
/// scalar). Throws `Error` if they do not go together, and as `check_one_output` does.
[[nodiscard]] Objective with_objective(const Graph& model, const Loss& loss,
                                       const std::vector<SharedMetric>& metrics,
                                       const LossData& data);

}  // namespace meshwork
