#include "runtime/data/source_kinds.h"

#include <algorithm>

#include "runtime/config/nearest.h"

namespace meshwork {

std::vector<ConfigNode> features_of(const ConfigNode& node, std::span<const std::string> inputs,
                                    bool by_name) {
  if (!by_name) {
    if (inputs.size() != 1) {
      node.fail("the model has {} inputs, {}; expected a map with a feature for each",
                inputs.size(), quoted_list(inputs));
    }
    return {node};
  }
  for (const ConfigEntry& entry : node.entries()) {
    if (std::find(inputs.begin(), inputs.end(), entry.name) == inputs.end()) {
      throw entry.key.unknown("input of the model", {inputs.begin(), inputs.end()});
    }
  }
  std::vector<ConfigNode> features;
  for (const std::string& input : inputs) {
    const auto feature = node.find(input);
    if (!feature) {
      node.fail("there is no feature for the model's input \"{}\"", input);
    }
    features.push_back(*feature);
  }
  return features;
}

}  // namespace meshwork
