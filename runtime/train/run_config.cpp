#include "runtime/train/run_config.h"

#include <algorithm>
#include <map>
#include <utility>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/hosted.h"
#include "collectives/with_type.h"
#include "runtime/checkpoint/directory.h"
#include "runtime/config/extension.h"
#include "runtime/config/load.h"
#include "runtime/config/nearest.h"
#include "runtime/config/reader.h"
#include "runtime/data/batches.h"
#include "runtime/data/mixed_reader.h"
#include "runtime/data/stated.h"
#include "runtime/data/views.h"
#include "runtime/device/kernels/precision.h"
#include "runtime/graph/operations/document_starts.h"
#include "runtime/graph/placement.h"
#include "runtime/graph/step/recomputation.h"
#include "runtime/train/augment.h"
#include "runtime/train/callbacks/json_logger.h"
#include "runtime/train/callbacks/monitor.h"
#include "runtime/train/callbacks/tensorboard.h"
#include "runtime/train/engine/engine.h"
#include "runtime/train/engine/kernel_choice.h"
#include "runtime/train/from_config.h"
#include "runtime/train/loop/between_steps.h"
#include "runtime/train/roles/evaluate.h"
#include "runtime/train/state/adapt.h"

namespace meshwork {
namespace {

constexpr std::int64_t most_ranks = std::int64_t{1} << 31;

// `[~, model]`, `[data, [data2, model]]`: for each dimension nothing, an axis, or a list of them.
TensorLayout read_layout(const ConfigNode& node) {
  TensorLayout layout;
  for (const ConfigNode& dimension : node.elements()) {
    if (dimension.is_null()) {
      layout.push_back(unsharded);
    } else if (dimension.is_sequence()) {
      layout.emplace_back(dimension.as<std::vector<std::string>>());
    } else {
      layout.emplace_back(dimension.as<std::string>());
    }
  }
  return layout;
}

// "training data".
std::string words_for(DataPart part) {
  return fmt::format("{} data", part == DataPart::train ? "training" : name_of(part));
}

// The rows of `source` in samples whose field is fed whole.
std::vector<Block> whole_batches(const Source& source, int field, std::int64_t batch_size) {
  std::vector<Block> blocks;
  for (const std::int64_t rows : batch_row_counts(source.rows(), batch_size)) {
    Shape shape = source.field(field).shape;
    shape.insert(shape.begin(), rows);
    blocks.push_back(whole(shape));
  }
  return blocks;
}

// Whether a target of shape `target` can be class numbers for a prediction: it has no dimension of
// classes, or 1 in its place.
bool are_classes_of(const Shape& prediction, Shape target) {
  if (prediction.empty() || prediction.back() < 2) return false;
  if (target.size() + 1 == prediction.size()) target.push_back(1);
  Shape numbers = prediction;
  numbers.back() = 1;
  return target == numbers;
}

// Why `one_hot` makes nothing of `target`, whose loss takes values of the shape `prediction`.
std::string not_classes(Shape prediction, const Field& target, DataPart part) {
  const std::string found = fmt::format("target \"{}\" of the {} has samples of the shape {}",
                                        target.name, words_for(part), to_string(target.shape));
  if (target.shape == prediction) {
    return found + ", as its loss takes them; one_hot makes them of class numbers";
  }
  if (prediction.empty() || prediction.back() < 2) {
    return found + ", and its loss takes one value, not one for each class";
  }
  const std::string taken = to_string(prediction);
  prediction.back() = 1;
  return fmt::format("{}; one_hot makes the shape {} of class numbers of the shape {}", found,
                     taken, to_string(prediction));
}

// Reads all of `field`, or until `stop` is asked for, and throws for a value that is no class, or
// no weight, where it has to be one.
void check_values(const std::shared_ptr<const Source>& source, FeedField field,
                  const StopRequest* stop) {
  constexpr std::int64_t most_elements = std::int64_t{1} << 20;  // at a time
  if (source->rows() == 0) {
    return;
  }
  const std::int64_t elements =
      std::max<std::int64_t>(1, element_count(source->field(field.field).shape));
  const std::int64_t batch = std::clamp<std::int64_t>(most_elements / elements, 1, source->rows());
  field.blocks = whole_batches(*source, field.field, batch);
  Feeder feeder({.source = source,
                 .fields = {field},
                 .batch_size = batch,
                 .epochs = 1,
                 .prefetch = Prefetch::never});
  while (feeder.next() != nullptr && (stop == nullptr || stop->reason() == 0)) {
  }
}

}  // namespace

std::string_view name_of(DataPart part) {
  constexpr std::string_view names[] = {"train", "validation", "test"};
  return names[static_cast<std::size_t>(part)];
}

void from_config(const ConfigNode& node, WrittenMesh& mesh) {
  mesh.axes.clear();
  ConfigErrors errors;
  for (const ConfigEntry& entry : node.entries()) {
    errors.check([&] {
      const std::int64_t size = entry.value.as<std::int64_t>(at_least(-1).up_to(most_ranks));
      if (size == 0) {
        entry.value.fail(
            "axis \"{}\" has the size 0; expected a positive integer, or -1 for all remaining "
            "ranks",
            entry.name);
      }
      mesh.axes.push_back({entry.name, size});
    });
  }
  errors.raise();
  if (mesh.axes.empty()) {
    node.fail("the mesh has no axes; expected axes with sizes, such as {{data: 2, model: 4}}");
  }
}

void from_config(const ConfigNode& node, WrittenLayouts& layouts) {
  ConfigErrors errors;
  for (const ConfigEntry& entry : node.entries()) {
    errors.check([&] { layouts.entries.push_back({read_layout(entry.value), entry.key}); });
  }
  errors.raise();
}

void from_config(const ConfigNode& node, WrittenPlaces& places) {
  const auto text = node.is_scalar() ? node.as<std::string>() : "";
  places.balanced = text == "auto";
  if (places.balanced) return;
  if (!node.is_map() && !node.is_null()) {
    const std::vector<std::string> known{"auto"};
    node.fail("expected auto, or a map of layers and blocks to coordinates; found {}{}",
              node.found(), text.empty() ? "" : did_you_mean(text, known));
  }
  ConfigErrors errors;
  for (const ConfigEntry& entry : node.entries()) {
    errors.check([&] {
      WrittenPlaces::Entry& written =
          places.entries.emplace_back(WrittenPlaces::Entry{{}, entry.key});
      for (const ConfigEntry& axis : entry.value.entries()) {
        PlacedAt at{axis.name};
        if (axis.value.is_sequence()) {
          const std::vector<ConfigNode> range = axis.value.elements();
          if (range.size() != 2) {
            axis.value.fail(
                "expected a coordinate, or the first and the last: [0, 1]; found {} of them",
                range.size());
          }
          at.first = range[0].as<std::int64_t>(at_least(0));
          at.last = range[1].as<std::int64_t>(at_least(at.first));
        } else {
          at.first = axis.value.as<std::int64_t>(at_least(0));
        }
        written.places.push_back(std::move(at));
      }
    });
  }
  errors.raise();
}

void from_config(const ConfigNode& node, WrittenBatchAxis& axis) {
  // An empty name stands for none; a user writes null.
  axis.name = node.is_null() ? "" : node.as<std::string>();
  if (!node.is_null() && axis.name->empty()) {
    node.fail("the name of the axis is empty; expected an axis of the mesh, or ~ for none");
  }
}

std::string to_text(const WrittenMesh& mesh) {
  std::string text;
  for (const MeshAxis& axis : mesh.axes) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", axis.name, axis.size);
  }
  return "{" + text + "}";
}

std::string to_text(const WrittenLayouts& layouts) {
  std::string text;
  for (const WrittenLayouts::Entry& entry : layouts.entries) {
    text += (text.empty() ? "" : ", ") + entry.key.as<std::string>();
  }
  return "{" + text + "}";
}

std::string to_text(const WrittenPlaces& places) {
  std::string text;
  if (places.balanced) return "auto";
  for (const WrittenPlaces::Entry& entry : places.entries) {
    text += (text.empty() ? "" : ", ") + entry.key.as<std::string>();
  }
  return "{" + text + "}";
}

std::string to_text(const WrittenBatchAxis& axis) {
  return axis.name && axis.name->empty() ? "~" : axis.name.value_or("the first axis");
}

RunConfig::RunConfig(const ConfigNode& document, Catalog catalog) : document_(document) {
  ConfigReader reader(document, "configuration");
  // The rest may name classes of extensions.
  if (const auto extensions = reader.node("extensions")) {
    for (const ConfigNode& file : extensions->elements()) {
      const std::string path = file.as_path().string();
      file.located([&] { load_extension(path, catalog); });
    }
  }
  extensions_ = catalog.extensions();
  OptionVisitor option = option_reader(reader, catalog);
  ConfigurationSections sections;
  describe(options_, option);
  describe(spread_, option);
  describe(sections, option);
  if (options_.precision == Precision::tf32 && options_.device == "cpu") {
    reader.check([&] {
      reader.node("precision")
          ->fail("tf32 exists on NVIDIA GPUs only; \"cpu\" has float32 and bfloat16");
    });
  }
  if (const auto kernels = reader.node("kernels"); kernels && kernels->is_scalar()) {
    reader.check([&] {
      (void)kernels->as_path();  // as which it may be meant
      (void)kernels->located([&] { return kernels_option(options_.kernels); });
    });
  }
  // Calls `read` with a section that is there.
  const auto section = [&](const std::optional<ConfigNode>& node, const auto& read) {
    if (node) reader.check([&] { read(*node); });
  };
  section(sections.data.node, [&](const ConfigNode& data) { read_data(data, catalog); });
  section(sections.model.node, [&](const ConfigNode& model) {
    model_ = model_from_config(model, catalog);
    graph_ = model.located([&] { return std::make_shared<const Graph>(graph_of(*model_)); });
    model.located([&] { (void)adapted_layers(*graph_); });
  });
  reader.check([&] { read_outputs(sections, catalog); });
  fit_.augment = std::move(sections.augment);
  roles_ = std::move(sections.roles);
  section(sections.optimizer.node, [&](const ConfigNode& optimizer) {
    compile_.optimizer = catalog.make<Optimizer>(optimizer);
  });
  section(sections.fit.node, [&](const ConfigNode& fit) { read_fit(fit, catalog); });
  section(sections.pipeline.node, [&](const ConfigNode& pipeline) {
    ConfigReader stages(pipeline, "pipeline");
    OptionVisitor staged = option_reader(stages, catalog);
    describe_pipeline(spread_.distribution.stages, fit_.walk.schedule, staged);
    const auto& [axis, chunks, balanced] = spread_.distribution.stages;
    stages.check([&] {
      const ConfigNode name = stages.required_node("axis", "an axis of the mesh");
      if (name.is_scalar() && axis.empty()) name.fail("expected an axis of the mesh");
    });
    if (const auto many = stages.node("chunks")) {
      stages.check([&] { many->located([&] { check_chunks(fit_.walk.schedule, chunks); }); });
    }
    stages.finish();
  });
  section(sections.checkpoint.node, [&](const ConfigNode& checkpoint) {
    checkpoint_node_ = checkpoint;
    fit_.checkpoint = checkpoint.is_null()
                          ? CheckpointOptions()
                          : read_options<CheckpointOptions>(checkpoint, catalog, "checkpoint", {},
                                                            fit_.checkpoint);
  });
  section(sections.log.node, [&](const ConfigNode& log) {
    const auto files = read_options<LogFiles>(log, catalog, "log");
    if (files.jsonl) {
      fit_.callbacks.push_back(JSONLogger({.filename = *files.jsonl}));
      callback_nodes_.push_back(*log.find("jsonl"));
    }
    if (files.tensorboard) {
      const ConfigNode node = *log.find("tensorboard");
      fit_.callbacks.push_back(
          node.located([&] { return TensorBoard({.log_dir = *files.tensorboard}); }));
      callback_nodes_.push_back(node);
    }
  });
  fit_.configuration = to_yaml(document);
  reader.finish();
}

RunConfig RunConfig::by_itself() const {
  RunConfig alone = *this;
  alone.spread_ = {};
  alone.fit_.walk = {};
  return alone;
}

void RunConfig::read_outputs(const ConfigurationSections& sections, const Catalog& catalog) {
  const auto names = sections.model.node ? names_of_outputs(*sections.model.node) : std::nullopt;
  if (!names) return;
  outputs_ = meshwork::read_outputs(sections, *names, catalog);
  for (const WrittenOutput& output : outputs_) {
    if (names->empty()) {
      compile_.loss = output.training.loss;
      compile_.metrics = output.training.metrics;
    } else if (sections.loss.node) {
      compile_.outputs[output.name] = output.training;
    }
  }
}

void RunConfig::read_data(const ConfigNode& node, const Catalog& catalog) {
  ConfigReader reader(node, "data");
  OptionVisitor option = option_reader(reader, catalog);
  DataSets sets;
  describe(sets, option);
  parts_[static_cast<int>(DataPart::train)] = sets.train;
  parts_[static_cast<int>(DataPart::validation)] = sets.validation;
  parts_[static_cast<int>(DataPart::test)] = sets.test;
  describe_data_section(fit_, option);
  describe_cache(cache_, option);
  describe_one_hot(one_hot_, option);
  reader.finish();
}

void RunConfig::read_fit(const ConfigNode& node, const Catalog& catalog) {
  ConfigReader reader(node, "fit");
  OptionVisitor option = option_reader(reader, catalog);
  describe_fit_section(fit_, option);
  describe_gradient_norm(compile_.gradient_norm, option);
  describe_callbacks(fit_.callbacks, option);
  if (!fit_.callbacks.empty()) {
    callback_nodes_ = node.find("callbacks")->elements();
    reader.check([&] { take_checkpoints(); });
  }
  if (fit_.validation_split > 0 && has(DataPart::validation)) {
    reader.check([&] {
      node.find("validation_split")
          ->fail("validation data are given twice, also at {}; delete one",
                 written(DataPart::validation)->node.location());
    });
  }
  reader.finish();
}

// What a callback says of checkpoints, the section for them may overrule.
void RunConfig::take_checkpoints() {
  for (std::size_t i = 0; i < fit_.callbacks.size(); ++i) {
    const auto asked = fit_.callbacks[i] ? fit_.callbacks[i]->checkpoints() : std::nullopt;
    if (!asked) continue;
    if (checkpoint_node_) {
      callback_nodes_[i].fail("checkpoints are saved by the callback at {} already",
                              checkpoint_node_->location());
    }
    fit_.checkpoint = *asked;
    checkpoint_node_ = callback_nodes_[i].single_entry().value;
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < fit_.callbacks.size(); ++i) {
    if (fit_.callbacks[i] && fit_.callbacks[i]->checkpoints()) continue;
    fit_.callbacks[kept] = fit_.callbacks[i];
    callback_nodes_[kept++] = callback_nodes_[i];
  }
  fit_.callbacks.resize(kept);
  callback_nodes_.resize(kept, document_);
}

std::int64_t RunConfig::evaluation_batch_size() const {
  return fit_.validation_batch_size.value_or(fit_.batch_size);
}

const SharedWrittenSource& RunConfig::written(DataPart part) const {
  return parts_[static_cast<int>(part)];
}

// Where messages about `part` point: validation data may be a part of the training data.
ConfigNode RunConfig::node_of(DataPart part) const {
  if (const auto& own = written(part)) {
    return own->node;
  }
  if (part == DataPart::validation && has(DataPart::train)) {
    return written(DataPart::train)->node;
  }
  return document_;
}

// ---- mesh and layouts --------------------------------------------------------------------------

std::int64_t RunConfig::least_ranks() const {
  std::int64_t ranks = 1;
  for (const MeshAxis& axis : mesh_axes()) {
    const std::int64_t size = std::max<std::int64_t>(axis.size, 1);
    if (ranks > most_ranks / size) {
      ConfigReader(document_).section("mesh").fail("the mesh has more than {} ranks", most_ranks);
    }
    ranks *= size;
  }
  return ranks;
}

MeshShape RunConfig::mesh_shape(std::int64_t ranks) const {
  (void)least_ranks();  // the product can be computed
  return ConfigReader(document_).section("mesh").located(
      [&] { return MeshShape(mesh_axes(), ranks); });
}

DeviceMesh RunConfig::mesh() const {
  const Communicator world = Communicator::world();
  (void)mesh_shape(world.size());  // before anything collective
  return DeviceMesh(mesh_axes(), world);
}

namespace {

// Adds what is written to a map that ends its messages about a key with its place.
template <class Map, class Entries, class Value>
void insert_written(Map& map, const Entries& entries, Value value) {
  ConfigErrors errors;
  for (const auto& entry : entries) {
    errors.check([&] {
      try {
        map.insert(entry.key.template as<std::string>(), entry.*value, entry.key.location());
      } catch (const Error& error) {
        throw entry.key.error_saying(error.what());
      }
    });
  }
  errors.raise();
}

// The first axis of `layout` that `mesh` lacks; "" if the mesh has all.
std::string missing_axis(const TensorLayout& layout, const MeshShape& mesh) {
  for (const DimensionAxes& dimension : layout) {
    for (const std::string& name : dimension.axes) {
      if (mesh.find(name) < 0) return name;
    }
  }
  return "";
}

// One mistake for each axis that layouts name and `mesh` lacks, at the first of these layouts.
// `users` has the keys of these layouts, by axis.
ConfigErrors missing_axes(const std::map<std::string, std::vector<ConfigNode>>& users,
                          const MeshShape& mesh) {
  std::vector<std::string> names;
  std::string sizes;  // "data=2,", as --mesh takes it
  for (const MeshAxis& axis : mesh.axes()) {
    names.push_back(axis.name);
    sizes += fmt::format("{}={},", axis.name, axis.size);
  }
  ConfigErrors errors;
  for (const auto& [axis, keys] : users) {
    const std::size_t more = keys.size() - 1;
    const std::string nearest = did_you_mean(axis, names);
    errors.add(keys.front().error(fmt::format(
        "\"{}\"{} the axis \"{}\", which the mesh {} lacks{}", keys.front().as<std::string>(),
        more == 0 ? " names" : fmt::format(" and {} more key{} name", more, more == 1 ? "" : "s"),
        axis, to_string(mesh),
        nearest.empty()
            ? fmt::format("; add it, as in --mesh {}{}=1 (size 1 splits nothing)", sizes, axis)
            : nearest)));
  }
  return errors;
}

}  // namespace

LayoutMap RunConfig::layouts(const MeshShape& mesh) const {
  std::vector<WrittenLayouts::Entry> resolvable;
  std::map<std::string, std::vector<ConfigNode>> users;  // of axes that the mesh lacks
  for (const WrittenLayouts::Entry& entry : spread_.layout.entries) {
    const std::string axis = missing_axis(entry.layout, mesh);
    if (axis.empty()) {
      resolvable.push_back(entry);
    } else {
      users[axis].push_back(entry.key);
    }
  }
  ConfigErrors errors = missing_axes(users, mesh);
  LayoutMap map(mesh);
  errors.check([&] { insert_written(map, resolvable, &WrittenLayouts::Entry::layout); });
  errors.raise();
  return map;
}

PlaceMap RunConfig::places(const MeshShape& mesh) const {
  PlaceMap map(mesh);
  insert_written(map, spread_.place.entries, &WrittenPlaces::Entry::places);
  const auto& [axis, chunks, balanced] = spread_.distribution.stages;
  ConfigReader document(document_);
  if (!axis.empty()) {
    const ConfigNode pipeline = document.section("pipeline");
    pipeline.find("axis").value_or(pipeline).located([&] {
      map.stage_over(axis, chunks, spread_.place.balanced, pipeline.location() + ": pipeline");
    });
  } else if (spread_.place.balanced) {
    document.section("place").fail(
        "`auto` places layers along the axis of a pipeline; name it: pipeline: {{axis: {}}}",
        mesh.name(0));
  }
  return map;
}

std::optional<Axis> RunConfig::batch_axis(const MeshShape& mesh) const {
  const std::optional<std::string>& name = spread_.distribution.batch_axis;
  if (!name) {
    return first_batch_axis(mesh, places(mesh));
  }
  if (name->empty()) {
    return std::nullopt;
  }
  return ConfigReader(document_).section("batch_axis").located([&] { return mesh.axis(*name); });
}

// ---- data --------------------------------------------------------------------------------------

std::shared_ptr<const Source> RunConfig::open(DataPart part, const Opening& opening) const {
  if (!has(part)) {
    (void)ConfigReader(ConfigReader(document_).required_node("data", "sets of data"))
        .required_node(std::string(name_of(part)), "{kind: idx, ...}");
  }
  std::vector<std::string> inputs;
  for (const TensorId input : graph_->inputs) {
    inputs.push_back(graph_->tensors[input].path);
  }
  const std::vector<std::string> outputs = compared_outputs();
  const std::vector<std::string> exact = exact_fields();
  std::vector<std::int64_t> document_ends;
  for (const GraphOperation& operation : graph_->operations) {
    const auto* documents = dynamic_cast<const DocumentStartsOperation*>(operation.operation.get());
    if (documents != nullptr) document_ends.push_back(documents->end());
  }
  std::shared_ptr<const Source> source;
  try {
    source = written(part)->open({.inputs = inputs,
                                  .outputs = outputs,
                                  .exact = exact,
                                  .document_ends = document_ends,
                                  .seed = options_.seed,
                                  .categories = opening.categories});
  } catch (const ConfigError& error) {
    if (opening.missing == nullptr || !error.only_of_missing_files()) throw;
    source = stated(part);
    opening.missing->push_back(fmt::format(
        "{}; planned with the shapes that the model and its loss expect", error.what()));
  }
  if (cache_ && source->readable()) source = cached(source);
  return one_hot_ ? one_hot(std::move(source), part) : source;
}

std::shared_ptr<const Source> RunConfig::one_hot(std::shared_ptr<const Source> source,
                                                 DataPart part) const {
  int field = source->feature_count();
  const int end = field + source->target_count();
  bool found = field == end || !source->readable() || !has_loss();
  std::string reason =
      "no loss that takes a value per class has class numbers as targets; leave one_hot out";
  for (std::size_t i = 0; i < outputs_.size() && field < end; ++i) {
    const SharedLoss& loss = outputs_[i].training.loss;
    if (!loss) continue;
    const Shape& batch = graph_->tensors[graph_->outputs[i]].shape;
    const Shape prediction(batch.begin() + 1, batch.end());
    const Field& target = source->field(field);
    const bool takes_values = !is_integer(loss->target_type());
    if (takes_values && are_classes_of(prediction, target.shape)) {
      source = with_one_hot(std::move(source), field, prediction.back());
      found = true;
    } else if (takes_values) {
      reason = not_classes(prediction, target, part);
    }
    ++field;
  }
  if (!found) {
    document_.find("data")->find("one_hot")->fail("{}", reason);
  }
  return source;
}

std::shared_ptr<const Source> RunConfig::stated(DataPart part) const {
  const auto of_sample = [](Shape batch) {
    batch.erase(batch.begin());
    return batch;
  };
  std::vector<Field> fields;
  for (const TensorId input : graph_->inputs) {
    const GraphTensor& tensor = graph_->tensors[input];
    fields.push_back({.name = tensor.path, .shape = of_sample(tensor.shape), .type = tensor.type});
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const SharedLoss& loss = outputs_[i].training.loss;
    if (!loss) continue;
    const Shape& prediction = graph_->tensors[graph_->outputs[i]].shape;
    const Shape target = outputs_[i].loss->located([&] { return loss->target_shape(prediction); });
    fields.push_back({.name = "target/" + output_name(*graph_, graph_->outputs[i]),
                      .shape = of_sample(target),
                      .type = loss->target_type(),
                      .role = FieldRole::target});
  }
  if (weighs_samples(part)) {
    fields.push_back({.name = std::string(weights_name), .shape = {}, .role = FieldRole::weight});
  }
  return std::make_shared<StatedSource>(std::move(fields));
}

TrainingData RunConfig::open_training(ConfigErrors& errors, const Opening& opening) const {
  TrainingData data;
  errors.check([&] { data.training = open(DataPart::train, opening); });
  if (has(DataPart::validation)) {
    const std::vector<Categories> categories =
        data.training ? data.training->categories() : std::vector<Categories>();
    const bool known = data.training && data.training->readable();
    errors.check([&] {
      data.validation =
          open(DataPart::validation, {known ? &categories : nullptr, opening.missing});
    });
  } else if (data.training && fit_.validation_split > 0 && !data.training->readable()) {
    data.validation = data.training;
  } else if (data.training && fit_.validation_split > 0) {
    errors.check([&] {
      ValidationSplit split = document_.find("fit")->find("validation_split")->located([&] {
        return split_for_validation(data.training, fit_.validation_split);
      });
      data = {std::move(split.training), std::move(split.validation)};
    });
  }
  return data;
}

TrainingData RunConfig::open_training() const {
  ConfigErrors errors;
  TrainingData data = open_training(errors);
  errors.raise();
  return data;
}

std::optional<LossData> RunConfig::loss_data(const Source& source, Mode mode,
                                             const Source* validation) const {
  if (mode == Mode::predict) return std::nullopt;
  if (mode != Mode::train || fit_.class_weight.empty()) {
    return loss_data_of(source, validation, {});
  }
  const ConfigNode weights = *document_.find("fit")->find("class_weight");
  if (source.readable() && source.target_count() == 1) {
    ConfigErrors errors;
    for (const ConfigEntry& entry : weights.entries()) {
      errors.check([&] {
        entry.key.located(
            [&] { (void)class_number(entry.name, source.texts_of(source.feature_count())); });
      });
    }
    errors.raise();
  }
  return weights.located([&] { return loss_data_of(source, validation, fit_.class_weight); });
}

std::vector<std::string> RunConfig::compared_outputs() const {
  std::vector<std::string> names;
  if (graph_->outputs.size() == 1) return names;
  for (const WrittenOutput& output : outputs_) {
    if (output.training.loss || !has_loss()) names.push_back(output.name);
  }
  return names;
}

std::vector<std::string> RunConfig::exact_fields() const {
  std::vector<std::string> names;
  for (const TensorId input : graph_->inputs) {
    const GraphTensor& tensor = graph_->tensors[input];
    if (is_integer(tensor.type)) names.push_back(tensor.path);
  }
  for (const WrittenOutput& output : outputs_) {
    const SharedLoss& loss = output.training.loss;
    if (!loss || !is_integer(loss->target_type())) continue;
    names.push_back(graph_->outputs.size() == 1 ? "targets" : output.name);
  }
  return names;
}

Objective RunConfig::objective(const Source& source, Mode mode, DataPart part) const {
  if (mode == Mode::predict) {
    return without_objective(graph_);
  }
  const ConfigNode loss = ConfigReader(document_).required_node("loss", "a loss, such as mse");
  const LossData all = *loss_data(source, mode);
  const auto compared =
      static_cast<std::size_t>(std::count_if(outputs_.begin(), outputs_.end(), [](const auto& one) {
        return one.training.loss != nullptr;
      }));
  if (all.targets.size() != compared) {
    node_of(part).fail("the {} has {} targets, but {} outputs of the model have a loss",
                       words_for(part), all.targets.size(), compared);
  }
  // What does not fit is found part by part, each with its place: losses and metrics one by one.
  ConfigErrors errors;
  std::vector<OutputTraining> outputs, losses;
  auto target = all.targets.begin();
  for (const WrittenOutput& output : outputs_) {
    outputs.push_back(output.training);
    losses.push_back({output.training.loss, output.training.weight});
    if (!output.training.loss) continue;
    std::vector<OutputTraining> only(outputs_.size());
    OutputTraining& own = only[losses.size() - 1];
    own.loss = output.training.loss;
    const LossData data{.targets = {*target++}};
    const auto join = [&] { (void)with_objective(*graph_, only, data); };
    if (!errors.check([&] { output.loss->located(join); })) continue;
    for (std::size_t i = 0; i < output.metrics.size(); ++i) {
      own.metrics = {output.training.metrics[i]};
      errors.check([&] { output.metrics[i].located(join); });
    }
  }
  errors.raise();
  LossData data{.targets = all.targets};
  const auto join = [&] { (void)with_objective(*graph_, losses, data); };
  if (all.weights) {
    data.weights = all.weights;
    const ConfigNode samples = node_of(part);
    errors.check([&] { samples.find("sample_weights").value_or(samples).located(join); });
    data.weights.reset();
  }
  if (!all.class_weight.empty()) {
    data.class_weight = all.class_weight;
    errors.check([&] { document_.find("fit")->find("class_weight")->located(join); });
  }
  errors.raise();
  return loss.located([&] { return with_objective(*graph_, outputs, all); });
}

void RunConfig::check_shapes(const Source& source, DataPart part, Mode mode) const {
  const ConfigNode node = node_of(part);
  ConfigErrors errors;
  for (std::size_t i = 0; i < graph_->inputs.size(); ++i) {
    const GraphTensor& input = graph_->tensors[graph_->inputs[i]];
    const Shape sample(input.shape.begin() + 1, input.shape.end());
    // `with_shape` wraps the source without looking at its rows; the view is not kept.
    const std::shared_ptr<const Source> borrowed(std::shared_ptr<const Source>(), &source);
    try {
      (void)with_shape(borrowed, static_cast<int>(i), sample);
    } catch (const Error& error) {
      errors.add(node.error(fmt::format("the model's input \"{}\": {}", input.path, error.what())));
    }
  }
  errors.check([&] {
    if (mode == Mode::predict) return;
    if (source.target_count() == 0) {
      node.fail("the {} has no targets, which a loss needs", words_for(part));
    }
    const Objective joined = objective(source, mode, part);
    if (part != DataPart::train || mode != Mode::train || fit_.augment.empty()) return;
    document_.find("augment")->located([&] { check_augment(fit_.augment, joined); });
  });
  errors.raise();
}

void RunConfig::check_data(const Source& source, DataPart part, const MeshShape& mesh,
                           Mode mode) const {
  check_shapes(source, part, mode);
  if (!source.readable()) return;
  if (part != DataPart::train || mode != Mode::train) {
    // Fewer samples than a batch are one short batch.
    if (source.rows() < 1) node_of(part).fail("{}: there are no samples", words_for(part));
    return;
  }
  const std::optional<Axis> axis = batch_axis(mesh);
  // Without samples the data are wrong, else how many a batch has of them.
  const std::optional<ConfigNode> data = document_.find("data");
  const std::optional<ConfigNode> batch_size = data ? data->find("batch_size") : std::nullopt;
  const ConfigNode wrong = source.rows() > 0 && batch_size ? *batch_size : node_of(part);
  wrong.located([&] {
    check_batching(source.rows(), fit_.batch_size, fit_.walk.micro_batches,
                   axis ? mesh.size(*axis) : 1, axis ? mesh.name(*axis) : "", words_for(part));
  });
}

void RunConfig::check_samples(const std::shared_ptr<const Source>& source, DataPart part, Mode mode,
                              const Communicator& communicator,
                              const StopRequest* stop_request) const {
  if (!source->readable()) return;
  const Objective joined = objective(*source, mode, part);
  std::vector<FeedField> fields;
  const auto add_field = [&](TensorId tensor, std::int64_t classes,
                             std::optional<std::int64_t> no_class) {
    const int field = static_cast<int>(fields.size());
    const ElementType computed = joined.graph->tensors[tensor].type;
    fields.push_back(
        {.field = field,
         .blocks = {},
         .classes = classes,
         .no_class = no_class,
         .whole = classes == 0 && may_be_no_whole_number(source->field(field).type, computed)});
  };
  for (const TensorId input : graph_->inputs) {
    add_field(input, graph_->classes_of(input), std::nullopt);
  }
  for (std::size_t i = 0; i < joined.targets.size(); ++i) {
    add_field(joined.targets[i], joined.target_classes[i], joined.ignored_classes[i]);
  }
  const std::optional<int> weights = mode == Mode::predict ? std::nullopt : source->weights_field();
  const ConfigNode node = node_of(part);
  together(communicator, [&] {
    node.located([&] {
      for (const FeedField& field : fields) source->prepare(field.field);
      const Range share = block_range(source->rows(), communicator.size(), communicator.rank());
      const auto own = std::make_shared<Subset>(source, share.begin, share.end);
      for (const FeedField& field : fields) {
        const std::int64_t known = source->classes_by_construction(field.field);
        const bool fits = known > 0 && (field.whole || known <= field.classes);
        if ((field.whole || field.classes > 0) && !fits) check_values(own, field, stop_request);
      }
      if (weights) {
        source->prepare(*weights);
        const ConfigNode place = node.find("sample_weights").value_or(node);
        place.located([&] {
          check_values(own, {.field = *weights, .blocks = {}, .weights = true}, stop_request);
        });
      }
    });
  });
  int reason = stop_request != nullptr ? stop_request->reason() : 0;
  await_ranks(communicator);
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &reason, 1, MPI_INT, MPI_MAX, communicator.native()),
            "MPI_Allreduce");
  if (reason != 0) {
    throw Stopped(reason, fmt::format("stopped by {} while the samples were checked",
                                      stop_reason_name(reason)));
  }
}

void RunConfig::check_callbacks(const Source& source, bool validated) const {
  const Objective joined = objective(source, Mode::train);
  const ExpectedLogs logs{log_names_of(joined.names, compile_.gradient_norm, validated,
                                       CallbackList(fit_.callbacks).adds_logs()),
                          joined.better, fit_.checkpoint.directory,
                          compile_.optimizer.update_rule().average != nullptr, graph_};
  ConfigErrors errors;
  const auto check = [&](const ConfigNode& node, const auto& look) {
    errors.check([&] { node.located(look); });
  };
  for (std::size_t i = 0; i < fit_.callbacks.size(); ++i) {
    check(callback_nodes_[i], [&] { fit_.callbacks[i]->check(logs); });
  }
  if (const CheckpointOptions& options = fit_.checkpoint; !options.directory.empty()) {
    const auto node_of_key = [&](const char* key, const char* key_of_callback) {
      const auto node = checkpoint_node_->find(key);
      return node ? *node : checkpoint_node_->find(key_of_callback).value_or(*checkpoint_node_);
    };
    if (!options.best.empty()) {
      check(node_of_key("best", "monitor"), [&] { check_best_log(options.best, logs); });
    }
    check(node_of_key("directory", "filepath"), [&] {
      check_directory(options.directory);
      if (options.resume == Resume::never) check_unused(options.directory);
    });
  }
  errors.raise();
}

// ---- plan and model ----------------------------------------------------------------------------

Blueprint RunConfig::blueprint(const MeshShape& mesh) const {
  ConfigErrors errors;
  std::optional<LayoutMap> map;
  std::optional<Axis> axis;
  errors.check([&] { map.emplace(layouts(mesh)); });
  std::optional<PlaceMap> placed;
  errors.check([&] { placed.emplace(places(mesh)); });
  errors.raise();
  errors.check([&] { axis = batch_axis(mesh); });
  errors.raise();
  if (axis && std::ranges::binary_search(placed->axes(), *axis)) {
    ConfigReader(document_)
        .section("batch_axis")
        .fail(
            "the axis \"{}\" places layers, so it cannot split batches; name another, or ~ for "
            "none",
            mesh.name(*axis));
  }
  map = ConfigReader(document_).section("distribution").located([&] {
    return with_strategy(*map, spread_.strategy, *graph_, axis);
  });
  const auto draft = [&] {
    try {
      return Blueprint(graph_, *map, axis, spread_.distribution.unmatched_layouts, options_,
                       has_loss() ? std::optional(compile_) : std::nullopt);
    } catch (const Error& error) {
      throw ConfigReader(document_).section("layout").error_saying(error.what());
    }
  };
  Blueprint blueprint = draft();
  try {
    blueprint.place(*placed);
  } catch (const Error& error) {
    throw ConfigReader(document_).section("place").error_saying(error.what());
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const WrittenOutput& output = outputs_[i];
    if (!output.training.loss) continue;
    const std::string mismatch = mismatch_of(*graph_, graph_->outputs[i], output.training);
    if (mismatch.empty()) continue;
    const ConfigNode options = output.loss->single_entry().value;
    const auto said = options.is_map() ? options.find("from_logits") : std::nullopt;
    blueprint.warnings.emplace_back(said.value_or(*output.loss).error(mismatch).what());
  }
  return blueprint;
}

namespace {

// Throws `Error` for places that a step cannot have.
void check_places(const Blueprint& blueprint, std::int64_t rows) {
  const Plan& plan = blueprint.planned->plan;
  check_stages(plan);
  // An operation may write no variable that is used at other places. Only lowering tells whether it
  // writes one.
  const auto may_write_shared = [&](const PlannedOperation& operation) {
    for (std::size_t i = 0; i < operation.inputs.size(); ++i) {
      const int variable = plan.graph->tensors[operation.inputs[i]].variable;
      if (variable < 0 || plan.graph->variables[variable].options.trainable) continue;
      if (operation.needed[i].places != plan.tensors[operation.inputs[i]].layout.places)
        return true;
    }
    return false;
  };
  if (!blueprint.compiled || std::ranges::none_of(plan.operations, may_write_shared)) return;
  for (std::int64_t part = 0; part < plan.mesh.size_over(plan.placing); ++part) {
    (void)report_plan(plan, Mode::train, rows, plan.mesh.neighbour(0, plan.placing, part),
                      blueprint.compiled->update_rule(), {});
  }
}

// Where ranks have several places: checks these as they are written, for a mesh that has each of them
// on a rank of its own. So a mistake is told on every mesh.
void check_places_as_written(const RunConfig& config, const Blueprint& blueprint,
                             const std::optional<LossData>& data, std::int64_t rows) {
  constexpr std::int64_t most_checked = 256;  // ranks
  const MeshShape& mesh = blueprint.spread.mesh;
  const PlaceMap on_mesh = config.places(mesh);
  std::vector<MeshAxis> axes = mesh.axes();
  std::int64_t ranks = 1;
  bool shares = false;  // a rank has several places
  for (MeshAxis& axis : axes) {
    const std::int64_t places = on_mesh.places_on(axis.name);
    shares |= places > axis.size;
    axis.size = places;
    if (axis.size > most_checked / ranks) return;
    ranks *= axis.size;
  }
  if (!shares) return;
  Blueprint written = blueprint;
  written.planned.reset();
  written.spread.mesh = MeshShape(axes, ranks);
  written.spread.closed.clear();  // over other axes, which have one rank here
  PlaceMap places = config.places(written.spread.mesh);
  if (const auto& staged = places.staged()) places.stage_over(mesh.name(staged->axis));
  written.place(places);
  written.draw(data, rows);
  check_places(written, rows);
}

}  // namespace

const Plan& RunConfig::plan(Blueprint& blueprint, const Source& source, std::int64_t rows,
                            Mode mode, const Source* validation) const {
  (void)objective(source, mode);  // whose errors have places of their own
  const std::optional<LossData> data = loss_data(source, mode, validation);
  ConfigReader(document_).section("layout").located(
      [&] { blueprint.draw(data, mode == Mode::train ? fit_.walk.rows_at_once(rows) : rows); });
  const Plan& plan = blueprint.planned->plan;
  if (mode == Mode::train) {
    ConfigReader(document_).section("fit").located(
        [&] { (void)recomputed_spans(plan, fit_.walk.recompute); });
    ConfigReader(document_).section("place").located([&] {
      const std::int64_t rows_at_once = fit_.walk.rows_at_once(rows);
      check_places_as_written(*this, blueprint, data, rows_at_once);
      check_places(blueprint, rows_at_once);
    });
    const ConfigNode pipeline = ConfigReader(document_).section("pipeline");
    if (plan.staged) {
      pipeline.find("schedule").value_or(pipeline).located([&] {
        try {
          (void)actions_of(fit_.walk.schedule, plan.pipeline(std::ssize(fit_.walk.of(rows))));
        } catch (const Error& error) {
          fail("{} (mesh {})", error.what(), to_string(plan.mesh));
        }
      });
    }
    if (fit_.memory) {
      document_.find("fit")->find("memory")->located([&] {
        draw_within(*fit_.memory, blueprint, source, data, rows, fit_.walk,
                    traits_of_device(options_.device));
      });
    }
  }
  return plan;
}

PlanReport RunConfig::report(const Plan& plan, const Source& source, std::int64_t rows, Mode mode,
                             std::int64_t rank) const {
  // Views look at no rows; this one is not kept.
  const std::shared_ptr<const Source> fed =
      as_mixed(std::shared_ptr<const Source>(std::shared_ptr<const Source>(), &source),
               mode == Mode::train ? fit_.augment : std::vector<SharedMixing>());
  PlanReport report = report_run(plan, *fed, mode, rows, rank, compile_, options_.precision,
                                 traits_of_device(options_.device), fit_.walk);
  report.between_steps = collectives_between_steps(
      mode, plan.mesh.rank_count(), rank,
      mode == Mode::train ? fit_.callbacks : std::vector<SharedCallback>{},
      std::ssize(plan.graph->variables), reduced_values(adapted_layers(*graph_)));
  const bool evaluates_elsewhere = std::ranges::any_of(
      roles_.entries, [](const RoleRanks& role) { return role.class_name == evaluating_role; });
  if (mode == Mode::train && evaluates_elsewhere) {
    const auto weights = weights_for_evaluators(plan, rank, fit_.validation_freq);
    report.between_steps.insert(report.between_steps.end(), weights.begin(), weights.end());
  }
  return report;
}

Model RunConfig::make_model(DeviceMesh& mesh) const {
  return make_model(mesh, blueprint(mesh.shape()));
}

Model RunConfig::make_model(DeviceMesh& mesh, Blueprint blueprint) const {
  try {
    return Model(std::move(blueprint), mesh);
  } catch (const OptionError& error) {
    throw ConfigReader(document_).section(error.option()).error(error.what());
  }
}

}  // namespace meshwork
