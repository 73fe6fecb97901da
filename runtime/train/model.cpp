#include "runtime/train/model.h"

#include <unistd.h>
#include <algorithm>

#include <cstdio>
#include <numeric>
#include <utility>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/fnv1a.h"
#include "collectives/hosted.h"
#include "collectives/nodes.h"
#include "collectives/printable.h"
#include "collectives/rank_names.h"
#include "runtime/config/nearest.h"
#include "runtime/data/array.h"
#include "runtime/device/kernels/products.h"
#include "runtime/device/kernels/step_scalars.h"
#include "runtime/device/node_device.h"
#include "runtime/graph/freeze.h"
#include "runtime/train/model_options.h"
#include "runtime/train/model_state.h"
#include "runtime/train/reporting/terminal.h"
#include "runtime/train/state/adapt.h"

namespace meshwork {
namespace {

std::shared_ptr<const Graph> graph_of(const std::vector<SymbolicTensor>& inputs,
                                      const std::vector<SymbolicTensor>& outputs) {
  return std::make_shared<Graph>(make_graph(inputs, outputs));
}

std::shared_ptr<const Graph> graph_of(const Shape& shape, LayerBlock& block) {
  const std::vector<SymbolicTensor> inputs{Input(shape)};
  return graph_of(inputs, {block.call(inputs)});
}

std::shared_ptr<const Graph> frozen(std::shared_ptr<const Graph> graph,
                                    const std::vector<std::string>& keys) {
  if (keys.empty()) return graph;
  auto copy = std::make_shared<Graph>(*graph);
  for (const std::string& key : keys) freeze(*copy, PathPattern("frozen", key));
  return copy;
}

/// What `make` gives, which the option `name` asks for. An `Error` out of it is that option's.
template <class Make>
auto for_option(const char* name, Make&& make) {
  try {
    return make();
  } catch (const EnvironmentError&) {
    throw;
  } catch (const RanksParted&) {
    throw;
  } catch (const Error& error) {
    throw OptionError(name, error.what());
  }
}

/// What to say of devices that gain nothing from `precision`. Collective. Throws on all ranks if
/// one of them has a device that has no such products at all.
std::vector<std::string> warnings_of(Precision precision, const Communicator& ranks,
                                     Device& device) {
  std::vector<std::string> warnings;
  if (precision == Precision::float32) return warnings;
  const bool is_faster = device.is_faster_in(precision);
  together(ranks, [&] {
    const MatmulSpec product{.m = 1, .n = 1, .k = 1, .precision = precision};
    if (!is_faster) (void)device.compile(product);
  });
  const std::vector<DistinctText> slow =
      distinct_texts(ranks, is_faster ? "" : device.description());
  for (const auto& [description, rank] : slow) {
    if (description.empty()) continue;
    warnings.push_back(fmt::format(
        "warning: {}{} computes products in {} no faster than in float32: numbers are rounded as "
        "asked for, and a step takes as long or longer",
        description,
        slow.size() > 1 ? fmt::format(", of rank {} and those like it,", name_of_rank(rank)) : "",
        name_of(precision)));
  }
  return warnings;
}

/// Of ranks whose device is of the kind `device`.
Settings settings_of(ModelOptions options, const std::string& device) {
  options.device = device;
  Settings settings = settings_of<ModelOptions>(options);
  settings.push_back(setting("frozen", quoted_list(options.frozen)));
  return settings;
}

Settings settings_of(const EvaluateOptions& options, const Source& data) {
  return {setting("batch_size", options.batch_size), setting("samples", data.rows()),
          setting("stop_request", options.stop_request != nullptr)};
}

Blueprint blueprint_of(std::shared_ptr<const Graph> graph, const Distribution& distribution,
                       const ModelOptions& options) {
  const LayoutMap layouts =
      with_strategy(distribution.layouts, distribution.strategy, *graph, distribution.batch_axis);
  Blueprint blueprint(std::move(graph), layouts, distribution.batch_axis,
                      distribution.unmatched_layouts, options);
  blueprint.place(distribution.places);
  return blueprint;
}

// For a model, which has no name: by its first and last layer.
std::string in_words(const Graph& graph) {
  std::string first, last;
  for (const GraphLayer& layer : graph.layers) {
    if (layer.path.find('/') == std::string::npos) {
      first = first.empty() ? layer.path : first;
      last = layer.path;
    }
  }
  return first == last ? fmt::format("the model of \"{}\"", first)
                       : fmt::format("the model from \"{}\" to \"{}\"", first, last);
}

// The layers that have variables, each with its path.
std::map<std::string, Layer*> layers_with_variables(const Graph& graph) {
  std::map<std::string, Layer*> layers, owners;
  for (const GraphLayer& layer : graph.layers) layers[layer.path] = layer.layer.get();
  for (const Variable& variable : graph.variables) {
    // A layer may have parts: "attention/query/kernel".
    std::string path = variable.path;
    while (!layers.contains(path)) {
      const std::size_t end = path.rfind('/');
      if (end == std::string::npos) internal_error("a variable belongs to no layer");
      path.resize(end);
    }
    owners[path] = layers[path];
  }
  return owners;
}

// Ends with the layers that another model has.
void check_layers_are_free(const Graph& graph, const std::string& words) {
  for (const auto& [path, layer] : layers_with_variables(graph)) {
    if (const std::shared_ptr<const std::string> other = layer->model()) {
      fail(
          "the layer \"{}\" is in {} already, and {} would not share its weights; make a layer for "
          "each model",
          path, *other, *other == words ? "a second model of the same layers" : words);
    }
  }
}

std::uint64_t hash_of(std::span<const float> values) {
  return fnv1a(std::as_bytes(values));
}

// The values are compared by their hash.
Settings settings_of(const BatchView& batch) {
  Settings settings{setting("rows", batch.rows)};
  for (std::size_t i = 0; i < batch.inputs.size(); ++i) {
    settings.push_back(setting(fmt::format("hash of input {}", i), hash_of(batch.inputs[i])));
  }
  for (std::size_t i = 0; i < batch.targets.size(); ++i) {
    settings.push_back(setting(fmt::format("hash of target {}", i), hash_of(batch.targets[i])));
  }
  settings.push_back(setting("hash of the weights", hash_of(batch.weights)));
  return settings;
}

Settings settings_of(const CompileOptions& options) {
  Settings settings{setting("loss", options.loss ? options.loss->name() : "none"),
                    setting("optimizer", options.optimizer.class_name())};
  for (const SharedMetric& metric : options.metrics) {
    settings.push_back(setting("metric", metric->name()));
  }
  settings.push_back(setting("gradient_norm", options.gradient_norm));
  for (const auto& [name, output] : options.outputs) {
    const std::string of = fmt::format(" of {}", name);
    settings.push_back(setting("loss" + of, output.loss ? output.loss->name() : "none"));
    settings.push_back(setting("loss weight" + of, output.weight));
    for (const SharedMetric& metric : output.metrics) {
      settings.push_back(setting("metric" + of, metric->name()));
    }
  }
  for (auto& [name, value] : options.optimizer.settings()) {
    settings.emplace_back(name, value);
  }
  return settings;
}

// The values of variables and slots from one engine to the next: each rank's blocks on the host,
// whole only where the new plan splits a variable otherwise. Collective. Variables come first in
// every graph made from the model's, in the same order.
class KeptParameters {
 public:
  /// Takes what `engine` has, with its slots or without.
  KeptParameters(Engine& engine, const Plan& next, std::int64_t rank, bool with_slots) {
    const Parameters& parameters = engine.parameters();
    const ParameterForm form = parameter_form(next, rank);
    for (const ParameterSpan& span : parameters.form().spans) {
      const int v = span.variable;
      const bool whole = form.spans[v].layout != span.layout;
      for (int slot = its_value; slot < (with_slots ? parameters.slot_count(v) : 0); ++slot) {
        std::vector<float> values(static_cast<std::size_t>(whole ? 0 : span.count));
        if (whole) {
          values = engine.gather(v, slot);
        } else {
          engine.device().copy_out(values.data(), parameters.block(v, slot),
                                   span.count * float32_bytes);
        }
        kept_.push_back({v, slot, whole, std::move(values)});
      }
    }
  }

  /// Hands it to the engine of the plan that it was taken for.
  void restore(Engine& engine) const {
    for (const auto& [variable, slot, whole, values] : kept_) {
      if (whole) {
        engine.set(variable, values, slot);
      } else {
        engine.parameters().write(variable, values, slot);
      }
    }
  }

 private:
  struct Kept {
    int variable;
    int slot;
    bool whole;
    std::vector<float> values;
  };
  std::vector<Kept> kept_;
};

}  // namespace

void Model::State::say(const std::string& line) const {
  const Hosted* const hosted = Hosted::current();
  if (is_root() && (hosted == nullptr || hosted->prints())) {
    if (make_room) make_room();
    std::fprintf(stderr, "%s\n", coloured_message(printable(line), STDERR_FILENO).c_str());
  }
}

void Model::State::break_off() noexcept {
  try {
    if (transport->settle()) return;
    // Before the operations: what was captured keeps them.
    if (engine) engine->release_captured();
    transport->give_up();
  } catch (const std::exception& problem) {
    abort_or_break(problem.what());
  }
}

void Model::State::refuse_in_step(const char* call) const {
  fail(
      "{}: the model is in the middle of a step. A called function cannot use the model that its "
      "rank trains; let it record the work, and do it between steps, such as in a callback",
      call);
}

void Model::State::say_remarks() {
  const auto say_once = [&](std::string& said, std::string now) {
    if (!now.empty() && now != said) say(now);
    said = std::move(now);
  };
  say_once(transport_remark, transport->remark());
  say_once(device_remark, device->remark());
}

void Model::State::compare_call(const char* call, Settings settings) const {
  const TracedCollective inside(
      TracePoint(&watchdog->trace(), fmt::format("{}, which every rank calls", call)));
  settings.insert(settings.begin(), setting("model", *words));
  mesh().require_same_call(call, settings);
}

void Model::State::compare(const Settings& settings, const std::string& what) const {
  const TracedCollective inside(TracePoint(&watchdog->trace(), "comparison of " + what));
  require_same_settings(mesh().all(), settings, what);
}

void Model::State::prepare(const std::optional<LossData>& wanted, std::int64_t rows) {
  if (engine && !planned && (!compiled || !wanted || objective.is_for(*wanted))) {
    return;
  }
  if (fitting) {
    fail(
        "the model is being fitted; compile it, or evaluate it on targets of another shape or with "
        "sample weights, after fit has returned");
  }
  draw(wanted, rows);
  Planned drawn = *std::exchange(planned, std::nullopt);
  limit = drawn.limit;
  UpdateRule update;
  if (compiled) {
    update = compiled->update_rule();
    compare(compiled->optimizer.settings(), "the optimizer's options");
  }
  std::optional<KeptParameters> kept;
  if (engine) {
    kept.emplace(*engine, drawn.plan, mesh().rank(), has_slots);
  }
  user_batches.clear();
  engine.reset();
  objective = std::move(drawn.objective);
  Transport& through = counting ? *counting : *transport;
  engine = std::make_unique<Engine>(mesh(), *device, through, std::move(drawn.plan), options.seed,
                                    std::move(update), &watchdog->trace(), counting.get(),
                                    options.precision, chooser.get());
  if (kept) {
    kept->restore(*engine);
  }
  has_slots = compiled.has_value();
  say_remarks();
}

void Model::State::take_up_choices(const CheckpointState& earlier) {
  const bool other_transport = transport->take_up(earlier.collectives);
  const bool other_kernels = chooser && chooser->take_up(earlier.kernels);
  if ((other_transport || other_kernels) && engine) {
    user_batches.clear();
    engine->forget_steps();
  }
  say_remarks();
}

Model::Model(std::vector<SymbolicTensor> inputs, std::vector<SymbolicTensor> outputs,
             Distribution distribution, ModelOptions options)
    : Model(graph_of(inputs, outputs), distribution, std::move(options)) {}

Model::Model(std::shared_ptr<const Graph> graph, const Distribution& distribution,
             ModelOptions options)
    : Model(blueprint_of(frozen(std::move(graph), options.frozen), distribution, options),
            *distribution.mesh) {}

Model::Model(Blueprint blueprint, DeviceMesh& mesh)
    : state_(std::make_unique<State>(std::move(blueprint), mesh)) {
  state_->words = std::make_shared<const std::string>(in_words(*state_->graph));
  check_layers_are_free(*state_->graph, *state_->words);
  state_->mesh().require_same_call("Model", {setting("model", *state_->words)});
  const KernelsOption kernels = kernels_option(state_->options.kernels);
  for (const std::string& warning : state_->warnings) {
    state_->say("warning: " + warning);
  }
  const std::shared_ptr<const Communicator> node = physical_node_of(state_->mesh().all());
  state_->device =
      for_option("device", [&] { return make_device_on_node(state_->options.device, *node); });
  Device& device = *state_->device;
  // Before anything is made together: ranks that differ would wait for each other in that.
  require_same_settings(state_->mesh().all(), settings_of(state_->options, device.traits().kind),
                        "the model's options");
  for (const std::string& warning : for_option("precision", [&] {
         return warnings_of(state_->options.precision, state_->mesh().all(), device);
       })) {
    state_->say(warning);
  }
  state_->watchdog = std::make_unique<Watchdog>(
      state_->mesh().all(), WatchdogOptions{.seconds = state_->options.watchdog_seconds});
  state_->transport = for_option("collectives", [&] {
    const TracedCollective inside(
        TracePoint(&state_->watchdog->trace(), "the making of the transport of collectives"));
    return state_->options.collectives.make(
        state_->mesh().all(), device.traits().computes_in_host_memory ? nullptr : &device.queues(),
        [&](std::int64_t bytes) { return device.allocate(bytes); });
  });
  state_->say_remarks();
  if (state_->options.check_plan) {
    state_->mesh().check_calls();
    state_->counting = std::make_unique<CountingTransport>(*state_->transport);
  }
  state_->watchdog->trace().follow(state_->transport->enqueued());
  if (kernels.timed) {
    state_->chooser = for_option("kernels", [&] {
      return std::make_unique<KernelChooser>(
          state_->mesh().all(), device, &state_->watchdog->trace(), kernels.file,
          [state = state_.get()](const std::string& line) { state->say(line); });
    });
  }
  for (const auto& [path, layer] : layers_with_variables(*state_->graph)) {
    layer->join(state_->words);
  }
}

Model::Model(const SymbolicTensor& input, const SymbolicTensor& output, Distribution distribution,
             ModelOptions options)
    : Model(graph_of({input}, {output}), distribution, std::move(options)) {}

Model::Model(Shape shape, const std::shared_ptr<LayerBlock>& block, Distribution distribution,
             ModelOptions options)
    : Model(graph_of(shape, *block), distribution, std::move(options)) {
  if (block->class_name() != "Sequential") {
    state_->keras_model = KerasModel::subclass;
  }
}

Model::~Model() {
  if (!state_ || Hosted::current() == nullptr || !Hosted::current()->is_broken()) return;
  // MPI may still write what it has. Its layers are free, and no thread goes on.
  state_->words.reset();
  state_->watchdog->stop();
  state_->transport->give_up();
  (void)state_.release();
}
Model::Model(Model&&) noexcept = default;

void Model::compile(CompileOptions options) {
  const auto call = state_->begin_call("compile", [&] { return settings_of(options); });
  if (!options.has_loss()) {
    fail("compile needs a loss");
  }
  const std::vector<OutputTraining> outputs = training_of_outputs(options, *state_->graph);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    check_metric_names(outputs[i].metrics);
    if (!outputs[i].loss) continue;
    const std::string mismatch = mismatch_of(*state_->graph, state_->graph->outputs[i], outputs[i]);
    if (!mismatch.empty()) state_->say("warning: " + mismatch);
  }
  state_->compiled = std::move(options);
  // What was made for another loss or optimizer is made again; the weights stay. The optimizer is
  // new: it has updated nothing.
  state_->iteration = 0;
  state_->has_slots = false;
  state_->planned.reset();
  state_->objective.losses.clear();
  state_->user_batches.clear();
  state_->row_elements.clear();
}

std::int64_t steps_of_epoch(const FitOptions& options, std::int64_t rows) {
  const std::int64_t batches =
      options.drop_remainder ? rows / options.batch_size : batch_count(rows, options.batch_size);
  return std::min(batches, options.steps_per_epoch.value_or(batches));
}

Logs Model::evaluate(std::shared_ptr<const Source> data, EvaluateOptions options) {
  const auto call = state_->begin_call("evaluate", [&] { return settings_of(options, *data); });
  if (!state_->compiled) {
    fail("evaluate needs a loss: call compile first");
  }
  state_->compare(settings_of(options, *data), "what evaluate is given");
  state_->prepare_to_evaluate(loss_data_of(*data), options.batch_size);
  Evaluation evaluation(*state_, std::move(data), options.batch_size, options.prefetch, "",
                        "evaluation data", options.stop_request);
  evaluation.make_steps();
  Logs logs;
  evaluation.run();
  evaluation.write(logs);
  return logs;
}

void Model::predict(std::shared_ptr<const Source> data, const ReceivePredictions& receive,
                    EvaluateOptions options) {
  const auto call = state_->begin_call("predict", [&] { return settings_of(options, *data); });
  state_->compare(settings_of(options, *data), "what predict is given");
  // Targets that happen to be there are not looked at, but where nothing is made yet.
  state_->prepare(state_->engine ? std::nullopt : loss_data_of(*data), options.batch_size);
  FedSource fed(*state_, Mode::predict, std::move(data), options.batch_size, "prediction data");
  const Model::State::Call leaving(*state_);
  fed.make_steps(options.stop_request);
  const std::unique_ptr<Feeder> feeder = fed.feeder(false, {}, 1, options.prefetch);
  BatchStops stops(*state_, options.stop_request, "prediction data");
  while (const HostBatch* batch = feeder->next()) {
    Step& step = fed.run(*batch, {});
    receive(batch->first_row, step.predictions());
    stops.after_batch(fed.batches());
  }
}

std::vector<float> Model::predict(std::shared_ptr<const Source> data, EvaluateOptions options) {
  if (const Graph& graph = *state_->graph; graph.outputs.size() > 1 && !state_->told_output) {
    state_->told_output = true;
    state_->say(fmt::format("note: predictions are of \"{}\", the first of the model's {} outputs",
                            output_name(graph, graph.outputs.front()), graph.outputs.size()));
  }
  std::vector<float> all;
  predict(
      std::move(data),
      [&](std::int64_t, std::span<const std::vector<float>> outputs) {
        all.insert(all.end(), outputs.front().begin(), outputs.front().end());
      },
      options);
  return all;
}

namespace {

// What the losses are given of samples without weights.
LossData loss_data_of(const Model::State& state) {
  LossData data;
  const Graph& model = *state.graph;
  const std::vector<OutputTraining> outputs = training_of_outputs(*state.compiled, model);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].loss) continue;
    const Shape target = outputs[i].loss->target_shape(model.tensors[model.outputs[i]].shape);
    data.targets.emplace_back(target.begin() + 1, target.end());
  }
  return data;
}

// The same of batches of the user's, which have so many targets.
LossData loss_data_of(const Model::State& state, std::size_t targets, bool weighted) {
  LossData data = loss_data_of(state);
  if (targets != data.targets.size()) {
    fail("the model compares {} of its outputs with targets, the batch has {}", data.targets.size(),
         targets);
  }
  if (weighted) data.weights = Shape();
  return data;
}

// Prepares for batches of the user's, and calls `add(tensor, role)` for each of their fields.
template <class Add>
void prepare_user_batches(Model::State& state, Mode mode, std::int64_t rows, std::size_t targets,
                          bool weighted, const Add& add) {
  if (mode == Mode::train) {
    state.prepare(loss_data_of(state, targets, weighted), rows);
  } else if (mode == Mode::evaluate) {
    state.prepare_to_evaluate(loss_data_of(state, targets, weighted), rows);
  } else {
    state.prepare(std::nullopt, rows);
  }
  for (const TensorId input : state.objective.graph->inputs) add(input, FieldRole::feature);
  if (mode == Mode::predict) return;
  for (const TensorId target : state.objective.targets) add(target, FieldRole::target);
  if (weighted) add(*state.objective.weights, FieldRole::weight);
}

// What was made for batches like `batch`, with the values of this one; made for the first.
UserBatches& user_batches(Model::State& state, Mode mode, const BatchView& batch) {
  if (batch.inputs.size() != state.graph->inputs.size()) {
    fail("the model has {} inputs, the batch {}", state.graph->inputs.size(), batch.inputs.size());
  }
  if (batch.rows < 1) {
    fail("a batch needs at least one row, found {}", batch.rows);
  }
  const std::size_t fields =
      batch.inputs.size() + batch.targets.size() + (batch.weights.empty() ? 0 : 1);
  const auto values = [&](std::size_t field) {
    if (field < batch.inputs.size()) return batch.inputs[field];
    field -= batch.inputs.size();
    return field < batch.targets.size() ? batch.targets[field] : batch.weights;
  };
  const std::tuple key(mode, batch.rows, !batch.weights.empty(), false);
  const auto found = state.user_batches.find(key);
  if (found == state.user_batches.end()) {
    // Making it forgets what was made for another objective.
    std::vector<Array> arrays;
    prepare_user_batches(state, mode, batch.rows, batch.targets.size(), !batch.weights.empty(),
                         [&](TensorId id, FieldRole role) {
                           const Graph& graph = *state.objective.graph;
                           arrays.emplace_back(graph.tensors[id].path, values(arrays.size()),
                                               graph.shape_of(id, batch.rows), role);
                         });
    const auto source = std::make_shared<ArraySource>(std::move(arrays));
    auto made = std::make_unique<UserBatches>(state, mode, source);
    made->whole = source;
    return *(state.user_batches[key] = std::move(made));
  }
  UserBatches& known = *found->second;
  if (known.whole->target_count() != static_cast<int>(batch.targets.size())) {
    (void)loss_data_of(state, batch.targets.size(), !batch.weights.empty());  // says what is wrong
  }
  for (std::size_t field = 0; field < fields; ++field) {
    known.whole->array(static_cast<int>(field)).borrow(values(field));
  }
  return known;
}

// How many values a row has, by field: of the inputs, then of the targets if there is a loss.
std::vector<std::int64_t> elements_of_rows(const Model::State& state) {
  const Graph& model = *state.graph;
  std::vector<std::int64_t> elements;
  for (const TensorId input : model.inputs) {
    elements.push_back(element_count(model.shape_of(input, 1)));
  }
  if (!state.compiled) return elements;
  for (const Shape& target : loss_data_of(state).targets) {
    elements.push_back(element_count(target));
  }
  return elements;
}

// The same of a batch of which each rank has some rows.
UserBatches& user_batches(Model::State& state, Mode mode, const LocalBatch& batch) {
  const Communicator& ranks = state.mesh().all();
  const Graph& model = *state.graph;
  if (state.row_elements.empty()) {
    state.row_elements = elements_of_rows(state);
    state.counting_rows = {&state.watchdog->trace(), "the counting of the rows of a batch"};
  }
  std::span<const std::int64_t> elements = state.row_elements;
  if (mode == Mode::predict) elements = elements.first(model.inputs.size());
  JointCounts& counts = state.row_counts;
  count_jointly(ranks, batch, model.inputs.size(), elements, state.counting_rows, counts);
  const std::tuple key(mode, counts.rows(), counts.weighted, true);
  auto found = state.user_batches.find(key);
  if (found == state.user_batches.end()) {
    std::vector<Field> fields;
    prepare_user_batches(
        state, mode, counts.rows(), elements.size() - model.inputs.size(), counts.weighted,
        [&](TensorId id, FieldRole role) {
          const Graph& graph = *state.objective.graph;
          Shape shape = graph.tensors[id].shape;
          shape.erase(shape.begin());
          fields.push_back(
              {.name = graph.tensors[id].path, .shape = std::move(shape), .role = role});
        });
    const auto source = std::make_shared<JointRows>(
        counts.rows(), std::move(fields), ranks,
        TracePoint(&state.watchdog->trace(), "the exchange of the rows of a batch"));
    auto made = std::make_unique<UserBatches>(state, mode, source);
    made->joint = source;
    source->expect(made->fed.rows_read());
    found = state.user_batches.insert_or_assign(key, std::move(made)).first;
  }
  found->second->joint->take(batch, counts);
  return *found->second;
}

// Runs one step on what `batches` have now.
Step& step_on(UserBatches& batches, const StepScalars& scalars) {
  return batches.fed.run(batches.next(), scalars);
}

// The same for what has a loss; gives its means.
template <class Batch>
Logs means_of_step_on(Model::State& state, Mode mode, const Batch& batch,
                      const StepScalars& scalars) {
  if (!state.compiled) {
    fail("a step needs a loss: call compile first");
  }
  UserBatches& batches = user_batches(state, mode, batch);
  batches.means->reset();
  batches.means->add(step_on(batches, scalars));
  Logs logs;
  batches.means->write(logs);
  return logs;
}

template <class Batch>
Logs update_on(Model::State& state, const Batch& batch) {
  const std::int64_t iteration = state.iteration;
  const float rate = state.compiled
                         ? static_cast<float>(state.compiled->optimizer.learning_rate(iteration))
                         : 0.0f;
  Logs logs = means_of_step_on(state, Mode::train, batch, {iteration, rate});
  ++state.iteration;
  return logs;
}

}  // namespace

Logs Model::train_step(const BatchView& batch) {
  const auto call = state_->begin_call("train_step", [&] { return settings_of(batch); });
  return update_on(*state_, batch);
}

Logs Model::train_local_step(const LocalBatch& batch) {
  const auto call = state_->begin_call("train_local_step", [] { return Settings(); });
  return update_on(*state_, batch);
}

Logs Model::evaluate_step(const BatchView& batch) {
  const auto call = state_->begin_call("evaluate_step", [&] { return settings_of(batch); });
  return means_of_step_on(*state_, Mode::evaluate, batch, {});
}

Logs Model::evaluate_local_step(const LocalBatch& batch) {
  const auto call = state_->begin_call("evaluate_local_step", [] { return Settings(); });
  return means_of_step_on(*state_, Mode::evaluate, batch, {});
}

std::vector<std::vector<float>> Model::predict_step(const BatchView& batch) {
  const auto call = state_->begin_call("predict_step", [&] { return settings_of(batch); });
  return meshwork::predict_step(*state_, batch);
}

std::vector<std::vector<float>> Model::predict_piece(const BatchView& piece,
                                                     std::int64_t position) {
  const auto call = state_->begin_call("predict_piece", [&] {
    Settings settings = settings_of(piece);
    settings.push_back(setting("position", position));
    return settings;
  });
  return meshwork::predict_piece(*state_, piece, position);
}

std::string Model::obstacle_to_pieces() {
  const auto call = state_->begin_call("obstacle_to_pieces", [] { return Settings(); });
  return meshwork::obstacle_to_pieces(*state_);
}

std::vector<std::vector<float>> Model::predict_local_step(const LocalBatch& batch) {
  const auto call = state_->begin_call("predict_local_step", [] { return Settings(); });
  const LocalBatch inputs{.rows = batch.rows, .inputs = batch.inputs, .targets = {}};
  UserBatches& batches = user_batches(*state_, Mode::predict, inputs);
  const auto whole = step_on(batches, {}).predictions();
  const std::int64_t all = batches.fed.rows(), first = batches.joint->first_row();
  std::vector<std::vector<float>> outputs;
  for (const std::vector<float>& output : whole) {
    const auto row = static_cast<std::int64_t>(output.size()) / all;
    outputs.emplace_back(output.begin() + first * row, output.begin() + (first + batch.rows) * row);
  }
  return outputs;
}

std::vector<std::vector<float>> predict_step(Model::State& model, const BatchView& batch) {
  const BatchView inputs{.rows = batch.rows, .inputs = batch.inputs, .targets = {}};
  return step_on(user_batches(model, Mode::predict, inputs), {}).predictions();
}

const Graph& Model::graph() const {
  return *state_->graph;
}

std::vector<Shape> Model::output_shapes() const {
  std::vector<Shape> shapes;
  for (const TensorId output : state_->graph->outputs) {
    const Shape& shape = state_->graph->tensors[output].shape;
    shapes.emplace_back(shape.begin() + 1, shape.end());
  }
  return shapes;
}

std::string Model::device_description() const {
  return state_->device->description();
}

std::int64_t Model::iteration() const {
  return state_->iteration;
}

Optimizer& Model::optimizer() {
  if (!state_->compiled) {
    fail("the model has no optimizer: call compile first");
  }
  return state_->compiled->optimizer;
}

PlanReport Model::plan(const std::shared_ptr<const Source>& data, std::int64_t rows, Mode mode) {
  const auto call = state_->begin_call("plan", [&] {
    return Settings{setting("rows", rows), setting("mode", name_of(mode)),
                    setting("samples", data->rows())};
  });
  if (mode != Mode::predict && !state_->compiled) {
    fail("a plan to {} needs a loss: call compile first", name_of(mode));
  }
  if (mode != Mode::predict && data->target_count() == 0) {
    fail("a plan to {} needs targets, which the data does not have", name_of(mode));
  }
  state_->prepare_to_evaluate(loss_data_of(*data), rows);
  return report_run(state_->engine->plan(), *data, mode, rows, state_->mesh().rank(),
                    state_->compiled, state_->options.precision, state_->device->traits());
}

int variable_index(const Graph& graph, const std::string& path) {
  std::vector<std::string> paths;
  for (std::size_t v = 0; v < graph.variables.size(); ++v) {
    if (graph.variables[v].path == path) {
      return static_cast<int>(v);
    }
    paths.push_back(graph.variables[v].path);
  }
  fail("the model has no variable \"{}\"{}", path, did_you_mean(path, paths));
}

std::vector<float> Model::variable(const std::string& path) {
  const auto call = state_->begin_call("variable", [&] { return Settings{setting("path", path)}; });
  const int index = variable_index(*state_->graph, path);
  state_->require_engine();
  return state_->engine->gather(index);
}

void Model::adapt(const std::shared_ptr<const Source>& data) {
  const auto call =
      state_->begin_call("adapt", [&] { return Settings{setting("samples", data->rows())}; });
  const std::vector<AdaptedLayer> layers = adapted_layers(*state_->graph);
  if (layers.empty()) return;
  constexpr std::int64_t rows = 32;  // of a plan that makes the variables
  if (!state_->engine) state_->prepare(loss_data_of(*data), rows);
  const auto statistics = statistics_of(layers, data, state_->mesh().all());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto set = [&](TensorId tensor, const std::vector<float>& values) {
      state_->engine->set(state_->graph->tensors[tensor].variable, values);
    };
    set(layers[i].mean, statistics[i].mean);
    set(layers[i].variance, statistics[i].variance);
  }
}

void Model::set_variable(const std::string& path, std::span<const float> values) {
  const auto call = state_->begin_call("set_variable", [&] {
    return Settings{setting("path", path), setting("elements", values.size()),
                    setting("hash of the values", hash_of(values))};
  });
  const int index = variable_index(*state_->graph, path);
  state_->require_engine();
  state_->engine->set(index, values);
}

}  // namespace meshwork
