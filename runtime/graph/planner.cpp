#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>
#include <tuple>
#include <unordered_map>

#include "collectives/error.h"
#include "runtime/graph/choice_network.h"
#include "runtime/graph/flattened_products.h"
#include "runtime/graph/fusion.h"
#include "runtime/graph/operation_windows.h"
#include "runtime/graph/plan.h"
#include "runtime/graph/spread.h"
#include "runtime/mesh/redistribution.h"

namespace meshwork {
namespace {

constexpr double picoseconds = 1e12;
constexpr std::size_t candidate_limit = 256;

// One way to spread an operation. Layouts are numbers in the planner's table of layouts.
struct Candidate {
  Split split;
  std::vector<int> needed;
  int natural = -1;
  int settled = -1;  // layout of the output tensor
  std::vector<int> raw;
};

class Planner {
 public:
  explicit Planner(const PlanRequest& request)
      : request_(request), graph_(*request.graph), mesh_(request.mesh) {}

  Plan plan(std::shared_ptr<const Graph> graph) {
    find_shapes();
    find_gradients();
    close_layouts();
    find_axes_in_play();
    list_candidates();
    const std::vector<int> chosen = choose();
    Plan plan{std::move(graph), mesh_, request_.loss_operation, request_.costs, {}, {}, 0};
    write_tensors(plan, chosen);
    write_operations(plan, chosen);
    return plan;
  }

 private:
  // ---- preparation ---------------------------------------------------------------------------

  void find_shapes() {
    for (TensorId id = 0; id < static_cast<TensorId>(graph_.tensors.size()); ++id) {
      shapes_.push_back(graph_.shape_of(id, request_.rows));
    }
  }

  // A tensor has a gradient if a trainable variable leads to it and it leads to the loss.
  void find_gradients() {
    const std::size_t count = graph_.tensors.size();
    std::vector<bool> from_variable(count, false);
    for (const Variable& variable : graph_.variables) {
      from_variable[variable.tensor] = variable.options.trainable;
    }
    for (const GraphOperation& operation : graph_.operations) {
      for (const TensorId input : operation.inputs) {
        from_variable[operation.output] = from_variable[operation.output] || from_variable[input];
      }
    }
    std::vector<bool>& to_loss = to_loss_;
    to_loss.assign(count, false);
    if (request_.loss_operation >= 0) {
      to_loss[graph_.operations[request_.loss_operation].output] = true;
    }
    for (std::size_t i = graph_.operations.size(); i-- > 0;) {
      const GraphOperation& operation = graph_.operations[i];
      if (to_loss[operation.output]) {
        for (const TensorId input : operation.inputs) {
          to_loss[input] = true;
        }
      }
    }
    for (std::size_t id = 0; id < count; ++id) {
      gradient_.push_back(from_variable[id] && to_loss[id]);
    }
  }

  void close_layouts() {
    closed_.resize(graph_.tensors.size());
    for (TensorId id = 0; id < static_cast<TensorId>(graph_.tensors.size()); ++id) {
      const GraphTensor& tensor = graph_.tensors[id];
      const auto found = request_.closed.find(id);
      if (found != request_.closed.end()) {
        closed_[id] = {intern(found->second.layout.canonical(mesh_)), found->second.reason};
        continue;
      }
      Layout layout = Layout::replicated(tensor.shape.size());
      if (tensor.role == TensorRole::variable) {
        closed_[id] = {intern(layout), "replicated"};
      } else if (tensor.role != TensorRole::value) {
        if (tensor.batched() && request_.batch_axis && mesh_.size(*request_.batch_axis) > 1) {
          layout.dimensions[0] = {*request_.batch_axis};
        }
        closed_[id] = {intern(layout), "batch axis"};
      }
    }
  }

  void find_axes_in_play() {
    std::set<Axis> axes;
    for (const auto& [id, closed] : request_.closed) {
      for (const Axis axis : closed.layout.splitting_axes()) {
        axes.insert(axis);
      }
      for (const std::vector<Axis>& list : closed.layout.dimensions) {
        if (list.size() > 1) {
          orders_.insert(list);
        }
      }
    }
    if (request_.batch_axis) {
      axes.insert(*request_.batch_axis);
    }
    for (const Axis axis : axes) {
      if (mesh_.size(axis) > 1) {
        in_play_.push_back(axis);
      }
    }
  }

  // ---- candidates ------------------------------------------------------------------------------

  // The letter that stands for the batch, or 0.
  char batch_letter(const GraphOperation& operation, const Rule& rule) const {
    for (std::size_t i = 0; i < operation.inputs.size(); ++i) {
      if (graph_.tensors[operation.inputs[i]].batched()) {
        return rule.inputs[i].front();
      }
    }
    return 0;
  }

  // Whether the user laid out the tensor so that the batch axis does not split its batch.
  bool mixes_batch(TensorId id) const {
    const auto found = request_.closed.find(id);
    if (found == request_.closed.end() || !graph_.tensors[id].batched()) {
      return false;
    }
    const std::vector<Axis>& rows = found->second.layout.dimensions[0];
    return std::find(rows.begin(), rows.end(), *request_.batch_axis) == rows.end();
  }

  bool batch_axis_is_free(const GraphOperation& operation) const {
    const TensorId layer_output =
        operation.layer >= 0 ? graph_.layers[operation.layer].output : operation.output;
    if (mixes_batch(operation.output) || (layer_output >= 0 && mixes_batch(layer_output))) {
      return true;
    }
    return std::any_of(operation.inputs.begin(), operation.inputs.end(),
                       [&](TensorId input) { return mixes_batch(input); });
  }

  void list_candidates() {
    for (const GraphOperation& operation : graph_.operations) {
      std::vector<Shape> inputs;
      for (const TensorId input : operation.inputs) {
        inputs.push_back(shapes_[input]);
      }
      const Rule rule = operation.operation->rule(inputs);
      check_rule(rule, operation, inputs);
      rules_.push_back(rule);

      std::map<char, std::int64_t>& lengths = lengths_.emplace_back();
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        for (std::size_t d = 0; d < inputs[i].size(); ++d) {
          lengths[rule.inputs[i][d]] = inputs[i][d];
        }
      }
      const Shape& output = shapes_[operation.output];
      for (std::size_t d = 0; d < output.size(); ++d) {
        // Where windows slide it is the output that shares out the work.
        if (rule.windows.find(rule.output[d]) != std::string::npos) {
          lengths[rule.output[d]] = output[d];
        }
      }
      std::string letters;  // that an axis may split
      for (const auto& [letter, length] : lengths) {
        if (length > 1 && rule.whole.find(letter) == std::string::npos) {
          letters += letter;
        }
      }
      const char batch = batch_letter(operation, rule);
      const bool free = request_.batch_axis && batch_axis_is_free(operation);

      std::vector<std::string> options;  // by axis in play: letters, or 0 for none
      for (const Axis axis : in_play_) {
        if (request_.batch_axis == axis && batch != 0 && !free) {
          const bool splittable = letters.find(batch) != std::string::npos;
          options.push_back(splittable ? std::string(1, batch) : std::string(1, '\0'));
        } else {
          options.push_back(std::string(1, '\0') + letters);
        }
      }
      std::vector<Candidate> candidates;
      Split split;
      assign(operation, rule, options, 0, split, candidates);
      candidates_.push_back(std::move(candidates));
    }
  }

  // Tries every letter for axis `index` in play and those after it.
  void assign(const GraphOperation& operation, const Rule& rule,
              const std::vector<std::string>& options, std::size_t index, Split& split,
              std::vector<Candidate>& candidates) {
    if (index == in_play_.size()) {
      for (const Split& ordered : orderings(split)) {
        add_candidates(operation, rule, ordered, candidates);
      }
      return;
    }
    for (const char letter : options[index]) {
      if (letter == '\0') {
        assign(operation, rule, options, index + 1, split, candidates);
        continue;
      }
      split[letter].push_back(in_play_[index]);
      assign(operation, rule, options, index + 1, split, candidates);
      split[letter].pop_back();
      if (split[letter].empty()) {
        split.erase(letter);
      }
    }
  }

  // The split with its axes in mesh order, and in each order that a layout of the user's has them
  // in.
  std::vector<Split> orderings(const Split& split) const {
    std::vector<Split> all{split};
    for (const auto& [letter, axes] : split) {
      if (axes.size() < 2) {
        continue;
      }
      for (const std::vector<Axis>& order : orders_) {
        std::vector<Axis> ordered;
        for (const Axis axis : order) {
          if (std::find(axes.begin(), axes.end(), axis) != axes.end()) {
            ordered.push_back(axis);
          }
        }
        if (ordered.size() == axes.size() && ordered != axes) {
          const std::size_t before = all.size();
          for (std::size_t i = 0; i < before; ++i) {
            Split other = all[i];
            other[letter] = ordered;
            if (std::find(all.begin(), all.end(), other) == all.end()) {
              all.push_back(std::move(other));
            }
          }
        }
      }
    }
    return all;
  }

  void add_candidates(const GraphOperation& operation, const Rule& rule, const Split& split,
                      std::vector<Candidate>& candidates) {
    Candidate candidate;
    candidate.split = split;
    for (std::size_t i = 0; i < operation.inputs.size(); ++i) {
      candidate.needed.push_back(intern(needed_layout(rule, split, static_cast<int>(i))));
      candidate.raw.push_back(intern(raw_layout(rule, split, static_cast<int>(i))));
    }
    const Layout natural = natural_layout(rule, split);
    candidate.natural = intern(natural);
    const auto& closed = closed_[operation.output];
    if (closed) {
      candidate.settled = closed->layout;
      candidates.push_back(std::move(candidate));
      return;
    }
    if (natural.dimensions.empty()) {
      // A sum over the whole batch stays partial until all sums are reduced together.
      candidate.settled = candidate.natural;
      candidates.push_back(std::move(candidate));
      return;
    }
    // Reduced whole, or scattered over one dimension.
    candidate.settled = intern(natural.without_partial());
    candidates.push_back(candidate);
    if (!natural.partial.empty()) {
      for (int d = 0; d < natural.dimension_count(); ++d) {
        if (shapes_[operation.output][d] < 2) {
          continue;
        }
        Layout scattered = natural.without_partial();
        scattered.dimensions[d].insert(scattered.dimensions[d].end(), natural.partial.begin(),
                                       natural.partial.end());
        candidate.settled = intern(scattered);
        candidates.push_back(candidate);
      }
    }
  }

  void check_rule(const Rule& rule, const GraphOperation& operation,
                  const std::vector<Shape>& inputs) const {
    bool fits = rule.inputs.size() == inputs.size() &&
                rule.output.size() == shapes_[operation.output].size();
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
    check_lengths(rule.output, shapes_[operation.output]);
  }

  // ---- costs ---------------------------------------------------------------------------------

  int intern(const Layout& layout) {
    const auto [at, added] = numbers_.try_emplace(layout, static_cast<int>(layouts_.size()));
    if (added) {
      layouts_.push_back(layout);
    }
    return at->second;
  }

  ChoiceCost seconds(double value) const {
    return {static_cast<std::int64_t>(std::llround(value * picoseconds)), 0};
  }

  // What it costs to bring a tensor from one layout to another.
  ChoiceCost moving(int from, int to, TensorId tensor) {
    if (from == to) {
      return {};
    }
    const auto key = std::make_tuple(from, to, shape_number(tensor));
    const auto found = moving_.find(key);
    if (found != moving_.end()) {
      return found->second;
    }
    double total = 0;
    for (const RedistributionStep& step :
         plan_redistribution(layouts_[from], layouts_[to], shapes_[tensor], mesh_)) {
      total += step_seconds(step, shapes_[tensor], mesh_, request_.costs);
    }
    return moving_[key] = seconds(total);
  }

  // What it costs to bring input `input` of an operation from where it lies as `from`.
  ChoiceCost bringing(int from, int index, int input, const Candidate& candidate) {
    ChoiceCost cost = moving(from, candidate.needed[input], graph_.operations[index].inputs[input]);
    if (has_windows(rules_[index], input)) {
      const Exchange& exchange = exchange_for(index, input, candidate);
      if (!holds_boxes(layouts_[from], exchange.windows)) {
        cost += exchange.forward;
      }
    }
    return cost;
  }

  // The exchange of boxes of an input, and what it costs there and back.
  struct Exchange {
    Windows windows;
    ChoiceCost forward, back;
  };
  const Exchange& exchange_for(int index, int input, const Candidate& candidate) {
    const auto [known, added] =
        exchanges_.try_emplace(std::make_tuple(index, input, candidate.needed[input]));
    if (added) {
      const GraphOperation& operation = graph_.operations[index];
      std::vector<Shape> inputs;
      for (const TensorId tensor : operation.inputs) {
        inputs.push_back(shapes_[tensor]);
      }
      Exchange& exchange = known->second;
      exchange.windows = windows_of(*operation.operation, rules_[index], candidate.split, input,
                                    inputs, shapes_[operation.output]);
      exchange.forward = seconds(exchange_seconds(exchange.windows, mesh_, request_.costs, false));
      exchange.back = seconds(exchange_seconds(exchange.windows, mesh_, request_.costs, true));
    }
    return known->second;
  }

  int shape_number(TensorId tensor) {
    return shape_numbers_.try_emplace(shapes_[tensor], static_cast<int>(shape_numbers_.size()))
        .first->second;
  }

  // Whether backward of `operation` gives its input `input` a gradient.
  bool gives_gradient(const GraphOperation& operation, TensorId input) const {
    return to_loss_[operation.output] && gradient_[input];
  }

  // Whether backward of `operation` runs at all.
  bool has_backward(const GraphOperation& operation) const {
    return std::any_of(operation.inputs.begin(), operation.inputs.end(),
                       [&](TensorId input) { return gives_gradient(operation, input); });
  }

  // Costs that depend on this operation alone: everything to and from closed tensors, the output's
  // own redistribution, its collectives, and as a tie-breaker its arithmetic on one rank.
  ChoiceCost own_cost(int index, const Candidate& candidate) {
    const GraphOperation& operation = graph_.operations[index];
    ChoiceCost cost;
    for (std::size_t i = 0; i < operation.inputs.size(); ++i) {
      const TensorId input = operation.inputs[i];
      if (graph_.tensors[input].role == TensorRole::value) {
        continue;
      }
      const int stored = closed_[input]->layout;
      cost += bringing(stored, index, static_cast<int>(i), candidate);
      if (gives_gradient(operation, input)) {
        cost += moving(candidate.raw[i], stored, input);
      }
      if (graph_.tensors[input].role == TensorRole::variable && has_backward(operation) &&
          operation.operation->backward_reads(static_cast<int>(i))) {
        cost += bringing(stored, index, static_cast<int>(i), candidate);
      }
    }
    cost += moving(candidate.natural, candidate.settled, operation.output);
    cost += seconds(sum_seconds(layouts_[candidate.natural], mesh_, request_.costs));
    if (gradient_[operation.output] && has_backward(operation) &&
        !shapes_[operation.output].empty()) {
      cost += moving(candidate.settled, intern(layouts_[candidate.natural].without_partial()),
                     operation.output);
    }
    std::vector<Shape> inputs;
    for (const TensorId input : operation.inputs) {
      inputs.push_back(shapes_[input]);
    }
    for (int i = 0; i < static_cast<int>(inputs.size()); ++i) {
      if (has_windows(rules_[index], i) && gives_gradient(operation, operation.inputs[i])) {
        cost += exchange_for(index, i, candidate).back;
      }
    }
    for (const OwnReduction& reduction : operation.operation->own_reductions(rules_[index])) {
      if (!reduction.backward || has_backward(operation)) {
        cost += seconds(own_reduction_seconds(reduction, candidate.split, lengths_[index], mesh_,
                                              request_.costs));
      }
    }
    double parts = 1;
    for (const auto& [letter, axes] : candidate.split) {
      parts *= static_cast<double>(mesh_.size_over(axes));
    }
    cost.tie = static_cast<std::int64_t>(
        operation.operation->flops(inputs, shapes_[operation.output]) / parts);
    return cost;
  }

  // Costs between the operation that makes a tensor and one that uses it.
  std::vector<ChoiceCost> pair_costs(int producer, int consumer, TensorId tensor) {
    const GraphOperation& operation = graph_.operations[consumer];
    std::vector<ChoiceCost> costs;
    costs.reserve(candidates_[producer].size() * candidates_[consumer].size());
    for (const Candidate& from : candidates_[producer]) {
      for (const Candidate& to : candidates_[consumer]) {
        ChoiceCost cost;
        for (std::size_t i = 0; i < operation.inputs.size(); ++i) {
          if (operation.inputs[i] == tensor) {
            cost += bringing(from.settled, consumer, static_cast<int>(i), to);
            if (gives_gradient(operation, tensor)) {
              cost += moving(to.raw[i], from.settled, tensor);
            }
          }
        }
        costs.push_back(cost);
      }
    }
    return costs;
  }

  // The costs of all candidates of an operation by themselves. Where many axes meet many letters,
  // only the candidates that are cheapest by themselves stay.
  std::vector<ChoiceCost> own_costs(int index) {
    std::vector<Candidate>& candidates = candidates_[index];
    std::vector<ChoiceCost> costs;
    for (const Candidate& candidate : candidates) {
      costs.push_back(own_cost(index, candidate));
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

  std::vector<int> choose() {
    ChoiceNetwork network;
    for (int index = 0; index < static_cast<int>(graph_.operations.size()); ++index) {
      network.add_choice(own_costs(index));
    }
    for (TensorId id = 0; id < static_cast<TensorId>(graph_.tensors.size()); ++id) {
      const int producer = graph_.tensors[id].producer;
      if (producer < 0) {
        continue;
      }
      std::set<int> consumers(graph_.tensors[id].consumers.begin(),
                              graph_.tensors[id].consumers.end());
      for (const int consumer : consumers) {
        network.add_pair(producer, consumer, pair_costs(producer, consumer, id));
      }
    }
    return network.cheapest();
  }

  // ---- result --------------------------------------------------------------------------------

  void write_tensors(Plan& plan, const std::vector<int>& chosen) {
    for (TensorId id = 0; id < static_cast<TensorId>(graph_.tensors.size()); ++id) {
      PlannedTensor tensor;
      tensor.gradient = gradient_[id];
      if (closed_[id]) {
        tensor.layout = layouts_[closed_[id]->layout];
        tensor.reason = closed_[id]->reason;
      } else {
        const int producer = graph_.tensors[id].producer;
        tensor.layout = layouts_[candidates_[producer][chosen[producer]].settled];
        tensor.reason = "by rule";
      }
      plan.tensors.push_back(std::move(tensor));
    }
  }

  void write_operations(Plan& plan, const std::vector<int>& chosen) {
    std::int64_t total = 0;
    for (int index = 0; index < static_cast<int>(graph_.operations.size()); ++index) {
      const GraphOperation& operation = graph_.operations[index];
      const Candidate& candidate = candidates_[index][chosen[index]];
      PlannedOperation planned;
      planned.operation = operation.operation;
      planned.inputs = operation.inputs;
      planned.output = operation.output;
      planned.path = operation.path;
      planned.rule = rules_[index];
      planned.split = candidate.split;
      planned.natural = layouts_[candidate.natural];
      for (std::size_t i = 0; i < operation.inputs.size(); ++i) {
        planned.needed.push_back(layouts_[candidate.needed[i]]);
        planned.raw.push_back(layouts_[candidate.raw[i]]);
        planned.gradient.push_back(gives_gradient(operation, operation.inputs[i]));
      }
      total += own_cost(index, candidate).cost;
      for (const TensorId input :
           std::set<TensorId>(operation.inputs.begin(), operation.inputs.end())) {
        const int producer = graph_.tensors[input].producer;
        if (producer >= 0) {
          const Candidate& from = candidates_[producer][chosen[producer]];
          for (std::size_t i = 0; i < operation.inputs.size(); ++i) {
            if (operation.inputs[i] == input) {
              total += bringing(from.settled, index, static_cast<int>(i), candidate).cost;
              total += gives_gradient(operation, input)
                           ? moving(candidate.raw[i], from.settled, input).cost
                           : 0;
            }
          }
        }
      }
      plan.operations.push_back(std::move(planned));
    }
    plan.predicted_seconds = static_cast<double>(total) / picoseconds;
  }

  struct Closed {
    int layout;
    std::string reason;
  };

  const PlanRequest& request_;
  const Graph& graph_;
  const MeshShape& mesh_;
  std::vector<Shape> shapes_;
  std::vector<bool> to_loss_;   // by tensor
  std::vector<bool> gradient_;  // by tensor
  std::vector<std::optional<Closed>> closed_;
  std::vector<Axis> in_play_;
  std::set<std::vector<Axis>> orders_;
  std::vector<Rule> rules_;                            // by operation
  std::vector<std::map<char, std::int64_t>> lengths_;  // by operation: of each letter
  std::vector<std::vector<Candidate>> candidates_;
  std::vector<Layout> layouts_;
  std::unordered_map<Layout, int, LayoutHash> numbers_;
  std::map<Shape, int> shape_numbers_;
  std::map<std::tuple<int, int, int>, ChoiceCost> moving_;   // by layouts and shape
  std::map<std::tuple<int, int, int>, Exchange> exchanges_;  // by operation, input, its layout
};

}  // namespace

Plan make_plan(const PlanRequest& request, std::shared_ptr<const Graph> graph) {
  PlanRequest joined = request;
  graph = multiply_images(joined, std::move(graph));
  Plan plan = Planner(joined).plan(std::move(graph));
  fuse(plan);
  return plan;
}

}  // namespace meshwork
