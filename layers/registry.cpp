#include "layers/registry.h"

#include <utility>
#include <vector>

#include "layers/activation.h"
#include "layers/add.h"
#include "layers/batch_normalization.h"
#include "layers/concatenate.h"
#include "layers/conv2d_transpose.h"
#include "layers/convolution.h"
#include "layers/dense.h"
#include "layers/dropout.h"
#include "layers/flatten.h"
#include "layers/global_pooling.h"
#include "layers/permute.h"
#include "layers/pooling.h"
#include "layers/relu.h"
#include "layers/rescaling.h"
#include "layers/reshape.h"
#include "layers/softmax.h"
#include "layers/up_sampling2d.h"
#include "layers/zero_padding2d.h"
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
  registry.add("AveragePooling1D", average_pooling1d_from_config);
  registry.add("AveragePooling2D", average_pooling2d_from_config);
  registry.add("BatchNormalization", batch_normalization_from_config);
  registry.add("Concatenate", concatenate_from_config);
  registry.add("Conv1D", conv1d_from_config);
  registry.add("Conv2D", conv2d_from_config);
  registry.add("Conv2DTranspose", conv2d_transpose_from_config);
  registry.add("Dense", dense_from_config);
  registry.add("Dropout", dropout_from_config);
  registry.add("Flatten", flatten_from_config);
  registry.add("GlobalAveragePooling1D", global_average_pooling1d_from_config);
  registry.add("GlobalAveragePooling2D", global_average_pooling2d_from_config);
  registry.add("GlobalMaxPooling1D", global_max_pooling1d_from_config);
  registry.add("GlobalMaxPooling2D", global_max_pooling2d_from_config);
  registry.add("MaxPooling1D", max_pooling1d_from_config);
  registry.add("MaxPooling2D", max_pooling2d_from_config);
  registry.add("Permute", permute_from_config);
  registry.add("ReLU", relu_from_config);
  registry.add("Rescaling", rescaling_from_config);
  registry.add("Reshape", reshape_from_config);
  registry.add("Sequential", sequential_from_config);
  registry.add("Softmax", softmax_from_config);
  registry.add("UpSampling2D", up_sampling2d_from_config);
  registry.add("ZeroPadding2D", zero_padding2d_from_config);
}

}  // namespace meshwork
