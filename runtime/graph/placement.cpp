#include "runtime/graph/placement.h"

#include <algorithm>
#include <optional>
#include <set>

#include "collectives/element_type.h"
#include "collectives/error.h"
#include "collectives/joined_text.h"
#include "runtime/graph/operations/identity.h"
#include "runtime/mesh/crossing.h"

namespace meshwork {
namespace {

using Coordinates = std::vector<std::int64_t>;

// What a layer takes, at its first operation; nothing at others.
struct LayerWork {
  double seconds = 0;  // of a micro-batch
  double kept = 0;     // bytes of variables, gradients and slots
  double held = 0;     // bytes of outputs, from forward to backward of a micro-batch
};

// By operation.
std::vector<LayerWork> work_of_layers(const PlanRequest& request) {
  // A variable and its slots are read and written. It has a gradient and two slots beside it.
  constexpr double bytes_of_update = 24, bytes_of_element = 16;
  const Graph& graph = *request.graph;
  std::vector<LayerWork> work(graph.operations.size());
  std::vector<bool> counted(graph.tensors.size(), false);
  std::size_t first = 0;
  for (std::size_t o = 0; o < work.size(); ++o) {
    const GraphOperation& operation = graph.operations[o];
    if (operation.layer < 0) continue;  // of a loss, which follows
    if (o == 0 || operation.layer != graph.operations[o - 1].layer) first = o;
    std::vector<Shape> inputs;
    for (const TensorId input : operation.inputs) {
      inputs.push_back(graph.shape_of(input, request.rows));
      if (graph.tensors[input].variable < 0 || counted[input]) continue;
      counted[input] = true;
      const auto elements = static_cast<double>(element_count(inputs.back()));
      work[first].seconds += bytes_of_update * elements / request.costs.bytes_per_second;
      work[first].kept += bytes_of_element * elements;
    }
    const Shape output = graph.shape_of(operation.output, request.rows);
    // Forward, and a gradient for each of two factors.
    work[first].seconds +=
        3 * operation.operation->flops(inputs, output) / request.costs.flops_per_second;
    work[first].held += float32_bytes * static_cast<double>(element_count(output));
  }
  return work;
}

// What balances stages: seconds, and bytes at their price. The micro-batches that a stage holds are
// those of 1f1b.
struct StageCosts {
  std::vector<LayerWork> work;
  std::int64_t stages;
  double seconds_per_byte;
  [[nodiscard]] double at(std::size_t operation, std::int64_t stage) const {
    const auto& [seconds, kept, held] = work[operation];
    const auto batches = static_cast<double>(std::max<std::int64_t>(stages - stage, 1));
    return seconds + seconds_per_byte * (kept + batches * held);
  }
};

// How many runs there are if none costs more than `most`.
std::int64_t runs_within(double most, const StageCosts& costs) {
  std::int64_t stage = 0;
  double run = 0;
  for (std::size_t o = 0; o < costs.work.size(); ++o) {
    if (run > 0 && run + costs.at(o, stage) > most) {
      ++stage;
      run = 0;
    }
    run += costs.at(o, stage);
  }
  return stage + 1;
}

// By operation: its stage. Each of `stages` is a run of layers, the dearest as cheap as can be.
std::vector<std::int64_t> balanced_stages(const PlanRequest& request, std::int64_t stages) {
  const StageCosts costs{work_of_layers(request), stages, request.costs.seconds_per_held_byte};
  double low = 0, high = 0;
  std::int64_t layers_left = 0;
  for (std::size_t o = 0; o < costs.work.size(); ++o) {
    low = std::max(low, costs.at(o, stages - 1));
    high += costs.at(o, 0);
    if (costs.at(o, 0) > 0) ++layers_left;
  }
  for (int step = 0; step < 60 && low < high; ++step) {
    const double middle = low + (high - low) / 2;
    (runs_within(middle, costs) <= stages ? high : low) = middle;
  }
  std::vector<std::int64_t> all;
  std::int64_t stage = 0;
  double run = 0;
  for (std::size_t o = 0; o < costs.work.size(); ++o) {
    const bool works = costs.at(o, stage) > 0;
    // No stage stays empty while a later one could have a layer.
    const bool last_chance = works && layers_left <= stages - 1 - stage;
    if (run > 0 && stage + 1 < stages && (run + costs.at(o, stage) > high || last_chance)) {
      ++stage;
      run = 0;
    }
    if (works) --layers_left;
    run += costs.at(o, stage);
    all.push_back(stage);
  }
  return all;
}

// Where operations are on one axis, by coordinates or by stages; nothing for those of which that is not
// known.
class OnAxis {
 public:
  OnAxis(const PlanRequest& request, Axis axis) : graph_(*request.graph) {
    const bool staged = request.staged && request.staged->axis == axis;
    const bool balanced = staged && request.staged->balanced;
    const std::int64_t everywhere = request.mesh.size(axis) * (staged ? request.staged->chunks : 1);
    const std::vector<std::int64_t> stages =
        balanced ? balanced_stages(request, everywhere) : std::vector<std::int64_t>();
    for (const GraphOperation& operation : graph_.operations) {
      std::optional<Coordinates>& at = at_.emplace_back();
      const bool works = !passes_on(*operation.operation);
      if (operation.layer >= 0 && works && balanced) {
        at = Coordinates{stages[at_.size() - 1]};
      } else if (operation.layer >= 0 && works) {
        const auto placed = request.placed.find(graph_.layers[operation.layer].path);
        if (placed != request.placed.end()) at = coordinates(placed->second, axis);
      }
      if (!at) at = last_read(operation);
    }
    for (std::size_t o = at_.size(); o-- > 0;) {
      if (!at_[o]) at_[o] = read_at(graph_.operations[o]);
      if (at_[o] && std::ssize(*at_[o]) == everywhere) at_[o].reset();
    }
  }

  [[nodiscard]] const std::optional<Coordinates>& of(std::size_t operation) const {
    return at_[operation];
  }

 private:
  static std::optional<Coordinates> coordinates(const Places& places, Axis axis) {
    const auto found = std::ranges::find(places, axis, &Place::axis);
    return found == places.end() ? std::nullopt : std::optional(found->coordinates);
  }

  // Of what it reads, the last place.
  [[nodiscard]] std::optional<Coordinates> last_read(const GraphOperation& operation) const {
    std::optional<Coordinates> last;
    for (const TensorId input : operation.inputs) {
      const int producer = graph_.tensors[input].producer;
      if (producer < 0 || !at_[producer]) continue;
      if (!last || at_[producer]->back() > last->back()) last = at_[producer];
    }
    return last;
  }

  // All places of what reads it, unless something reads it everywhere.
  [[nodiscard]] std::optional<Coordinates> read_at(const GraphOperation& operation) const {
    std::set<std::int64_t> all;
    for (const int consumer : graph_.tensors[operation.output].consumers) {
      if (!at_[consumer]) return std::nullopt;
      all.insert(at_[consumer]->begin(), at_[consumer]->end());
    }
    return all.empty() ? std::nullopt : std::optional(Coordinates(all.begin(), all.end()));
  }

  const Graph& graph_;
  std::vector<std::optional<Coordinates>> at_;  // by operation
};

}  // namespace

bool passes_on(const Operation& operation) {
  return dynamic_cast<const IdentityOperation*>(&operation) != nullptr;
}

Placement placement_of(const PlanRequest& request) {
  const std::size_t operations = request.graph->operations.size();
  Placement all{std::vector<Places>(operations), std::vector<Coordinates>(operations)};
  for (const Axis axis : request.placing) {
    const std::int64_t size = request.mesh.size(axis);
    if (size == 1) continue;
    const bool staged = request.staged && request.staged->axis == axis;
    const OnAxis on(request, axis);
    for (std::size_t o = 0; o < operations; ++o) {
      if (!on.of(o)) continue;
      std::set<std::int64_t> coordinates;
      for (const std::int64_t at : *on.of(o)) coordinates.insert(staged ? at % size : at);
      if (staged) all.stages[o] = *on.of(o);
      if (std::ssize(coordinates) < size) {
        all.places[o].push_back({axis, {coordinates.begin(), coordinates.end()}});
      }
    }
  }
  return all;
}

std::int64_t layers_that_work(const PlanRequest& request) {
  return std::ranges::count_if(work_of_layers(request),
                               [](const LayerWork& work) { return work.seconds > 0; });
}

void place(Plan& plan, const PlanRequest& request) {
  const Placement placement = placement_of(request);
  std::vector<std::optional<Places>> read(plan.tensors.size());  // by tensor: where
  std::set<Axis> axes;
  for (std::size_t o = 0; o < plan.operations.size(); ++o) {
    PlannedOperation& planned = plan.operations[o];
    const Places& places = placement.places[o];
    for (const Place& place : places) axes.insert(place.axis);
    planned.natural.places = places;
    planned.stages = placement.stages[o];
    plan.tensors[planned.output].layout.places = places;
    for (std::size_t i = 0; i < planned.inputs.size(); ++i) {
      planned.needed[i].places = planned.raw[i].places = places;
      std::optional<Places>& at = read[planned.inputs[i]];
      at = at ? joined(*at, places) : places;
    }
  }
  plan.placing.assign(axes.begin(), axes.end());
  if (request.staged && request.mesh.size(request.staged->axis) > 1) plan.staged = request.staged;
  for (std::size_t id = 0; id < plan.tensors.size(); ++id) {
    const GraphTensor& tensor = plan.graph->tensors[id];
    PlannedTensor& planned = plan.tensors[id];
    if (tensor.role == TensorRole::value) {
      planned.read_at = read[id] ? joined(*read[id], planned.layout.places) : planned.layout.places;
    } else if (read[id] && !tensor.shape.empty()) {  // a number by itself is held everywhere
      planned.layout = planned.layout.at(*read[id]).canonical(plan.mesh);
    }
  }
}

Pipeline Plan::pipeline(std::int64_t micro_batches) const {
  return staged ? Pipeline{mesh.size(staged->axis), staged->chunks, micro_batches}
                : Pipeline{1, 1, micro_batches};
}

std::int64_t stage_on(const Plan& plan, const PlannedOperation& planned, std::int64_t rank) {
  if (!includes(planned.natural.places, plan.mesh, rank)) return -1;
  if (!plan.staged) return 0;
  const std::int64_t ranks = plan.mesh.size(plan.staged->axis);
  const std::int64_t coordinate = plan.mesh.coordinate(rank, plan.staged->axis);
  const auto first = std::ranges::find_if(
      planned.stages, [&](std::int64_t stage) { return stage % ranks == coordinate; });
  return first == planned.stages.end() ? coordinate : *first;
}

void check_stages(const Plan& plan) {
  if (!plan.staged) return;
  if (std::ranges::find(plan.placing, plan.staged->axis) == plan.placing.end()) {
    fail("the axis \"{}\" has no stages: `place` puts no layer at some of its coordinates only",
         plan.mesh.name(plan.staged->axis));
  }
  // Whether what `from` gives goes to an earlier stage of `to`, or to a later one.
  const auto goes = [&](const PlannedOperation& from, const PlannedOperation& to, bool back) {
    for (std::int64_t part = 0; part < plan.mesh.size_over(plan.placing); ++part) {
      const std::int64_t rank = plan.mesh.neighbour(0, plan.placing, part);
      const std::int64_t stage = stage_on(plan, to, rank);
      if (stage < 0) continue;
      const Crossing crossing =
          crossing_of(from.natural.places, to.natural.places, plan.mesh, rank);
      const std::int64_t sender =
          crossing.receives_from < 0
              ? rank
              : plan.mesh.neighbour(rank, crossing.axes, crossing.receives_from);
      const std::int64_t at = stage_on(plan, from, sender);
      if (back ? at > stage : at < stage) return true;
    }
    return false;
  };
  std::vector<const PlannedOperation*> makers(plan.tensors.size(), nullptr);
  const std::int64_t stages = plan.pipeline(1).stages();
  for (const PlannedOperation& planned : plan.operations) {
    makers[planned.output] = &planned;
    for (std::size_t i = 0; i < planned.inputs.size(); ++i) {
      const PlannedOperation* const maker = makers[planned.inputs[i]];
      if (maker == nullptr) continue;
      const auto text = [&](const PlannedOperation& of) {
        if (of.stages.empty() || std::ssize(of.stages) == stages) {
          return std::string("every stage");
        }
        return fmt::format("stage{} {}", of.stages.size() == 1 ? "" : "s",
                           joined_text(of.stages, ", "));
      };
      if (goes(*maker, planned, true)) {
        fail(
            "{} at {} reads the output of {} at {}; values of a pipeline go forward along its "
            "stages",
            planned.path, text(planned), maker->path, text(*maker));
      }
      if (planned.gradient[i] && goes(planned, *maker, false)) {
        fail(
            "{} at {} gives a gradient to the output of {} at {}; gradients of a pipeline go back "
            "along its stages",
            planned.path, text(planned), maker->path, text(*maker));
      }
    }
  }
}

}  // namespace meshwork
