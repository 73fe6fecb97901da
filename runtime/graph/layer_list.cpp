#include "runtime/graph/layer_list.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "runtime/config/nearest.h"
#include "runtime/config/reader.h"
#include "runtime/graph/layer_config.h"

namespace meshwork {
namespace {

constexpr const char* repeat = "Repeat";

// The name in a layer's options, without judging the rest of it.
std::string name_written(const ConfigNode& layer) {
  if (!layer.is_map() || layer.entries().size() != 1) {
    return "";
  }
  if (layer.entries().front().name == repeat) return "";  // its blocks have others
  const ConfigNode options = layer.entries().front().value;
  const auto name = options.is_map() ? options.find("name") : std::nullopt;
  return name && name->is_scalar() ? name->as<std::string>() : "";
}

// Layers that are joined as a list says, under one name.
class ListedBlock final : public LayerBlock {
 public:
  ListedBlock(const std::string& name, std::vector<LayerList::Value> values)
      : LayerBlock(name), values_(std::move(values)) {}

  SymbolicTensor call(const std::vector<SymbolicTensor>& inputs) const override {
    if (inputs.size() != 1) fail("expected one input, found {}", inputs.size());
    std::vector<SymbolicTensor> symbols{inputs.front()};
    for (std::size_t i = 1; i < values_.size(); ++i) {
      const LayerList::Value& value = values_[i];
      std::vector<SymbolicTensor> operands;
      for (const std::size_t operand : value.operands) operands.push_back(symbols[operand]);
      const SymbolicTensor y = (*value.layer)(operands);
      symbols.push_back(value.rename ? (*value.rename)(y) : y);
    }
    return symbols.back();
  }

 private:
  std::vector<LayerList::Value> values_;  // the input, then layers
};

}  // namespace

LayerList::Value& LayerList::add_input(const std::string& name, const ConfigNode& written) {
  return values_.emplace_back(Value{.name = name, .node = written, .is_input = true});
}

void LayerList::read(const ConfigNode& layers) {
  const std::vector<ConfigNode> written = layers.elements();
  if (written.empty()) {
    layers.fail("{} has no layers", whole_);
  }
  for (const ConfigNode& layer : written) {
    upcoming_.push_back(name_written(layer));
  }
  for (const ConfigNode& layer : written) {
    const bool repeats =
        layer.is_map() && layer.entries().size() == 1 && layer.entries().front().name == repeat;
    repeats ? read_repeat(layer) : read_layer(layer);
  }
  errors_.raise();
}

// The layer that `node` calls again by its name; null for one of the catalog's.
const LayerList::Value* LayerList::called_again(const ConfigNode& node) const {
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

// What the layer that `entry` writes takes.
std::vector<LayerList::Found> LayerList::operands_of(const ConfigEntry& entry) {
  const std::optional<ConfigNode> named =
      entry.value.is_null() ? std::nullopt : entry.value.find("inputs");
  std::vector<Found> operands = named ? find_all(*named) : previous(entry.key);
  for (const Found operand : operands) {
    if (operand) values_[*operand].used = true;
  }
  return operands;
}

// Nothing if something is wrong with one of them.
std::optional<std::vector<SymbolicTensor>> LayerList::symbols_of(
    const std::vector<Found>& operands) {
  std::vector<SymbolicTensor> symbols;
  for (const Found operand : operands) {
    if (!operand || !values_[*operand].symbol) return std::nullopt;
    symbols.push_back(*values_[*operand].symbol);
  }
  return symbols;
}

// A layer in which something is wrong, or of whose operands something is, has no output that
// others could be judged by.
void LayerList::read_layer(const ConfigNode& node) {
  Value value{.name = name_written(node), .node = node};
  errors_.check([&] {
    if (const Value* const earlier = called_again(node)) {
      ConfigReader call(node.single_entry().value);
      (void)call.node("inputs");
      (void)call.node("name");
      call.finish();
      value.layer = earlier->layer;
      // A block of nothing, which moves no data, has the name of the call.
      if (!value.name.empty()) value.rename = Sequential({}, value.name);
    } else {
      value.layer = catalog_->make<SharedLayer>(node);
      value.name = value.layer->layer().name();
    }
  });
  errors_.check([&] {
    const ConfigEntry entry = node.single_entry("a layer");
    value.node = entry.key;
    const std::vector<Found> operands = operands_of(entry);
    for (const Found operand : operands) value.operands.push_back(operand.value_or(0));
    check_name(value.name, entry.value, node);
    const auto inputs = symbols_of(operands);
    if (value.layer && inputs) {
      value.symbol = entry.key.located([&] {
        const SymbolicTensor y = (*value.layer)(*inputs);
        return value.rename ? (*value.rename)(y) : y;
      });
    }
  });
  values_.push_back(std::move(value));
}

// The values of one after the other of its blocks.
void LayerList::read_repeat(const ConfigNode& node) {
  const ConfigEntry entry = node.single_entry();
  Value value{.node = entry.key};
  const bool whole = errors_.check([&] {
    const auto options = read_options<RepeatOptions>(entry.value, *catalog_, repeat,
                                                     KindOf<SharedLayer>::other_keys());
    const std::vector<Found> operands = operands_of(entry);
    if (options.count > most_blocks / copies_) {
      entry.value.find("count")->fail(
          "a Repeat in a Repeat: expected at most {} blocks in all, found {} times {}", most_blocks,
          copies_, options.count);
    }
    if (operands.size() != 1) {
      entry.value.find("inputs")->fail("a Repeat takes one input, found {}", operands.size());
    }
    std::optional<std::vector<SymbolicTensor>> inputs = symbols_of(operands);
    for (std::int64_t index = 0; index < options.count; ++index) {
      value.layer = block(options, index, entry.key);
      value.name = value.layer->layer().name();
      value.operands = {index == 0 ? operands.front().value_or(0) : values_.size() - 1};
      check_name(value.name, entry.value, node);
      value.symbol.reset();
      if (inputs) {
        value.symbol = entry.key.located([&] { return (*value.layer)(*inputs); });
        inputs = {*value.symbol};
      }
      value.used = index + 1 < options.count;
      values_.push_back(value);
    }
  });
  if (!whole) values_.push_back(Value{.node = entry.key});
}

SharedLayer LayerList::block(const RepeatOptions& options, std::int64_t index,
                             const ConfigNode& node) const {
  LayerList list(*catalog_, "the block");
  list.copies_ = copies_ * options.count;
  list.add_input("input", node);
  list.read(*options.layers.node);
  list.use({list.values_.size() - 1});
  return SharedLayer(std::make_shared<ListedBlock>(fmt::format("{}_{}", options.name, index),
                                                   std::move(list.values_)));
}

void LayerList::check_name(const std::string& name, const ConfigNode& options,
                           const ConfigNode& layer) const {
  for (const Value& value : values_) {
    if (!name.empty() && value.name == name) {
      options.find("name").value_or(layer).fail(
          "there is {} \"{}\" already, at {}; names must differ",
          value.is_input ? "an input" : "a layer", name, value.node.location());
    }
  }
}

void LayerList::use(const std::vector<std::size_t>& outputs) {
  for (const std::size_t output : outputs) values_[output].used = true;
  for (const Value& value : values_) {
    if (!value.used) {
      errors_.add(value.node.error(
          fmt::format("this {} is unused: no layer takes it, and it is no output of {}",
                      value.is_input ? "input" : "layer's output", whole_)));
    }
  }
  errors_.raise();
  for (const std::size_t output : outputs) {
    if (values_[output].is_input) {
      values_[output].node.fail("the output of {} is one of its inputs; it has to be a layer",
                                whole_);
    }
  }
}

// What a layer takes that does not say.
std::vector<LayerList::Found> LayerList::previous(const ConfigNode& layer) const {
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

std::vector<LayerList::Found> LayerList::find_all(const ConfigNode& names) const {
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

LayerList::Found LayerList::find(const ConfigNode& node) const {
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

}  // namespace meshwork
