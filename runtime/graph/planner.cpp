#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "runtime/config/byte_count.h"
#include "runtime/graph/candidate_costs.h"
#include "runtime/graph/candidates.h"
#include "runtime/graph/choice_network.h"
#include "runtime/graph/placement.h"
#include "runtime/graph/plan.h"
#include "runtime/graph/planning_problem.h"
#include "runtime/graph/rewrites/rewrites.h"
#include "runtime/mesh/crossing.h"

namespace meshwork {
namespace {

constexpr std::size_t candidate_limit = 256;

class Planner {
 public:
  explicit Planner(const PlanRequest& request)
      : request_(request), problem_(state_problem(request)), costs_(problem_) {}

  Plan plan(std::shared_ptr<const Graph> graph) {
    Plan plan{.graph = std::move(graph), .mesh = request_.mesh, .costs = request_.costs};
    for (int index = 0; index < operation_count(); ++index) {
      candidates_.push_back(candidates_of(problem_, index));
      all_candidates_.push_back(static_cast<std::int64_t>(candidates_.back().size()));
      plan.work.candidates += all_candidates_.back();
    }
    const Combination choice = choose();
    for (int index = 0; index < operation_count(); ++index) {
      chosen_.push_back(&candidates_[index][choice.options[index]]);
    }
    write_cut(plan, choice.fixed);
    write_tensors(plan);
    write_operations(plan);
    place(plan, request_);
    write_seconds(plan);
    plan.work.redistributions = costs_.redistributions();
    plan.work.exchanges = costs_.exchanges();
    return plan;
  }

 private:
  [[nodiscard]] int operation_count() const {
    return static_cast<int>(request_.graph->operations.size());
  }

  // The costs of all candidates of an operation by themselves. Where many axes meet many letters,
  // only the candidates that are cheapest by themselves stay.
  std::vector<ChoiceCost> own_costs(int index) {
    std::vector<Candidate>& candidates = candidates_[index];
    std::vector<ChoiceCost> costs;
    for (const Candidate& candidate : candidates) {
      costs.push_back(costs_.own(index, candidate));
    }
    if (candidates.size() <= candidate_limit) {
      return costs;
    }
    std::vector<std::size_t> order(candidates.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return costs[a] < costs[b]; });
    order.resize(candidate_limit);
    std::vector<Candidate> kept;
    std::vector<ChoiceCost> kept_costs;
    for (const std::size_t i : order) {
      kept.push_back(std::move(candidates[i]));
      kept_costs.push_back(costs[i]);
    }
    candidates = std::move(kept);
    return kept_costs;
  }

  Combination choose() {
    ChoiceNetwork network;
    for (int index = 0; index < operation_count(); ++index) {
      network.add_choice(own_costs(index));
    }
    const std::vector<GraphTensor>& tensors = request_.graph->tensors;
    for (TensorId id = 0; id < static_cast<TensorId>(tensors.size()); ++id) {
      const int producer = tensors[id].producer;
      if (producer < 0) {
        continue;
      }
      for (const int consumer :
           std::set<int>(tensors[id].consumers.begin(), tensors[id].consumers.end())) {
        network.add_pair(
            producer, consumer,
            costs_.between(candidates_[producer], consumer, candidates_[consumer], id));
      }
    }
    return network.cheapest();
  }

  void write_cut(Plan& plan, const std::vector<int>& fixed) {
    for (int index = 0; index < operation_count(); ++index) {
      const bool alone = std::binary_search(fixed.begin(), fixed.end(), index);
      const auto weighed = alone ? 1 : static_cast<std::int64_t>(candidates_[index].size());
      if (weighed < all_candidates_[index]) {
        plan.cut.push_back(
            {request_.graph->operations[index].path, all_candidates_[index], weighed});
      }
    }
  }

  void write_tensors(Plan& plan) {
    for (TensorId id = 0; id < static_cast<TensorId>(request_.graph->tensors.size()); ++id) {
      PlannedTensor tensor;
      tensor.gradient = problem_.gradient[id];
      if (const auto& closed = problem_.closed[id]) {
        tensor.layout = problem_.layouts[closed->layout];
        tensor.reason = closed->reason;
      } else {
        tensor.layout = problem_.layouts[chosen_[request_.graph->tensors[id].producer]->settled];
        tensor.reason = "by rule";
      }
      plan.tensors.push_back(std::move(tensor));
    }
  }

  void write_operations(Plan& plan) {
    for (int index = 0; index < operation_count(); ++index) {
      const GraphOperation& operation = request_.graph->operations[index];
      const Candidate& candidate = *chosen_[index];
      PlannedOperation planned;
      planned.operation = operation.operation;
      planned.inputs = operation.inputs;
      planned.output = operation.output;
      planned.path = operation.path;
      planned.draws_as = operation.path;
      planned.rule = problem_.rules[index];
      planned.split = candidate.split;
      planned.natural = problem_.layouts[candidate.natural];
      if (const auto loss = request_.losses.find(index); loss != request_.losses.end()) {
        planned.loss_weight = loss->second;
      }
      for (std::size_t i = 0; i < operation.inputs.size(); ++i) {
        planned.needed.push_back(problem_.layouts[candidate.needed[i]]);
        planned.raw.push_back(problem_.layouts[candidate.raw[i]]);
        planned.gradient.push_back(problem_.gives_gradient(operation, operation.inputs[i]));
      }
      plan.operations.push_back(std::move(planned));
    }
  }

  // What an operation costs the ranks that run it.
  StepSeconds seconds_of(int index) {
    const GraphOperation& operation = request_.graph->operations[index];
    const Candidate& candidate = *chosen_[index];
    ChoiceCost total = costs_.own(index, candidate);
    ChoiceCost held = costs_.held(index, candidate);
    const ChoiceCost arithmetic = costs_.arithmetic(index, candidate);
    const ChoiceCost reduction = costs_.reduction(index, candidate);
    for (const TensorId input :
         std::set<TensorId>(operation.inputs.begin(), operation.inputs.end())) {
      const int producer = request_.graph->tensors[input].producer;
      if (producer >= 0) {
        const int settled = chosen_[producer]->settled;
        total += costs_.between(settled, index, candidate, input);
        held += costs_.held_copies(settled, index, candidate, input);
      }
    }
    return {
        .communication = seconds_of_cost(total.cost - arithmetic.cost - held.cost - reduction.cost),
        .arithmetic = seconds_of_cost(arithmetic.cost),
        .reduction = seconds_of_cost(reduction.cost)};
  }

  void write_seconds(Plan& plan) {
    const MeshShape& mesh = plan.mesh;
    plan.seconds.resize(static_cast<std::size_t>(mesh.size_over(plan.placing)));
    const auto each_part = [&](auto&& see) {
      for (std::size_t part = 0; part < plan.seconds.size(); ++part) {
        see(plan.seconds[part], mesh.neighbour(0, plan.placing, static_cast<std::int64_t>(part)));
      }
    };
    for (int index = 0; index < operation_count(); ++index) {
      const StepSeconds own = seconds_of(index);
      each_part([&](StepSeconds& seconds, std::int64_t rank) {
        if (!includes(plan.operations[index].natural.places, mesh, rank)) return;
        seconds.communication += own.communication;
        seconds.arithmetic += own.arithmetic;
        seconds.reduction += own.reduction;
      });
    }
    if (plan.placing.empty()) return;
    const auto each_message = [&](TensorId id, const Places& from, const Places& to, auto&& see) {
      const double message = plan.costs.latency_seconds +
                             float32_bytes *
                                 static_cast<double>(largest_block(plan.tensors[id].layout,
                                                                   problem_.shapes[id], mesh)) /
                                 plan.costs.bytes_per_second;
      each_part([&](StepSeconds& seconds, std::int64_t rank) {
        if (crossing_of(from, to, mesh, rank).concerns_rank()) see(seconds, message);
      });
    };
    // Inputs and targets are read where they are used. Variables are held there, and each use sends
    // their gradients.
    std::vector<std::pair<TensorId, Places>> uses;
    for (const PlannedOperation& operation : plan.operations) {
      for (std::size_t i = 0; i < operation.inputs.size(); ++i) {
        const TensorId id = operation.inputs[i];
        const Places &at = operation.natural.places, &settled = plan.tensors[id].layout.places;
        if (!operation.gradient[i] || at == settled) continue;
        if (std::ranges::find(uses, std::pair(id, at)) != uses.end()) continue;
        uses.emplace_back(id, at);
        const bool once = plan.graph->tensors[id].role == TensorRole::variable;
        each_message(id, at, settled, [&](StepSeconds& seconds, double message) {
          (once ? seconds.reduction : seconds.communication) += message;
        });
      }
    }
    for (TensorId id = 0; id < std::ssize(plan.tensors); ++id) {
      const PlannedTensor& tensor = plan.tensors[id];
      if (plan.graph->tensors[id].role != TensorRole::value) continue;
      each_message(id, tensor.layout.places, tensor.read_at,
                   [](StepSeconds& seconds, double message) { seconds.communication += message; });
    }
  }

  const PlanRequest& request_;
  PlanningProblem problem_;
  CandidateCosts costs_;
  std::vector<std::vector<Candidate>> candidates_;  // by operation: those that are weighed
  std::vector<std::int64_t> all_candidates_;        // by operation: how many there are
  std::vector<const Candidate*> chosen_;            // by operation
};

}  // namespace

StepSeconds longest(const std::vector<StepSeconds>& ranks, std::int64_t micro_batches) {
  return std::ranges::max(ranks, {},
                          [=](const StepSeconds& one) { return one.of_step(micro_batches); });
}

Plan make_plan(const PlanRequest& request, std::shared_ptr<const Graph> graph) {
  PlanRequest rewritten = request;
  graph = rewrite(rewritten, std::move(graph));
  Plan plan = Planner(rewritten).plan(std::move(graph));
  rewrite(plan);
  return plan;
}

Plan plan_within(std::int64_t limit, Plan fastest, PlanRequest request,
                 const std::shared_ptr<const Graph>& graph,
                 const std::function<std::int64_t(const Plan&)>& bytes_of) {
  const auto seconds = [](const Plan& plan) { return longest(plan.seconds).of_step(1); };
  const std::int64_t most = bytes_of(fastest);
  if (most <= limit) return fastest;
  // From a price that decides between plans that take equally long to one that decides alone.
  constexpr int first_price = -15, last_price = -7;
  std::int64_t least = most;
  for (int price = first_price; price <= last_price; ++price) {
    request.costs.seconds_per_held_byte = std::pow(10.0, price);
    Plan plan = make_plan(request, graph);
    const std::int64_t bytes = bytes_of(plan);
    if (bytes <= limit) {
      plan.without_limit = {
          .limit = limit, .bytes = most, .times_as_long = seconds(plan) / seconds(fastest)};
      return plan;
    }
    least = std::min(least, bytes);
  }
  fail(
      "no plan was found that holds a step within {}: the least takes {:.2f} MiB; split more "
      "tensors, or take more microbatches or `recompute`",
      to_text(ByteCount{limit}), std::ldexp(static_cast<double>(least), -20));
}

}  // namespace meshwork
