// LayerRegistry: which layer classes a configuration can name, and how each is made of its options.
//
// The program fills one with the layers it was built with (layers/registry.h) and with those of the
// user's own shared libraries, and hands it on; there is no global one. A library of one's own
// defines
//
//     extern "C" void meshwork_register(meshwork::LayerRegistry& registry) {
//       registry.add("Scale", [](const meshwork::ConfigNode& options,
//                                const meshwork::LayerRegistry&) {
//         ...
//         return meshwork::SharedLayer(std::make_shared<Scale>(...));
//       });
//     }
//
// with a class derived from `Layer` (layer.h), and options read as in layer_config.h.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/config/node.h"
#include "runtime/graph/layer.h"

namespace meshwork {

class LayerRegistry {
 public:
  /// Makes a layer of its options, a map or null. Throws `ConfigError` for options that are wrong.
  /// The registry is there for layers that are made of layers.
  using Factory = std::function<SharedLayer(const ConfigNode& options, const LayerRegistry&)>;

  /// Throws `Error` if there is a class of that name already, or the name does not begin with a
  /// capital letter, by which configurations tell classes from options.
  void add(const std::string& class_name, Factory factory);
  [[nodiscard]] bool contains(const std::string& class_name) const;
  /// In alphabetical order.
  [[nodiscard]] std::vector<std::string> class_names() const;

  /// The layer written as `Dense: {units: 10}`, `Flatten:` or `Flatten`. Throws `ConfigError`: a
  /// class that there is not, with the nearest name; options that are wrong.
  [[nodiscard]] SharedLayer make(const ConfigNode& layer) const;

 private:
  std::map<std::string, Factory> factories_;
};

/// Loads the shared library in `path` and lets it add its layers to `registry`. The library stays
/// loaded until the process ends, since its layers may live as long. Throws `Error`: no such file,
/// one that cannot be loaded, one without `meshwork_register`, or what that throws.
void load_plugin(const std::string& path, LayerRegistry& registry);

}  // namespace meshwork
