#include "runtime/graph/planning_problem.h"

#include <algorithm>

#include "collectives/error.h"
#include "runtime/graph/path_error.h"

namespace meshwork {
namespace {

bool is_mask(const GraphOperation& operation) {
  return operation.operation->output_values() == ValueKind::mask;
}

// A tensor has a gradient if a trainable variable leads to it and it leads to a loss. Nothing leads
// through a mask.
void find_gradients(PlanningProblem& problem) {
  const Graph& graph = *problem.graph;
  const std::size_t count = graph.tensors.size();
  std::vector<bool> from_variable(count, false);
  for (const Variable& variable : graph.variables) {
    from_variable[variable.tensor] = variable.options.trainable;
  }
  for (const GraphOperation& operation : graph.operations) {
    if (is_mask(operation)) continue;
    for (const TensorId input : operation.inputs) {
      from_variable[operation.output] = from_variable[operation.output] || from_variable[input];
    }
  }
  problem.to_loss.assign(count, false);
  for (const auto& [loss, weight] : problem.request->losses) {
    problem.to_loss[graph.operations[loss].output] = true;
  }
  for (std::size_t i = graph.operations.size(); i-- > 0;) {
    const GraphOperation& operation = graph.operations[i];
    if (problem.to_loss[operation.output] && !is_mask(operation)) {
      for (const TensorId input : operation.inputs) {
        problem.to_loss[input] = true;
      }
    }
  }
  for (std::size_t id = 0; id < count; ++id) {
    problem.gradient.push_back(from_variable[id] && problem.to_loss[id]);
  }
}

// How a target lies: as the user laid out what it is compared with, letter by letter of the
// operation that compares them; else split by the batch axis.
PlanningProblem::Closed layout_of_target(PlanningProblem& problem, TensorId target) {
  const Graph& graph = *problem.graph;
  Layout layout = Layout::replicated(graph.tensors[target].shape.size());
  for (const int index : graph.tensors[target].consumers) {
    const std::vector<TensorId>& inputs = graph.operations[index].inputs;
    const auto prediction = std::find_if(inputs.begin(), inputs.end(), [&](TensorId input) {
      return graph.tensors[input].role == TensorRole::value &&
             problem.request->closed.contains(input);
    });
    if (prediction == inputs.end()) {
      continue;
    }
    const std::vector<std::string>& letters = problem.rules[index].inputs;
    const std::string& theirs = letters[prediction - inputs.begin()];
    const auto own = std::find(inputs.begin(), inputs.end(), target) - inputs.begin();
    const Layout& closed = problem.request->closed.at(*prediction).layout;
    for (std::size_t d = 0; d < layout.dimensions.size(); ++d) {
      const std::size_t at = theirs.find(letters[own][d]);
      if (at != std::string::npos) {
        layout.dimensions[d] = closed.dimensions[at];
      }
    }
    return {problem.layouts.of(layout.canonical(*problem.mesh)),
            "as " + graph.tensors[*prediction].path};
  }
  return {problem.layouts.of(layout_by_batch_axis(*problem.request, graph.tensors[target])),
          "batch axis"};
}

void close_layouts(PlanningProblem& problem) {
  const PlanRequest& request = *problem.request;
  const Graph& graph = *problem.graph;
  problem.closed.resize(graph.tensors.size());
  for (TensorId id = 0; id < static_cast<TensorId>(graph.tensors.size()); ++id) {
    const GraphTensor& tensor = graph.tensors[id];
    const auto found = request.closed.find(id);
    if (found != request.closed.end()) {
      problem.closed[id] = {problem.layouts.of(found->second.layout.canonical(*problem.mesh)),
                            found->second.reason};
      continue;
    }
    if (tensor.role == TensorRole::variable) {
      problem.closed[id] = {problem.layouts.of(Layout::replicated(tensor.shape.size())),
                            "replicated"};
    } else if (tensor.role == TensorRole::input) {
      problem.closed[id] = {problem.layouts.of(layout_by_batch_axis(request, tensor)),
                            "batch axis"};
    } else if (tensor.role == TensorRole::target) {
      problem.closed[id] = layout_of_target(problem, id);
    }
  }
}

void find_axes_in_play(PlanningProblem& problem) {
  std::set<Axis> axes;
  for (const auto& [id, closed] : problem.request->closed) {
    for (const Axis axis : closed.layout.splitting_axes()) {
      axes.insert(axis);
    }
    for (const std::vector<Axis>& list : closed.layout.dimensions) {
      if (list.size() > 1) {
        problem.orders.insert(list);
      }
    }
  }
  if (problem.request->batch_axis) {
    axes.insert(*problem.request->batch_axis);
  }
  for (const Axis axis : axes) {
    if (problem.mesh->size(axis) > 1) {
      problem.in_play.push_back(axis);
    }
  }
}

void check_rule(const Rule& rule, const GraphOperation& operation, const std::vector<Shape>& inputs,
                const Shape& output) {
  bool fits = rule.inputs.size() == inputs.size() && rule.output.size() == output.size();
  for (std::size_t i = 0; fits && i < inputs.size(); ++i) {
    fits = rule.inputs[i].size() == inputs[i].size();
  }
  if (!fits) {
    fail("{}: the rule of operation \"{}\" does not have one letter for each dimension",
         operation.path, operation.operation->kind());
  }
  std::map<char, std::int64_t> lengths;
  const auto check_lengths = [&](const std::string& letters, const Shape& shape) {
    for (std::size_t d = 0; d < letters.size(); ++d) {
      const auto [known, added] = lengths.try_emplace(letters[d], shape[d]);
      if (known->second != shape[d] &&
          (rule.windows + rule.whole).find(letters[d]) == std::string::npos) {
        fail(
            "{}: the rule of operation \"{}\" has the letter '{}' for dimensions of {} and of {} "
            "elements, and neither slides windows over it nor keeps it whole",
            operation.path, operation.operation->kind(), letters[d], known->second, shape[d]);
      }
    }
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_lengths(rule.inputs[i], inputs[i]);
  }
  check_lengths(rule.output, output);
}

std::map<char, std::int64_t> lengths_of(const Rule& rule, const std::vector<Shape>& inputs,
                                        const Shape& output) {
  std::map<char, std::int64_t> lengths;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for (std::size_t d = 0; d < inputs[i].size(); ++d) {
      lengths[rule.inputs[i][d]] = inputs[i][d];
    }
  }
  for (std::size_t d = 0; d < output.size(); ++d) {
    // Where windows slide it is the output that shares out the work.
    if (rule.windows.find(rule.output[d]) != std::string::npos) {
      lengths[rule.output[d]] = output[d];
    }
    lengths.try_emplace(rule.output[d], output[d]);
  }
  return lengths;
}

}  // namespace

int LayoutNumbers::of(const Layout& layout) {
  const auto [at, added] = numbers_.try_emplace(layout, static_cast<int>(layouts_.size()));
  if (added) {
    layouts_.push_back(layout);
  }
  return at->second;
}

std::vector<Shape> PlanningProblem::input_shapes(int index) const {
  std::vector<Shape> inputs;
  for (const TensorId input : graph->operations[index].inputs) {
    inputs.push_back(shapes[input]);
  }
  return inputs;
}

bool PlanningProblem::gives_gradient(const GraphOperation& operation, TensorId input) const {
  return gradient[operation.output] && gradient[input];
}

bool PlanningProblem::has_backward(const GraphOperation& operation) const {
  return std::any_of(operation.inputs.begin(), operation.inputs.end(),
                     [&](TensorId input) { return gives_gradient(operation, input); });
}

Layout layout_by_batch_axis(const PlanRequest& request, const GraphTensor& tensor) {
  Layout layout = Layout::replicated(tensor.shape.size());
  if (tensor.batched() && request.batch_axis && request.mesh.size(*request.batch_axis) > 1) {
    layout.dimensions[0] = {*request.batch_axis};
  }
  return layout;
}

PlanningProblem state_problem(const PlanRequest& request) {
  PlanningProblem problem;
  problem.request = &request;
  problem.graph = request.graph;
  problem.mesh = &request.mesh;
  const Graph& graph = *request.graph;
  for (TensorId id = 0; id < static_cast<TensorId>(graph.tensors.size()); ++id) {
    problem.shapes.push_back(graph.shape_of(id, request.rows));
  }
  for (int index = 0; index < static_cast<int>(graph.operations.size()); ++index) {
    const GraphOperation& operation = graph.operations[index];
    const std::vector<Shape> inputs = problem.input_shapes(index);
    const Shape& output = problem.shapes[operation.output];
    Rule rule = named(operation.path, "rule", [&] { return operation.operation->rule(inputs); });
    check_rule(rule, operation, inputs, output);
    problem.lengths.push_back(lengths_of(rule, inputs, output));
    problem.rules.push_back(std::move(rule));
  }
  find_gradients(problem);
  close_layouts(problem);
  find_axes_in_play(problem);
  return problem;
}

}  // namespace meshwork
