#include "runtime/graph/candidates.h"

#include <algorithm>
#include <string>

#include "runtime/graph/spread.h"

namespace meshwork {
namespace {

// The letter that stands for the batch, or 0.
char batch_letter(const PlanningProblem& problem, int index) {
  const std::vector<TensorId>& inputs = problem.graph->operations[index].inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (problem.graph->tensors[inputs[i]].batched()) {
      return problem.rules[index].inputs[i].front();
    }
  }
  return 0;
}

// Whether the user laid out the tensor so that the batch axis does not split its batch.
bool mixes_batch(const PlanningProblem& problem, TensorId id) {
  const PlanRequest& request = *problem.request;
  const auto found = request.closed.find(id);
  if (found == request.closed.end() || !problem.graph->tensors[id].batched()) {
    return false;
  }
  const std::vector<Axis>& rows = found->second.layout.dimensions[0];
  return std::find(rows.begin(), rows.end(), *request.batch_axis) == rows.end();
}

bool batch_axis_is_free(const PlanningProblem& problem, const GraphOperation& operation) {
  const TensorId layer_output =
      operation.layer >= 0 ? problem.graph->layers[operation.layer].output : operation.output;
  return mixes_batch(problem, operation.output) ||
         (layer_output >= 0 && mixes_batch(problem, layer_output)) ||
         std::any_of(operation.inputs.begin(), operation.inputs.end(),
                     [&](TensorId input) { return mixes_batch(problem, input); });
}

// By axis in play: the letters that it may split, with 0 for none of them.
std::vector<std::string> options_of(const PlanningProblem& problem, int index) {
  const Rule& rule = problem.rules[index];
  std::string letters;
  for (const auto& [letter, length] : problem.lengths[index]) {
    if (length > 1 && rule.whole.find(letter) == std::string::npos) {
      letters += letter;
    }
  }
  const std::string none(1, '\0');
  const std::optional<Axis> batch_axis = problem.request->batch_axis;
  const char batch = batch_letter(problem, index);
  const bool bound =
      batch_axis && batch != 0 && !batch_axis_is_free(problem, problem.graph->operations[index]);
  std::vector<std::string> options;
  for (const Axis axis : problem.in_play) {
    if (bound && axis == *batch_axis) {
      const bool splittable = letters.find(batch) != std::string::npos;
      options.push_back(splittable ? std::string(1, batch) : none);
    } else {
      options.push_back(none + letters);
    }
  }
  return options;
}

// The split with its axes in mesh order, and in each order that a layout of the user's has them in.
std::vector<Split> orderings(const PlanningProblem& problem, const Split& split) {
  std::vector<Split> all{split};
  for (const auto& [letter, axes] : split) {
    if (axes.size() < 2) {
      continue;
    }
    for (const std::vector<Axis>& order : problem.orders) {
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

// The candidates of one split: its output settled in each possible way.
void settle(PlanningProblem& problem, int index, const Split& split,
            std::vector<Candidate>& candidates) {
  const GraphOperation& operation = problem.graph->operations[index];
  const Rule& rule = problem.rules[index];
  Candidate candidate;
  candidate.split = split;
  for (int i = 0; i < static_cast<int>(operation.inputs.size()); ++i) {
    candidate.needed.push_back(problem.layouts.of(needed_layout(rule, split, i)));
    candidate.raw.push_back(problem.layouts.of(raw_layout(rule, split, i)));
  }
  const Layout natural = natural_layout(rule, split);
  candidate.natural = problem.layouts.of(natural);
  candidate.whole = problem.layouts.of(natural.without_partial());
  if (const auto& closed = problem.closed[operation.output]) {
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
  candidate.settled = candidate.whole;
  candidates.push_back(candidate);
  if (natural.partial.empty()) {
    return;
  }
  for (int d = 0; d < natural.dimension_count(); ++d) {
    if (problem.shapes[operation.output][d] < 2) {
      continue;
    }
    Layout scattered = natural.without_partial();
    scattered.dimensions[d].insert(scattered.dimensions[d].end(), natural.partial.begin(),
                                   natural.partial.end());
    candidate.settled = problem.layouts.of(scattered);
    candidates.push_back(candidate);
  }
}

// Tries every letter for the axis in play that is number `next` and for those after it.
void assign(PlanningProblem& problem, int index, const std::vector<std::string>& options,
            std::size_t next, Split& split, std::vector<Candidate>& candidates) {
  if (next == problem.in_play.size()) {
    for (const Split& ordered : orderings(problem, split)) {
      settle(problem, index, ordered, candidates);
    }
    return;
  }
  for (const char letter : options[next]) {
    if (letter == '\0') {
      assign(problem, index, options, next + 1, split, candidates);
      continue;
    }
    split[letter].push_back(problem.in_play[next]);
    assign(problem, index, options, next + 1, split, candidates);
    split[letter].pop_back();
    if (split[letter].empty()) {
      split.erase(letter);
    }
  }
}

}  // namespace

std::vector<Candidate> candidates_of(PlanningProblem& problem, int index) {
  std::vector<Candidate> candidates;
  Split split;
  assign(problem, index, options_of(problem, index), 0, split, candidates);
  return candidates;
}

}  // namespace meshwork
