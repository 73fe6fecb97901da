// Sequential in a configuration: a block of layers with a name of its own.
//
//     Sequential: {name: features, layers: [{Dense: {units: 10}}, Flatten]}
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "runtime/graph/layer_config.h"
#include "runtime/graph/layer_list.h"

namespace meshwork {
namespace {

struct Chain {
  static constexpr const char* expected = "a list of layers";
  std::vector<SharedLayer> layers;
};

struct SequentialOptions {
  std::string name;
  bool trainable = true;
  Chain layers;
};

void from_config(const ConfigNode& node, Chain& chain, const Catalog& catalog) {
  ConfigErrors errors;
  for (const ConfigNode& layer : node.elements()) {
    errors.check([&] {
      const ConfigEntry entry = layer.single_entry("a layer");
      if (const auto inputs = entry.value.is_map() ? entry.value.find("inputs") : std::nullopt) {
        inputs->fail("the layers of a Sequential stand one after the other, each with one input");
      }
      chain.layers.push_back(catalog.make<SharedLayer>(layer));
    });
  }
  errors.raise();
}

std::string to_text(const Chain& chain) {
  return fmt::format("{} layers", chain.layers.size());
}

template <class Visitor>
void describe(SequentialOptions& options, Visitor& option) {
  option.about("a block of layers, each on the output of the one before it");
  describe_name(options, option);
  option.required("layers", options.layers, "the layers in their order");
  option("trainable", options.trainable, "train the layers; false: keep their variables fixed");
}

}  // namespace

void add_sequential(Catalog& catalog) {
  catalog.add<SharedLayer, SequentialOptions>("Sequential", {}, [](SequentialOptions options) {
    SharedLayer block = Sequential(std::move(options.layers.layers), std::move(options.name));
    block.layer().set_trainable(options.trainable);
    return block;
  });
  // Lists of layers read it themselves, since its blocks stand in the list.
  catalog.add<SharedLayer, RepeatOptions>("Repeat", {}, [](const RepeatOptions&) -> SharedLayer {
    fail("a Repeat stands among the layers of a model, or of another Repeat");
  });
}

}  // namespace meshwork
