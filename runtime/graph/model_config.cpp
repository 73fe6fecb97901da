#include "runtime/graph/model_config.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "runtime/config/reader.h"
#include "runtime/graph/freeze.h"
#include "runtime/graph/layer_list.h"

namespace meshwork {
namespace {

class ModelReader {
 public:
  ModelReader(const ConfigNode& model, const Catalog& catalog)
      : reader_(model, "model"), catalog_(&catalog), list_(catalog) {
    OptionVisitor option = option_reader(reader_, catalog);
    describe(section_, option);
  }

  ConfiguredModel read() {
    if (!reader_.check([&] { read_inputs(); })) list_.inputs_are_unknown();
    const std::size_t inputs = list_.values().size();
    if (const auto& layers = section_.layers.node) {
      reader_.check([&] { list_.read(*layers); });
    }
    std::vector<std::size_t> outputs;
    reader_.check([&] { outputs = read_outputs(); });
    std::vector<FrozenKey> frozen;
    if (const auto& listed = section_.frozen.node) {
      reader_.check([&] { frozen = read_frozen(*listed); });
    }
    reader_.finish();
    return {symbols(inputs), symbols_of(outputs), std::move(frozen)};
  }

 private:
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
      if (list_.values().empty()) {
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
      outputs.push_back(list_.values().size() - 1);
      return outputs;
    }
    if (one && one->is_sequence()) {
      one->fail("expected the name of a layer, found a list; several are listed under `outputs`");
    }
    ConfigErrors errors;
    for (const ConfigNode& name : one ? std::vector{*one} : several->elements()) {
      errors.check([&] {
        const LayerList::Found found = list_.find(name);
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
    LayerList::Value& value = list_.add_input(name, written);
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

  // Of the first `count` values, when nothing is wrong.
  std::vector<SymbolicTensor> symbols(std::size_t count) const {
    std::vector<SymbolicTensor> symbols;
    for (std::size_t i = 0; i < count; ++i) symbols.push_back(*list_.values()[i].symbol);
    return symbols;
  }

  std::vector<SymbolicTensor> symbols_of(const std::vector<std::size_t>& outputs) {
    list_.use(outputs);
    std::vector<SymbolicTensor> symbols;
    for (const std::size_t output : outputs) symbols.push_back(*list_.values()[output].symbol);
    return symbols;
  }

  ConfigReader reader_;
  const Catalog* catalog_;
  ModelSection section_;
  LayerList list_;
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
