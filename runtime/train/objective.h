// Objective: a model's graph with its targets, losses and metrics joined to it, as training sees
// it.
//
// Losses and metrics become operations of the graph, so that they are planned like everything else.
// Each output that has a loss is compared with a target of its own. Training makes the weighted sum
// of the losses small, as Keras does
// (https://keras.io/api/models/model_training_apis/#compile-method). Weights of samples are fed, as
// targets are, and count in every loss; weights of classes come from an operation on targets
// (class_weights.h). An objective whose losses take weights of samples serves data without such as
// well: their samples weigh 1.
// Their sums over a global batch, and the numbers of values that the sums are of, make the logs.
// Where a class is ignored (metric.h) that number is a sum of its own.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/graph/graph.h"
#include "runtime/train/losses/loss.h"

namespace meshwork {

/// What an output is trained by.
struct OutputTraining {
  SharedLoss loss;    // null: the output is compared with nothing
  double weight = 1;  // of the loss in the sum that training makes small
  std::vector<SharedMetric> metrics = {};
};

/// What losses are given beside predictions.
struct LossData {
  std::vector<Shape> targets;         // of a sample, for each output that has a loss
  std::optional<Shape> weights = {};  // of a sample's weights, if samples have them
  WeightsByNumber class_weight = {};  // in training
};

struct Objective {
  std::shared_ptr<const Graph> graph;
  std::vector<TensorId> targets;         // for each output that has a loss
  std::optional<TensorId> weights = {};  // of samples, if losses take some
  std::map<int, double> losses;          // operations of the graph, with their weights in the sum
  std::vector<std::string> names;        // of logs: "loss", of several losses each, then metrics
  std::map<std::string, Better> better;  // which of two values in a log is the better one
  std::vector<SharedMetric> measured;    // losses, then metrics: what sums are of, in their order;
                                         // null for the number of rows that count
  std::vector<std::int64_t> sum_counts;  // of each, how many sums it has
  std::vector<std::int64_t> results;     // of each, how many names it has
  std::vector<double> values_per_row;    // of each, of how many values they are, unless
  std::vector<int> counted_by;           // of each, a sum in `measured` says of how many, or -1
  std::vector<double> loss_weights;      // of the first sums, which are losses
  std::vector<std::int64_t> target_classes;  // by target; 0 if it is no class number
  std::vector<std::optional<std::int64_t>> ignored_classes = {};  // by target
  LossData data = {};

  /// Whether it has losses that take what is `wanted`.
  [[nodiscard]] bool is_for(const LossData& wanted) const {
    return !losses.empty() && data.targets == wanted.targets &&
           data.class_weight == wanted.class_weight &&
           (!wanted.weights || wanted.weights == data.weights);
  }
};

/// By which an output of `model` is known: the path of the layer that makes it.
[[nodiscard]] std::string output_name(const Graph& model, TensorId output);
[[nodiscard]] std::vector<std::string> output_names(const Graph& model);

/// `model` as it is, for prediction.
[[nodiscard]] Objective without_objective(std::shared_ptr<const Graph> model);

/// The operation that makes the values of `tensor`, and not only names, shapes or orders them anew;
/// null for those of an input.
[[nodiscard]] const Operation* maker_of_values(const Graph& model, TensorId tensor);

/// What to warn of where the loss that `training` has takes `output` of `model` for what it is not:
/// a softmax or sigmoid meets a loss of logits, or none a loss of probabilities; or where a metric
/// takes for probabilities what are logits to the loss. "" where they fit.
[[nodiscard]] std::string mismatch_of(const Graph& model, TensorId output,
                                      const OutputTraining& training);

/// `model` with what its `outputs` are trained by, in their order, given what `data` says (an empty
/// shape: a scalar). Throws `Error` if they do not go together, for no loss at all, and for weights
/// of classes where several outputs have losses.
[[nodiscard]] Objective with_objective(const Graph& model,
                                       const std::vector<OutputTraining>& outputs,
                                       const LossData& data);

}  // namespace meshwork
