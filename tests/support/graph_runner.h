// Runs a graph on one rank, operation by operation, as plainly as it can be done.
//
//     const Graph graph = make_graph({x}, {y});
//     GraphValues values = run_graph(graph, {.inputs = {images}, .variables = {kernel, bias}});
//
// Forward runs every operation in order. With gradients of the outputs, every operation runs again
// with its backward pass, in reverse, and gradients of several uses are added.
#pragma once

#include <map>
#include <vector>

#include "runtime/device/philox.h"
#include "runtime/graph/graph.h"
#include "tests/support/reference_lowering.h"

namespace meshwork::test {

struct GraphCase {
  std::vector<Tensor> inputs;                 // in the order of Graph::inputs
  std::vector<Tensor> variables = {};         // in the order of Graph::variables
  std::vector<Tensor> output_gradients = {};  // by output, for backward
  bool training = true;
  std::uint64_t seed = 5;
};

struct GraphValues {
  std::map<TensorId, Tensor> values;
  std::map<TensorId, Tensor> gradients;
};

inline void add_to(std::map<TensorId, Tensor>& sums, TensorId id, const Tensor& value) {
  const auto [at, added] = sums.try_emplace(id, value);
  if (!added) {
    for (std::size_t i = 0; i < value.values.size(); ++i) {
      at->second.values[i] += value.values[i];
    }
  }
}

inline GraphValues run_graph(const Graph& graph, const GraphCase& what) {
  GraphValues result;
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    result.values[graph.inputs[i]] = what.inputs.at(i);
  }
  for (std::size_t i = 0; i < graph.variables.size(); ++i) {
    result.values[graph.variables[i].tensor] = what.variables.at(i);
  }
  const auto case_of = [&](const GraphOperation& operation) {
    OperationCase one;
    for (const TensorId input : operation.inputs) {
      one.inputs.push_back(result.values.at(input));
    }
    one.training = what.training;
    one.key = random_key(what.seed, operation.path);
    return one;
  };
  for (const GraphOperation& operation : graph.operations) {
    result.values[operation.output] = run_whole(*operation.operation, case_of(operation)).output;
  }
  for (std::size_t i = 0; i < what.output_gradients.size(); ++i) {
    add_to(result.gradients, graph.outputs[i], what.output_gradients[i]);
  }
  for (std::size_t i = graph.operations.size(); i-- > 0;) {
    const GraphOperation& operation = graph.operations[i];
    const auto gradient = result.gradients.find(operation.output);
    if (gradient == result.gradients.end()) {
      continue;
    }
    OperationCase one = case_of(operation);
    one.output_gradient = gradient->second;
    const OperationResult found = run_whole(*operation.operation, one);
    for (std::size_t input = 0; input < operation.inputs.size(); ++input) {
      add_to(result.gradients, operation.inputs[input], *found.gradients[input]);
    }
  }
  return result;
}

/// Compares the gradients of all inputs and variables with central differences of
/// sum(outputs * output_gradients). Rounding and step as in `check_gradients`.
inline void check_graph_gradients(const Graph& graph, const GraphCase& what,
                                  double tolerance = 3e-3, double step = 1e-2) {
  const GraphValues found = run_graph(graph, what);
  const auto weighted_sum = [&](const GraphCase& moved) {
    GraphCase forward = moved;
    forward.output_gradients.clear();
    const GraphValues values = run_graph(graph, forward);
    double sum = 0;
    for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
      const Tensor& output = values.values.at(graph.outputs[i]);
      for (std::size_t at = 0; at < output.values.size(); ++at) {
        sum += output.values[at] * what.output_gradients[i].values[at];
      }
    }
    return sum;
  };
  const auto check = [&](TensorId id, std::vector<Tensor> GraphCase::*list, std::size_t place) {
    INFO("gradient of " << graph.tensors[id].path);
    Tensor expected((what.*list)[place].shape);
    for (std::size_t i = 0; i < expected.values.size(); ++i) {
      GraphCase moved = what;
      double& value = (moved.*list)[place].values[i];
      const double middle = value;
      value = static_cast<float>(middle + step);
      const double above = value;
      const double high = weighted_sum(moved);
      value = static_cast<float>(middle - step);
      expected.values[i] = (high - weighted_sum(moved)) / (above - value);
    }
    REQUIRE(found.gradients.contains(id));
    CHECK(difference(found.gradients.at(id), expected, tolerance) == "");
  };
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    check(graph.inputs[i], &GraphCase::inputs, i);
  }
  for (std::size_t i = 0; i < graph.variables.size(); ++i) {
    check(graph.variables[i].tensor, &GraphCase::variables, i);
  }
}

}  // namespace meshwork::test
