#include "runtime/train/blueprint.h"

#include <algorithm>
#include <set>
#include <utility>

#include "collectives/error.h"
#include "runtime/config/nearest.h"
#include "runtime/graph/placement.h"
#include "runtime/mesh/path_pattern.h"
#include "runtime/train/engine/feed_ring.h"

namespace meshwork {
namespace {

// What `layouts` closes in `graph`.
std::map<TensorId, ClosedLayout> closed_by(const LayoutMap& layouts, const Graph& graph,
                                           UnmatchedLayouts unmatched,
                                           std::vector<std::string>& warnings) {
  constexpr int mistakes_told = 3;  // of a key; a deep model repeats them in each block
  std::map<TensorId, ClosedLayout> closed;
  std::map<std::pair<std::string, std::string>, int> mistakes;  // by origin and key
  std::string messages;
  const auto add = [&](const std::string& message) {
    messages += (messages.empty() ? "" : "\n") + message;
  };
  const std::vector<std::string> paths = graph.layout_paths();
  for (const std::string& path : paths) {
    const std::optional<LayoutMatch> match = layouts.find(path);
    if (!match) {
      continue;
    }
    const TensorId tensor = graph.find(path);
    try {
      const Layout layout = layouts.resolve(*match, path, graph.tensors[tensor].shape);
      closed[tensor] = {layout, match->chosen ? match->origin
                                : match->origin.empty()
                                    ? fmt::format("key {}", match->key)
                                    : fmt::format("key {} ({})", match->key, match->origin)};
    } catch (const Error& error) {
      if (++mistakes[{match->origin, match->key}] <= mistakes_told) add(error.what());
    }
  }
  for (const auto& [from, count] : mistakes) {
    if (count <= mistakes_told) continue;
    const auto& [origin, key] = from;
    const int more = count - mistakes_told;
    add(fmt::format("{}layout key \"{}\" does not fit {} more tensor{} either", before(origin), key,
                    more, more == 1 ? "" : "s"));
  }
  for (const UnmatchedKey& key : layouts.unmatched(paths)) {
    if (unmatched == UnmatchedLayouts::warn) {
      warnings.push_back(key.message);
    } else {
      add(key.message);
    }
  }
  if (!messages.empty()) {
    throw Error(messages);
  }
  return closed;
}

// "1 to 4, 6" of ascending numbers.
std::string runs_text(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (std::size_t begin = 0, end = 0; begin < numbers.size(); begin = end) {
    for (end = begin + 1; end < numbers.size() && numbers[end] == numbers[end - 1] + 1;) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", numbers[begin]);
    if (end - begin > 1) text += fmt::format(" to {}", numbers[end - 1]);
  }
  return text;
}

// The indices at which `all` is false.
std::vector<std::int64_t> indices_without(const std::vector<bool>& all) {
  std::vector<std::int64_t> without;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i]) without.push_back(static_cast<std::int64_t>(i));
  }
  return without;
}

// Warns of stages or coordinates of `axis` at which `placed` has no layer, and of places that only
// a larger mesh would leave without.
void warn_of_unused_places(const std::map<std::string, Places>& placed, const PlaceMap& places,
                           const MeshShape& mesh, Axis axis, std::vector<std::string>& warnings) {
  const auto& staged = places.staged();
  const bool is_staged = staged && staged->axis == axis;
  if (is_staged && staged->balanced) return;
  const std::int64_t size = mesh.size(axis) * (is_staged ? staged->chunks : 1);
  const std::string& name = mesh.name(axis);
  const std::vector<std::int64_t> unnamed = places.unnamed_on(name);
  const std::int64_t named = places.places_on(name);
  if (!unnamed.empty() && named > size) {
    warnings.push_back(
        fmt::format("`place` names places 0 to {} of the axis \"{}\", and puts no layer at {}",
                    named - 1, name, runs_text(unnamed)));
  }
  if (mesh.size(axis) == 1) return;
  std::vector<bool> used(static_cast<std::size_t>(size), false);
  std::vector<bool> works(static_cast<std::size_t>(mesh.size(axis)), false);
  for (const auto& [path, at] : placed) {
    const auto place = std::ranges::find(at, axis, &Place::axis);
    if (place == at.end()) continue;
    for (const std::int64_t one : place->coordinates) {
      used[static_cast<std::size_t>(one)] = true;
      works[static_cast<std::size_t>(one % mesh.size(axis))] = true;
    }
  }
  const std::vector<std::int64_t> unused = indices_without(used), idle = indices_without(works);
  if (unused.empty()) return;
  std::string of_ranks;
  if (!idle.empty()) {
    of_ranks =
        fmt::format(": the ranks {} have little or nothing to do",
                    idle == unused ? "there" : fmt::format("at {}={}", name, runs_text(idle)));
  }
  warnings.push_back(fmt::format("no layer is placed at {} of the {} {} of the axis \"{}\", {}{}",
                                 unused.size(), size, is_staged ? "stages" : "coordinates", name,
                                 runs_text(unused), of_ranks));
}

}  // namespace

std::vector<OutputTraining> training_of_outputs(const CompileOptions& options, const Graph& model) {
  const std::vector<std::string> names = output_names(model);
  if (options.outputs.empty()) {
    if (names.size() > 1) {
      fail(
          "the model has {} outputs, {}, and one loss; expected a loss for each "
          "(CompileOptions::outputs)",
          names.size(), quoted_list(names));
    }
    return {{.loss = options.loss, .metrics = options.metrics}};
  }
  if (options.loss || !options.metrics.empty()) {
    fail("a loss or metrics are given beside those of outputs by their names; give one of the two");
  }
  std::vector<OutputTraining> outputs;
  for (const std::string& name : names) {
    const auto found = options.outputs.find(name);
    if (found == options.outputs.end()) {
      fail("of the model's output \"{}\" it is not said what it is trained by", name);
    }
    outputs.push_back(found->second);
  }
  for (const auto& [name, training] : options.outputs) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      fail("the model has no output \"{}\"; it has {}{}", name, quoted_list(names),
           did_you_mean(name, names));
    }
  }
  return outputs;
}

void Blueprint::place(const PlaceMap& places) {
  const MeshShape& mesh = spread.mesh;
  spread.placing = places.axes();
  spread.staged = places.staged();
  std::string messages;
  const auto add = [&](const std::string& message) {
    messages += (messages.empty() ? "" : "\n") + message;
  };
  std::vector<std::string> paths;
  for (const GraphLayer& layer : graph->layers) {
    // A block is what its layers are called by.
    for (std::size_t end = layer.path.find('/'); end != std::string::npos;
         end = layer.path.find('/', end + 1)) {
      paths.push_back(layer.path.substr(0, end));
    }
    paths.push_back(layer.path);
    if (Places at = places.find(layer.path); !at.empty()) spread.placed[layer.path] = std::move(at);
  }
  std::ranges::sort(paths);
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  for (const UnmatchedKey& key : places.unmatched(paths)) add(key.message);
  const auto add_staged = [&](const std::string& message) {
    add((places.staged_origin().empty() ? "" : places.staged_origin() + ": ") + message);
  };
  const auto& staged = spread.staged;
  if (staged && !std::ranges::binary_search(spread.placing, staged->axis)) {
    std::vector<std::string> names;
    for (const Axis axis : spread.placing) names.push_back(mesh.name(axis));
    add_staged(fmt::format(
        "the axis \"{}\" has no stages: `place` puts no layer at some of its coordinates only{}",
        mesh.name(staged->axis),
        names.empty() ? "" : fmt::format("; it names {}", quoted_list(names))));
  } else if (staged && (staged->chunks > 1 || staged->balanced) && mesh.size(staged->axis) > 1) {
    PlanRequest layers = spread;
    layers.graph = graph.get();
    const std::int64_t stages = mesh.size(staged->axis) * staged->chunks;
    const std::int64_t most =
        staged->balanced ? layers_that_work(layers) : std::ssize(graph->layers);
    if (stages > most) {
      add_staged(fmt::format(
          "{} stage{} at each of the {} coordinates of \"{}\": {} in all, and the model has {} "
          "layer{}{}; take fewer ranks of the axis{}",
          staged->chunks, staged->chunks == 1 ? "" : "s", mesh.size(staged->axis),
          mesh.name(staged->axis), stages, most, most == 1 ? "" : "s",
          staged->balanced ? " that take time" : "",
          staged->chunks == 1 ? "" : ", or fewer chunks"));
    }
  }
  for (const Axis axis : spread.placing) {
    warn_of_unused_places(spread.placed, places, mesh, axis, warnings);
  }
  for (const Axis axis : spread.placing) {
    if (spread.batch_axis == axis) {
      add(fmt::format(
          "the axis \"{}\" places layers and splits batches; `batch_axis` names another, "
          "or ~ for none",
          mesh.name(axis)));
    }
    for (const auto& [tensor, closed] : spread.closed) {
      if (closed.layout.dimension_of(axis) < 0) continue;
      add(fmt::format("{}: the axis \"{}\" places layers, so it can split no dimension ({})",
                      graph->tensors[tensor].path, mesh.name(axis), closed.reason));
    }
  }
  if (!messages.empty()) throw Error(messages);
}

Blueprint::Blueprint(std::shared_ptr<const Graph> of_layers, const LayoutMap& layouts,
                     std::optional<Axis> batch_axis, UnmatchedLayouts unmatched,
                     ModelOptions model_options, std::optional<CompileOptions> compile_options)
    : graph(std::move(of_layers)),
      spread{.mesh = layouts.mesh(),
             .batch_axis = batch_axis,
             .closed = closed_by(layouts, *graph, unmatched, warnings)},
      options(std::move(model_options)),
      compiled(std::move(compile_options)) {}

PlanRequest Blueprint::request(const Objective& objective, std::int64_t rows) const {
  PlanRequest request = spread;
  request.graph = objective.graph.get();
  request.losses = objective.losses;
  request.rows = rows;
  return request;
}

void Blueprint::draw(const std::optional<LossData>& data, std::int64_t rows) {
  const bool joined = compiled && data;
  if (planned && planned->rows == rows &&
      (joined ? planned->objective.is_for(*data) : planned->objective.targets.empty())) {
    return;
  }
  Objective objective = joined
                            ? with_objective(*graph, training_of_outputs(*compiled, *graph), *data)
                            : without_objective(graph);
  Plan plan = make_plan(request(objective, rows), objective.graph);
  planned = {std::move(objective), rows, std::move(plan)};
}

void Blueprint::draw_within(std::int64_t limit, const std::optional<LossData>& data,
                            std::int64_t rows,
                            const std::function<std::int64_t(const Plan&)>& bytes_of) {
  if (planned && planned->limit && planned->limit != limit) planned.reset();
  draw(data, rows);
  if (planned->limit) return;
  Planned drawn = *std::exchange(planned, std::nullopt);
  const Objective& objective = drawn.objective;
  drawn.plan = plan_within(limit, std::move(drawn.plan), request(objective, rows), objective.graph,
                           bytes_of);
  drawn.limit = limit;
  planned = std::move(drawn);
}

PlanReport report_run(const Plan& plan, const Source& source, Mode mode, std::int64_t rows,
                      std::int64_t rank, const std::optional<CompileOptions>& compiled,
                      Precision precision, const DeviceTraits& device, const StepWalk& walk,
                      bool compares) {
  const Graph& graph = *plan.graph;
  std::map<TensorId, ElementType> fed;
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    fed[graph.inputs[i]] = source.field(static_cast<int>(i)).type;
  }
  int target = 0;
  for (std::size_t tensor = 0; tensor < graph.tensors.size(); ++tensor) {
    if (graph.tensors[tensor].role != TensorRole::target) continue;
    if (graph.tensors[tensor].path == weights_name) {
      // Where the data have none, they are made (with_equal_weights).
      const auto weights = source.weights_field();
      fed[static_cast<TensorId>(tensor)] =
          weights ? source.field(*weights).type : ElementType::float32;
    } else if (target < source.target_count()) {
      fed[static_cast<TensorId>(tensor)] = source.field(source.feature_count() + target++).type;
    }
  }
  PlanReport report =
      report_plan(plan, mode, rows, rank, compiled ? compiled->update_rule() : UpdateRule{}, fed,
                  precision, device, walk, compares);
  if (!device.computes_in_host_memory) {
    for (const ReportedTensor& tensor : report.fed) {
      report.ahead_bytes += FeedRing::bytes_ahead(tensor.bytes);
    }
  }
  return report;
}

void draw_within(const ByteCount& memory, Blueprint& blueprint, const Source& source,
                 const std::optional<LossData>& data, std::int64_t rows, const StepWalk& walk,
                 const DeviceTraits& device) {
  blueprint.draw_within(memory.bytes, data, walk.rows_at_once(rows), [&](const Plan& plan) {
    const std::int64_t ranks = plan.mesh.rank_count();
    std::int64_t most = 0;
    std::set<std::int64_t> asked;
    for (const std::int64_t rank : {std::int64_t{0}, ranks / 2, ranks - 1}) {
      for (std::int64_t part = 0; part < plan.mesh.size_over(plan.placing); ++part) {
        asked.insert(plan.mesh.neighbour(rank, plan.placing, part));
      }
    }
    for (const std::int64_t rank : asked) {
      most = std::max(most, report_run(plan, source, Mode::train, rows, rank, blueprint.compiled,
                                       blueprint.options.precision, device, walk, false)
                                .peak_bytes());
    }
    return most;
  });
}

std::optional<LossData> loss_data_of(const Source& source) {
  if (source.target_count() == 0) {
    return std::nullopt;
  }
  LossData data;
  for (int target = 0; target < source.target_count(); ++target) {
    data.targets.push_back(source.field(source.feature_count() + target).shape);
  }
  if (const auto field = source.weights_field()) {
    data.weights = source.field(*field).shape;
    // One weight a sample, however it is written.
    if (element_count(*data.weights) == 1) data.weights->clear();
  }
  return data;
}

std::optional<LossData> loss_data_of(const Source& training, const Source* validation,
                                     const ClassWeights& class_weight) {
  std::optional<LossData> data = loss_data_of(training);
  if (!data) return data;
  if (training.readable()) {
    data->class_weight = numbered(class_weight, training.texts_of(training.feature_count()));
  } else if (!class_weight.empty()) {
    data->class_weight[0] = 1;  // which classes there are is not known, but that they weigh is
  }
  if (!data->weights && validation != nullptr) {
    if (const auto validated = loss_data_of(*validation)) data->weights = validated->weights;
  }
  return data;
}

}  // namespace meshwork
