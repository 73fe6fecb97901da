#include "layers/registry.h"

#include <utility>
#include <vector>

#include "layers/activation.h"
#include "layers/add.h"
#include "layers/concatenate.h"
#include "layers/dense.h"
#include "layers/dropout.h"
#include "layers/flatten.h"
#include "layers/rescaling.h"
#include "layers/reshape.h"
#include "runtime/graph/layer_config.h"

namespace meshwork {
namespace {

SharedLayer sequential_from_config(const ConfigNode& node, const LayerRegistry& registry) {
  std::string name;
  ConfigReader reader = layer_reader(node, name);
  std::vector<SharedLayer> layers;
  for (const ConfigNode& layer : reader.required_node("layers", "a list of layers").elements()) {
    const ConfigEntry entry = layer.single_entry("a layer");
    if (const auto inputs = entry.value.is_map() ? entry.value.find("inputs") : std::nullopt) {
      inputs->fail("the layers of a Sequential stand one after the other, each with one input");
    }
    layers.push_back(registry.make(layer));
  }
  reader.finish();
  return Sequential(std::move(layers), std::move(name));
}

}  // namespace

void register_layers(LayerRegistry& registry) {
  registry.add("Activation", activation_from_config);
  registry.add("Add", add_from_config);
  registry.add("Concatenate", concatenate_from_config);
  registry.add("Dense", dense_from_config);
  registry.add("Dropout", dropout_from_config);
  registry.add("Flatten", flatten_from_config);
  registry.add("Rescaling", rescaling_from_config);
  registry.add("Reshape", reshape_from_config);
  registry.add("Sequential", sequential_from_config);
}

}  // namespace meshwork
