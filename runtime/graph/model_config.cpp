#include "runtime/graph/model_config.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "runtime/config/nearest.h"
#include "runtime/config/reader.h"
#include "runtime/graph/layer_config.h"

namespace meshwork {
namespace {

// Something in the model that has an output: an input or a layer.
struct Value {
  std::string name;  // "" for a layer without one
  SymbolicTensor symbol;
  ConfigNode node;  // where it was written
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
    const std::vector<SymbolicTensor> inputs = read_inputs();
    const ConfigNode& layers = *section_.layers.node;
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
    std::size_t output = values_.size() - 1;
    if (const auto several = reader_.node("outputs")) {
      refuse_outputs(*several);
    }
    if (const auto& named = section_.output.node) {
      if (named->is_sequence()) {
        refuse_outputs(*named);
      }
      output = find(*named);
    }
    reader_.finish();
    values_[output].used = true;
    for (const Value& value : values_) {
      if (!value.used) {
        value.node.fail(
            "nothing is made of this {}: no layer takes it, and it is not the model's output",
            &value - values_.data() < static_cast<std::ptrdiff_t>(inputs.size())
                ? "input"
                : "layer's output");
      }
    }
    if (output < inputs.size()) {
      values_[output].node.fail("the model's output is one of its inputs; it has to be a layer");
    }
    return {inputs, values_[output].symbol};
  }

 private:
  std::vector<SymbolicTensor> read_inputs() {
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
    std::vector<SymbolicTensor> inputs;
    for (const Value& value : values_) {
      inputs.push_back(value.symbol);
    }
    return inputs;
  }

  void add_input(const std::string& name, const ConfigNode& shape) {
    const Shape lengths = shape.as<std::vector<std::int64_t>>(positive);
    values_.push_back({name, shape.located([&] { return Input(lengths, name); }), shape});
  }

  // The name in a layer's options, without judging the rest of it.
  static std::string name_written(const ConfigNode& layer) {
    if (!layer.is_map()) {
      return "";
    }
    const ConfigEntry entry = layer.single_entry("a layer");
    if (!entry.value.is_map()) {
      return "";
    }
    const auto name = entry.value.find("name");
    return name && name->is_scalar() ? name->as<std::string>() : "";
  }

  void read_layer(const ConfigNode& node) {
    const SharedLayer layer = catalog_->make<SharedLayer>(node);
    const ConfigEntry entry = node.single_entry("a layer");
    const std::optional<ConfigNode> named =
        entry.value.is_null() ? std::nullopt : entry.value.find("inputs");
    std::vector<SymbolicTensor> operands;
    for (const std::size_t operand : named ? find_all(*named) : previous(entry.key)) {
      values_[operand].used = true;
      operands.push_back(values_[operand].symbol);
    }
    const std::string& name = layer.layer().name();
    if (!name.empty()) {
      for (const Value& value : values_) {
        if (value.name == name) {
          entry.value.find("name").value_or(node).fail(
              "there is {} \"{}\" already, at {}; names must differ",
              is_input(value) ? "an input" : "a layer", name, value.node.location());
        }
      }
    }
    values_.push_back({name, entry.key.located([&] { return layer(operands); }), entry.key});
  }

  [[nodiscard]] bool is_input(const Value& value) const { return !value.symbol.call()->layer; }

  [[noreturn]] static void refuse_outputs(const ConfigNode& node) {
    node.fail(
        "a model has one output, which its loss compares with targets; give the name of one layer "
        "as `output`, and join several by a layer such as Concatenate");
  }

  // What a layer takes that does not say.
  std::vector<std::size_t> previous(const ConfigNode& layer) const {
    if (is_input(values_.back()) && values_.size() > 1) {
      layer.fail(
          "the model has {} inputs, so its first layer has to say which it takes: "
          "`inputs: {}`, or a list of them",
          values_.size(), values_.front().name);
    }
    return {values_.size() - 1};
  }

  std::vector<std::size_t> find_all(const ConfigNode& names) const {
    if (!names.is_sequence()) {
      return {find(names)};
    }
    std::vector<std::size_t> found;
    for (const ConfigNode& name : names.elements()) {
      found.push_back(find(name));
    }
    if (found.empty()) {
      names.fail("the list is empty; expected the names of layers or inputs");
    }
    return found;
  }

  std::size_t find(const ConfigNode& node) const {
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
    throw node.unknown("layer or input", known);
  }

  ConfigReader reader_;
  const Catalog* catalog_;
  ModelSection section_;
  std::vector<Value> values_;          // inputs, then layers
  std::vector<std::string> upcoming_;  // the names of all layers, as written
};

}  // namespace

ConfiguredModel model_from_config(const ConfigNode& model, const Catalog& catalog) {
  return ModelReader(model, catalog).read();
}

}  // namespace meshwork
