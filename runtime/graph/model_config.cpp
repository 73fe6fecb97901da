#include "runtime/graph/model_config.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "runtime/config/nearest.h"
#include "runtime/config/reader.h"
#include "runtime/graph/freeze.h"
#include "runtime/graph/layer_config.h"

namespace meshwork {
namespace {

// Something in the model that has an output: an input or a layer.
struct Value {
  std::string name;                       // "" for a layer without one
  std::optional<SymbolicTensor> symbol;   // none for one in which something is wrong
  std::optional<SharedLayer> layer = {};  // which makes it
  ConfigNode node;                        // where it was written
  bool is_input = false;
  bool used = false;
};

class ModelReader {
 public:
  ModelReader(const ConfigNode& model, const Catalog& catalog)
      : reader_(model, "model"), catalog_(&catalog) {
    OptionReader option(reader_, catalog);
    describe(section_, option);
  }

  ConfiguredModel read() {
    inputs_known_ = reader_.check([&] { read_inputs(); });
    const std::size_t inputs = values_.size();
    if (const auto& layers = section_.layers.node) {
      reader_.check([&] { read_layers(*layers); });
    }
    std::vector<std::size_t> outputs;
    reader_.check([&] { outputs = read_outputs(); });
    std::vector<FrozenKey> frozen;
    if (const auto& listed = section_.frozen.node) {
      reader_.check([&] { frozen = read_frozen(*listed); });
    }
    reader_.finish();
    return {symbols(inputs), symbols_of_outputs(outputs), std::move(frozen)};
  }

 private:
  using Found = std::optional<std::size_t>;  // an index; none for what cannot be known

  void read_inputs() {
    const std::optional<ConfigNode>& one = section_.input.node;
    const std::optional<ConfigNode>& several = section_.inputs.node;
    if (one && several) {
      several->fail("the model has `input` already, at {}; give one of the two", one->location());
    }
    if (several) {
      for (const ConfigEntry& entry : several->entries()) {
        add_input(entry.name, entry.value);
      }
      if (values_.empty()) {
        several->fail("the model has no inputs; expected a map of names and shapes");
      }
    } else {
      add_input("input",
                reader_.required_node("input", "the shape of a sample, such as [28, 28, 1]"));
    }
  }

  std::vector<std::size_t> read_outputs() const {
    const std::optional<ConfigNode>& one = section_.output.node;
    const std::optional<ConfigNode>& several = section_.outputs.node;
    if (one && several) {
      several->fail("the model has `output` already, at {}; give one of the two", one->location());
    }
    std::vector<std::size_t> outputs;
    if (!one && !several) {
      outputs.push_back(values_.size() - 1);
      return outputs;
    }
    if (one && one->is_sequence()) {
      one->fail("expected the name of a layer, found a list; several are listed under `outputs`");
    }
    ConfigErrors errors;
    for (const ConfigNode& name : one ? std::vector{*one} : several->elements()) {
      errors.check([&] {
        const Found found = find(name);
        if (!found) return;
        if (std::count(outputs.begin(), outputs.end(), *found) > 0) {
          name.fail("the layer \"{}\" is listed twice", name.as<std::string>());
        }
        outputs.push_back(*found);
      });
    }
    errors.raise();
    if (several && outputs.empty()) several->fail("the list is empty; expected names of layers");
    return outputs;
  }

  static std::vector<FrozenKey> read_frozen(const ConfigNode& listed) {
    std::vector<FrozenKey> keys;
    ConfigErrors errors;
    for (const ConfigNode& key : listed.elements()) {
      errors.check([&] {
        key.located([&] { keys.push_back({PathPattern("key", key.as<std::string>()), key}); });
      });
    }
    errors.raise();
    return keys;
  }

  void add_input(const std::string& name, const ConfigNode& written) {
    Value& value = values_.emplace_back(Value{.name = name, .node = written, .is_input = true});
    reader_.check([&] {
      InputOptions options;
      if (written.is_map()) {
        options = read_options<InputOptions>(written, *catalog_, "input");
      } else {
        options.shape = written.as<std::vector<std::int64_t>>(positive);
      }
      value.symbol = written.located([&] {
        (void)element_count(options.shape);  // throws for too many
        return Input(options.shape, name, options.dtype);
      });
    });
  }

  void read_layers(const ConfigNode& layers) {
    const std::vector<ConfigNode> written = layers.elements();
    if (written.empty()) {
      layers.fail("the model has no layers");
    }
    for (const ConfigNode& layer : written) {
      upcoming_.push_back(name_written(layer));
    }
    for (const ConfigNode& layer : written) {
      read_layer(layer);
    }
  }

  // The name in a layer's options, without judging the rest of it.
  static std::string name_written(const ConfigNode& layer) {
    if (!layer.is_map() || layer.entries().size() != 1) {
      return "";
    }
    const ConfigNode options = layer.entries().front().value;
    const auto name = options.is_map() ? options.find("name") : std::nullopt;
    return name && name->is_scalar() ? name->as<std::string>() : "";
  }

  // The layer that `node` calls again by its name; null for one of the catalog's.
  const Value* called_again(const ConfigNode& node) const {
    const std::string name = node.single_entry(KindOf<SharedLayer>::article).name;
    if (catalog_->find<SharedLayer>(name) != nullptr) return nullptr;
    std::vector<std::string> known = catalog_->names_like<SharedLayer>(name);
    for (const Value& value : values_) {
      if (value.is_input || value.name.empty()) continue;
      if (value.name == name) return &value;
      known.push_back(value.name);
    }
    const ConfigNode written = node.single_entry().key;
    if (std::count(upcoming_.begin(), upcoming_.end(), name) > 0) {
      written.fail("the layer \"{}\" stands further down; it is called again below it", name);
    }
    throw written.unknown("layer", known);
  }

  // A layer in which something is wrong, or of whose operands something is, has no output that
  // others could be judged by.
  void read_layer(const ConfigNode& node) {
    Value value{.name = name_written(node), .node = node};
    bool again = false;
    reader_.check([&] {
      if (const Value* const earlier = called_again(node)) {
        again = true;
        ConfigReader call(node.single_entry().value);
        (void)call.node("inputs");
        (void)call.node("name");
        call.finish();
        value.layer = earlier->layer;
      } else {
        value.layer = catalog_->make<SharedLayer>(node);
        value.name = value.layer->layer().name();
      }
    });
    reader_.check([&] {
      const ConfigEntry entry = node.single_entry("a layer");
      value.node = entry.key;
      const std::optional<ConfigNode> named =
          entry.value.is_null() ? std::nullopt : entry.value.find("inputs");
      std::vector<std::optional<SymbolicTensor>> operands;
      for (const std::optional<std::size_t> operand :
           named ? find_all(*named) : previous(entry.key)) {
        operands.push_back(operand ? values_[*operand].symbol : std::nullopt);
        if (operand) values_[*operand].used = true;
      }
      check_name(value.name, entry.value, node);
      const bool known = std::all_of(operands.begin(), operands.end(),
                                     [](const auto& operand) { return operand.has_value(); });
      if (value.layer && known) {
        std::vector<SymbolicTensor> inputs;
        for (const auto& operand : operands) inputs.push_back(*operand);
        value.symbol = entry.key.located([&] { return (*value.layer)(inputs); });
        // A block of nothing, which moves no data, has the name of the call.
        if (again && !value.name.empty()) {
          value.symbol =
              entry.key.located([&] { return Sequential({}, value.name)(*value.symbol); });
        }
      }
    });
    values_.push_back(std::move(value));
  }

  void check_name(const std::string& name, const ConfigNode& options, const ConfigNode& layer) {
    for (const Value& value : values_) {
      if (!name.empty() && value.name == name) {
        options.find("name").value_or(layer).fail(
            "there is {} \"{}\" already, at {}; names must differ",
            value.is_input ? "an input" : "a layer", name, value.node.location());
      }
    }
  }

  // Of the first `count` values, when nothing is wrong.
  std::vector<SymbolicTensor> symbols(std::size_t count) const {
    std::vector<SymbolicTensor> symbols;
    for (std::size_t i = 0; i < count; ++i) symbols.push_back(*values_[i].symbol);
    return symbols;
  }

  std::vector<SymbolicTensor> symbols_of_outputs(const std::vector<std::size_t>& outputs) {
    for (const std::size_t output : outputs) values_[output].used = true;
    ConfigErrors errors;
    for (const Value& value : values_) {
      if (!value.used) {
        errors.add(value.node.error(fmt::format(
            "nothing is made of this {}: no layer takes it, and it is no output of the model",
            value.is_input ? "input" : "layer's output")));
      }
    }
    errors.raise();
    std::vector<SymbolicTensor> symbols;
    for (const std::size_t output : outputs) {
      if (values_[output].is_input) {
        values_[output].node.fail("the model's output is one of its inputs; it has to be a layer");
      }
      symbols.push_back(*values_[output].symbol);
    }
    return symbols;
  }

  // What a layer takes that does not say.
  std::vector<Found> previous(const ConfigNode& layer) const {
    if (values_.empty()) {
      return {std::nullopt};
    }
    if (values_.back().is_input && values_.size() > 1) {
      layer.fail(
          "the model has {} inputs, so its first layer has to say which it takes: "
          "`inputs: {}`, or a list of them",
          values_.size(), values_.front().name);
    }
    return {values_.size() - 1};
  }

  std::vector<Found> find_all(const ConfigNode& names) const {
    if (!names.is_sequence()) {
      return {find(names)};
    }
    std::vector<Found> found;
    ConfigErrors errors;
    for (const ConfigNode& name : names.elements()) {
      errors.check([&] { found.push_back(find(name)); });
    }
    errors.raise();
    if (found.empty()) {
      names.fail("the list is empty; expected the names of layers or inputs");
    }
    return found;
  }

  Found find(const ConfigNode& node) const {
    const std::string name = node.as<std::string>();
    std::vector<std::string> known;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (values_[i].name == name && !name.empty()) {
        return i;
      }
      if (!values_[i].name.empty()) {
        known.push_back(values_[i].name);
      }
    }
    if (!name.empty() && std::count(upcoming_.begin(), upcoming_.end(), name) > 0) {
      node.fail("the layer \"{}\" stands further down; a layer takes the outputs of earlier ones",
                name);
    }
    if (!inputs_known_) {
      return std::nullopt;
    }
    throw node.unknown("layer or input", known);
  }

  ConfigReader reader_;
  const Catalog* catalog_;
  ModelSection section_;
  bool inputs_known_ = false;          // by their names, at least
  std::vector<Value> values_;          // inputs, then layers
  std::vector<std::string> upcoming_;  // the names of all layers, as written
};

}  // namespace

ConfiguredModel model_from_config(const ConfigNode& model, const Catalog& catalog) {
  return ModelReader(model, catalog).read();
}

std::optional<std::vector<std::string>> names_of_outputs(const ConfigNode& model) {
  std::vector<std::string> names;
  const auto outputs = model.is_map() ? model.find("outputs") : std::nullopt;
  if (!outputs) return names;
  if (!outputs->is_sequence()) return std::nullopt;
  for (const ConfigNode& output : outputs->elements()) {
    if (!output.is_scalar()) return std::nullopt;
    names.push_back(output.as<std::string>());
  }
  return names;
}

Graph graph_of(const ConfiguredModel& model) {
  Graph graph = make_graph(model.inputs, model.outputs);
  ConfigErrors errors;
  for (const auto& [pattern, node] : model.frozen) {
    errors.check([&] { node.located([&] { freeze(graph, pattern); }); });
  }
  errors.raise();
  return graph;
}

}  // namespace meshwork
