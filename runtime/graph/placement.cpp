#include "runtime/graph/placement.h"

#include <algorithm>
#include <optional>
#include <set>

#include "collectives/error.h"
#include "runtime/graph/operations/identity.h"
#include "runtime/mesh/crossing.h"

namespace meshwork {
namespace {

using Coordinates = std::vector<std::int64_t>;

// What layers take in a step, by operation: that of the whole layer, at its first operation.
std::vector<double> seconds_of_layers(const PlanRequest& request) {
  // A variable and its slots are read and written.
  constexpr double bytes_of_update = 24;
  const Graph& graph = *request.graph;
  std::vector<double> seconds(graph.operations.size(), 0);
  std::vector<bool> counted(graph.tensors.size(), false);
  std::size_t first = 0;
  for (std::size_t o = 0; o < seconds.size(); ++o) {
    const GraphOperation& operation = graph.operations[o];
    if (operation.layer < 0) continue;  // of a loss, which follows
    if (o == 0 || operation.layer != graph.operations[o - 1].layer) first = o;
    std::vector<Shape> inputs;
    for (const TensorId input : operation.inputs) {
      inputs.push_back(graph.shape_of(input, request.rows));
      if (graph.tensors[input].variable < 0 || counted[input]) continue;
      counted[input] = true;
      seconds[first] += bytes_of_update * static_cast<double>(element_count(inputs.back())) /
                        request.costs.bytes_per_second;
    }
    // Forward, and a gradient for each of two factors.
    seconds[first] +=
        3 * operation.operation->flops(inputs, graph.shape_of(operation.output, request.rows)) /
        request.costs.flops_per_second;
  }
  return seconds;
}

// How many runs there are if none takes longer than `most`.
std::int64_t runs_within(double most, const std::vector<double>& seconds) {
  std::int64_t runs = 1;
  double run = 0;
  for (const double own : seconds) {
    if (run > 0 && run + own > most) {
      ++runs;
      run = 0;
    }
    run += own;
  }
  return runs;
}

// By operation: its stage. Each of `stages` is a run of layers, the longest as short as can be.
std::vector<std::int64_t> balanced_stages(const PlanRequest& request, std::int64_t stages) {
  const std::vector<double> seconds = seconds_of_layers(request);
  double low = 0, high = 0;
  for (const double own : seconds) {
    low = std::max(low, own);
    high += own;
  }
  for (int step = 0; step < 60 && low < high; ++step) {
    const double middle = low + (high - low) / 2;
    (runs_within(middle, seconds) <= stages ? high : low) = middle;
  }
  std::vector<std::int64_t> all;
  std::int64_t stage = 0;
  double run = 0;
  auto layers_left = std::ranges::count_if(seconds, [](double own) { return own > 0; });
  for (const double own : seconds) {
    // No stage stays empty while a later one could have a layer.
    const bool last_chance = own > 0 && layers_left <= stages - 1 - stage;
    if (run > 0 && stage + 1 < stages && (run + own > high || last_chance)) {
      ++stage;
      run = 0;
    }
    if (own > 0) --layers_left;
    run += own;
    all.push_back(stage);
  }
  return all;
}

// Where operations are on one axis; nothing for those of which that is not known.
class OnAxis {
 public:
  OnAxis(const PlanRequest& request, Axis axis) : graph_(*request.graph) {
    const auto everywhere = static_cast<std::size_t>(request.mesh.size(axis));
    const std::vector<std::int64_t> stages = request.balanced == axis
                                                 ? balanced_stages(request, request.mesh.size(axis))
                                                 : std::vector<std::int64_t>();
    for (const GraphOperation& operation : graph_.operations) {
      std::optional<Coordinates>& at = at_.emplace_back();
      // What only passes a value on, such as the end of a block, is where the value is.
      const bool works =
          dynamic_cast<const IdentityOperation*>(operation.operation.get()) == nullptr;
      if (operation.layer >= 0 && works && request.balanced == axis) {
        at = Coordinates{stages[at_.size() - 1]};
      } else if (operation.layer >= 0 && works) {
        const auto placed = request.placed.find(graph_.layers[operation.layer].path);
        if (placed != request.placed.end()) at = coordinates(placed->second, axis);
      }
      if (!at) at = last_read(operation);
    }
    for (std::size_t o = at_.size(); o-- > 0;) {
      if (!at_[o]) at_[o] = read_at(graph_.operations[o]);
      if (at_[o] && at_[o]->size() == everywhere) at_[o].reset();
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

std::vector<Places> places_of_operations(const PlanRequest& request) {
  std::vector<Places> places(request.graph->operations.size());
  for (const Axis axis : request.placing) {
    if (request.mesh.size(axis) == 1) continue;
    const OnAxis on(request, axis);
    for (std::size_t o = 0; o < places.size(); ++o) {
      if (on.of(o)) places[o].push_back({axis, *on.of(o)});
    }
  }
  return places;
}

void place(Plan& plan, const std::vector<Places>& places) {
  std::vector<std::optional<Places>> read(plan.tensors.size());  // by tensor: where
  std::set<Axis> axes;
  for (std::size_t o = 0; o < plan.operations.size(); ++o) {
    PlannedOperation& planned = plan.operations[o];
    for (const Place& place : places[o]) axes.insert(place.axis);
    planned.natural.places = places[o];
    plan.tensors[planned.output].layout.places = places[o];
    for (std::size_t i = 0; i < planned.inputs.size(); ++i) {
      planned.needed[i].places = planned.raw[i].places = places[o];
      std::optional<Places>& at = read[planned.inputs[i]];
      at = at ? joined(*at, places[o]) : places[o];
    }
  }
  plan.placing.assign(axes.begin(), axes.end());
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

void check_stages(const Plan& plan, const StepWalk& walk) {
  if (walk.stages.empty()) return;
  const Axis axis = plan.mesh.axis(walk.stages);
  if (plan.mesh.size(axis) == 1) return;
  if (std::ranges::find(plan.placing, axis) == plan.placing.end()) {
    fail("the axis \"{}\" has no stages: `place` puts no layer on it", walk.stages);
  }
  // Whether something goes back along the axis, or forward, on its way between these places.
  const auto goes = [&](const Places& from, const Places& to, bool back) {
    for (std::int64_t part = 0; part < plan.mesh.size_over(plan.placing); ++part) {
      const std::int64_t rank = plan.mesh.neighbour(0, plan.placing, part);
      const Crossing crossing = crossing_of(from, to, plan.mesh, rank);
      if (crossing.receives_from < 0) continue;
      const std::int64_t sender = plan.mesh.neighbour(rank, crossing.axes, crossing.receives_from);
      const std::int64_t at = plan.mesh.coordinate(sender, axis);
      const std::int64_t stage = plan.mesh.coordinate(rank, axis);
      if (back ? at > stage : at < stage) return true;
    }
    return false;
  };
  std::vector<const PlannedOperation*> makers(plan.tensors.size(), nullptr);
  for (const PlannedOperation& planned : plan.operations) {
    makers[planned.output] = &planned;
    for (std::size_t i = 0; i < planned.inputs.size(); ++i) {
      const PlannedOperation* const maker = makers[planned.inputs[i]];
      if (maker == nullptr) continue;
      const Places &from = maker->natural.places, &to = planned.natural.places;
      const auto text = [&](const Places& places) {
        return places.empty() ? "every stage" : to_string(places, plan.mesh);
      };
      if (goes(from, to, true)) {
        fail("{} at {} reads what {} makes at {}: values of a pipeline go forward along its axis",
             planned.path, text(to), maker->path, text(from));
      }
      if (planned.gradient[i] && goes(to, from, false)) {
        fail(
            "{} at {} gives a gradient to what {} makes at {}: gradients of a pipeline go back "
            "along "
            "its axis",
            planned.path, text(to), maker->path, text(from));
      }
    }
  }
}

}  // namespace meshwork
