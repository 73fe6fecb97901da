#include "runtime/graph/candidate_costs.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/graph/operation_windows.h"
#include "runtime/graph/spread.h"

namespace meshwork {
namespace {

constexpr double picoseconds = 1e12;

// Each of `keys` in the order in which it first occurs, and for every place which of them it has.
template <class Key>
struct Distinct {
  std::vector<std::size_t> first;  // by distinct key: where it occurs first
  std::vector<std::size_t> which;  // by place: its number among the distinct ones

  explicit Distinct(const std::vector<Key>& keys) {
    std::map<Key, std::size_t> numbers;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto [at, added] = numbers.try_emplace(keys[i], first.size());
      if (added) {
        first.push_back(i);
      }
      which.push_back(at->second);
    }
  }
};

}  // namespace

ChoiceCost cost_of_seconds(double seconds) {
  return {static_cast<std::int64_t>(std::llround(seconds * picoseconds)), 0};
}

double seconds_of_cost(std::int64_t cost) {
  return static_cast<double>(cost) / picoseconds;
}

CandidateCosts::CandidateCosts(const PlanningProblem& problem)
    : problem_(problem), redistribution_planner_(*problem.mesh) {
  for (const Shape& shape : problem.shapes) {
    Moves& moves = moves_[shape.size()];
    const auto found = std::ranges::find(moves.shapes, shape);
    moves_of_tensor_.emplace_back(&moves, found - moves.shapes.begin());
    if (found == moves.shapes.end()) moves.shapes.push_back(shape);
  }
}

void CandidateCosts::price(Moves& moves, int from, int to) {
  const MeshShape& mesh = *problem_.mesh;
  while (std::ssize(canonical_) <= std::max(from, to)) {
    canonical_.push_back(problem_.layouts[static_cast<int>(canonical_.size())].canonical(mesh));
  }
  const std::span<const RedistributionStep> steps =
      redistribution_planner_.plan(canonical_[from], canonical_[to]);
  for (std::size_t i = 0; i < moves.shapes.size(); ++i) {
    double total = 0;
    for (const RedistributionStep& step : steps) {
      total += step_seconds(step, moves.shapes[i], mesh, problem_.request->costs);
    }
    moves.costs[from][to * moves.shapes.size() + i] = cost_of_seconds(total).cost;
  }
  ++redistributions_;
}

// What it costs to bring a tensor from one layout to another.
ChoiceCost CandidateCosts::moving(int from, int to, TensorId tensor) {
  if (from == to) {
    return {};
  }
  const auto [moves, shape] = moves_of_tensor_[tensor];
  if (from >= std::ssize(moves->costs)) {
    moves->costs.resize(problem_.layouts.count());
  }
  std::vector<std::int64_t>& row = moves->costs[from];
  const std::size_t at = to * moves->shapes.size() + shape;
  if (at >= row.size()) {
    row.resize(problem_.layouts.count() * moves->shapes.size(), unknown);
  }
  if (row[at] == unknown) {
    price(*moves, from, to);
  }
  return {row[at], 0};
}

// What it costs to bring input `input` of an operation from where it lies as `from`.
ChoiceCost CandidateCosts::bringing(int from, int index, int input, const Candidate& candidate) {
  ChoiceCost cost =
      moving(from, candidate.needed[input], problem_.graph->operations[index].inputs[input]);
  if (has_windows(problem_.rules[index], input)) {
    const Exchange& boxes = exchange(index, input, candidate);
    if (!holds_boxes(problem_.layouts[from], boxes.windows)) {
      cost += boxes.forward;
    }
  }
  return cost;
}

const CandidateCosts::Exchange& CandidateCosts::exchange(int index, int input,
                                                         const Candidate& candidate) {
  const auto [known, added] =
      exchanges_.try_emplace(std::make_tuple(index, input, candidate.needed[input]));
  Exchange& exchange = known->second;
  if (added) {
    const GraphOperation& operation = problem_.graph->operations[index];
    const CostModel& costs = problem_.request->costs;
    exchange.windows =
        windows_of(*operation.operation, problem_.rules[index], candidate.split, input,
                   problem_.input_shapes(index), problem_.shapes[operation.output]);
    exchange.forward =
        cost_of_seconds(exchange_seconds(exchange.windows, *problem_.mesh, costs, false));
    exchange.back =
        cost_of_seconds(exchange_seconds(exchange.windows, *problem_.mesh, costs, true));
  }
  return exchange;
}

ChoiceCost CandidateCosts::own(int index, const Candidate& candidate) {
  const Graph& graph = *problem_.graph;
  const GraphOperation& operation = graph.operations[index];
  const bool backward = problem_.has_backward(operation);
  ChoiceCost cost;
  for (int i = 0; i < static_cast<int>(operation.inputs.size()); ++i) {
    const TensorId input = operation.inputs[i];
    const bool gradient = problem_.gives_gradient(operation, input);
    if (gradient && has_windows(problem_.rules[index], i)) {
      cost += exchange(index, i, candidate).back;
    }
    const TensorRole role = graph.tensors[input].role;
    if (role == TensorRole::value) {
      continue;
    }
    const int stored = problem_.closed[input]->layout;
    cost += bringing(stored, index, i, candidate);
    if (gradient) {
      cost += moving(candidate.raw[i], stored, input);
    }
    if (role == TensorRole::variable && backward && operation.operation->backward_reads(i)) {
      cost += bringing(stored, index, i, candidate);
    }
  }
  const Layout& natural = problem_.layouts[candidate.natural];
  const CostModel& costs = problem_.request->costs;
  cost += moving(candidate.natural, candidate.settled, operation.output);
  cost += cost_of_seconds(sum_seconds(natural, *problem_.mesh, costs));
  if (backward && problem_.gradient[operation.output] &&
      !problem_.shapes[operation.output].empty()) {
    cost += moving(candidate.settled, candidate.whole, operation.output);
  }
  for (const OwnReduction& reduction : operation.operation->own_reductions(problem_.rules[index])) {
    if (!reduction.backward || backward) {
      cost += cost_of_seconds(own_reduction_seconds(
          reduction, candidate.split, problem_.lengths[index], *problem_.mesh, costs));
    }
  }
  cost += held(index, candidate);
  cost += arithmetic(index, candidate);
  return cost;
}

ChoiceCost CandidateCosts::reduction(int index, const Candidate& candidate) {
  const GraphOperation& operation = problem_.graph->operations[index];
  ChoiceCost cost;
  for (std::size_t i = 0; i < operation.inputs.size(); ++i) {
    const TensorId input = operation.inputs[i];
    const GraphTensor& tensor = problem_.graph->tensors[input];
    if (tensor.role != TensorRole::variable || tensor.consumers.size() != 1 ||
        !problem_.gives_gradient(operation, input)) {
      continue;
    }
    const int stored = problem_.closed[input]->layout;
    if (problem_.layouts[candidate.raw[i]].dimensions == problem_.layouts[stored].dimensions) {
      cost += moving(candidate.raw[i], stored, input);
    }
  }
  return cost;
}

ChoiceCost CandidateCosts::held_bytes(int layout, TensorId tensor) const {
  const double price = problem_.request->costs.seconds_per_held_byte;
  if (price == 0) return {};
  const auto elements = static_cast<double>(
      largest_block(problem_.layouts[layout], problem_.shapes[tensor], *problem_.mesh));
  // Bounded, so that sums over any graph are numbers.
  constexpr double most_seconds = 1e3;
  return cost_of_seconds(std::min(price * elements * sizeof(float), most_seconds));
}

ChoiceCost CandidateCosts::held(int index, const Candidate& candidate) const {
  const GraphOperation& operation = problem_.graph->operations[index];
  ChoiceCost cost;
  if (problem_.gradient[operation.output]) {
    cost += held_bytes(candidate.settled, operation.output);
  }
  for (std::size_t i = 0; i < operation.inputs.size(); ++i) {
    const auto& closed = problem_.closed[operation.inputs[i]];
    const bool is_value = problem_.graph->tensors[operation.inputs[i]].role == TensorRole::value;
    if (!closed || is_value || candidate.needed[i] == closed->layout) continue;
    cost += held_bytes(candidate.needed[i], operation.inputs[i]);
  }
  return cost;
}

ChoiceCost CandidateCosts::held_copies(int settled, int index, const Candidate& candidate,
                                       TensorId tensor) const {
  const GraphOperation& operation = problem_.graph->operations[index];
  ChoiceCost cost;
  if (!problem_.has_backward(operation)) return cost;
  for (int i = 0; i < static_cast<int>(operation.inputs.size()); ++i) {
    if (operation.inputs[i] != tensor || candidate.needed[i] == settled) continue;
    if (operation.operation->backward_reads(i)) cost += held_bytes(candidate.needed[i], tensor);
  }
  return cost;
}

ChoiceCost CandidateCosts::arithmetic(int index, const Candidate& candidate) const {
  const GraphOperation& operation = problem_.graph->operations[index];
  const auto gradients =
      std::count_if(operation.inputs.begin(), operation.inputs.end(),
                    [&](TensorId input) { return problem_.gives_gradient(operation, input); });
  const std::vector<Shape> inputs = problem_.input_shapes(index);
  const double flops = operation.operation->flops(inputs, problem_.shapes[operation.output]);
  const double share = largest_share(*operation.operation, inputs, candidate.split,
                                     problem_.lengths[index], *problem_.mesh);
  ChoiceCost cost = cost_of_seconds(static_cast<double>(1 + gradients) * share * flops /
                                    problem_.request->costs.flops_per_second);
  double parts = 1;
  for (const auto& [letter, axes] : candidate.split) {
    parts *= static_cast<double>(problem_.mesh->size_over(axes));
  }
  cost.tie = static_cast<std::int64_t>(flops / parts);
  return cost;
}

ChoiceCost CandidateCosts::between(int from, int index, const Candidate& candidate,
                                   TensorId tensor) {
  const GraphOperation& operation = problem_.graph->operations[index];
  ChoiceCost cost;
  for (int i = 0; i < static_cast<int>(operation.inputs.size()); ++i) {
    if (operation.inputs[i] == tensor) {
      cost += bringing(from, index, i, candidate);
      if (problem_.gives_gradient(operation, tensor)) {
        cost += moving(candidate.raw[i], from, tensor);
      }
    }
  }
  cost += held_copies(from, index, candidate, tensor);
  return cost;
}

std::vector<ChoiceCost> CandidateCosts::between(const std::vector<Candidate>& producers, int index,
                                                const std::vector<Candidate>& consumers,
                                                TensorId tensor) {
  // Many candidates settle a tensor alike, and many take it and give its gradient back alike.
  const std::vector<TensorId>& inputs = problem_.graph->operations[index].inputs;
  std::vector<int> settled;
  for (const Candidate& candidate : producers) {
    settled.push_back(candidate.settled);
  }
  std::vector<std::vector<int>> ends;
  for (const Candidate& candidate : consumers) {
    std::vector<int>& layouts = ends.emplace_back();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] == tensor) {
        layouts.push_back(candidate.needed[i]);
        layouts.push_back(candidate.raw[i]);
      }
    }
  }
  const Distinct rows(settled);
  const Distinct columns(ends);
  std::vector<ChoiceCost> distinct;
  distinct.reserve(rows.first.size() * columns.first.size());
  for (const std::size_t row : rows.first) {
    for (const std::size_t column : columns.first) {
      distinct.push_back(between(settled[row], index, consumers[column], tensor));
    }
  }
  std::vector<ChoiceCost> costs;
  costs.reserve(producers.size() * consumers.size());
  for (const std::size_t row : rows.which) {
    for (const std::size_t column : columns.which) {
      costs.push_back(distinct[row * columns.first.size() + column]);
    }
  }
  return costs;
}

}  // namespace meshwork
