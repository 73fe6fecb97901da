// One layer that is called several times, as a configuration of a test writes it:
//
//     - Repeated: {name: l3, calls: 2, join: chain, layer: {BatchNormalization: {momentum: 0.5}}}
//
// The value is scaled and moved between calls, so that no two of them see the same numbers. With
// `join: chain` a call takes what the one before gave, with `join: mean` all take the block's input,
// each scaled once more, and the block gives the mean of their outputs: sums would let training
// diverge, which magnifies rounding.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "layers/add.h"
#include "layers/rescaling.h"
#include "runtime/graph/layer_config.h"

namespace meshwork::test {

class RepeatedLayer : public LayerBlock {
 public:
  RepeatedLayer(SharedLayer layer, std::int64_t calls, bool chain, std::string name)
      : LayerBlock(std::move(name)), layer_(std::move(layer)), calls_(calls), chain_(chain) {}
  [[nodiscard]] std::string class_name() const override { return "Repeated"; }
  [[nodiscard]] SymbolicTensor call(const std::vector<SymbolicTensor>& inputs) const override {
    SymbolicTensor input = inputs.front();
    std::vector<SymbolicTensor> outputs{layer_(input)};
    while (static_cast<std::int64_t>(outputs.size()) < calls_) {
      input = between_(chain_ ? outputs.back() : input);
      outputs.push_back(layer_(input));
    }
    return chain_ ? outputs.back() : mean_(sum_(outputs));
  }

 private:
  SharedLayer layer_;
  std::int64_t calls_;
  bool chain_;
  SharedLayer between_ = Rescaling({.scale = -1.5f, .offset = 0.25f});
  SharedLayer sum_ = Add();
  SharedLayer mean_ = Rescaling({.scale = 1.0f / static_cast<float>(calls_)});
};

inline void add_repeated(Catalog& catalog) {
  const auto make = [](const ConfigNode& node, const Catalog& all) {
    std::string name, join;
    std::int64_t calls = 2;
    ConfigReader reader(node);
    OptionVisitor option = option_reader(reader, all);
    option("name", name, "of the layer");
    static_cast<void>(reader.node("inputs"));
    option.required("calls", calls, positive, "how many there are");
    option.required("join", join, "chain or mean");
    const auto layer = all.make<SharedLayer>(reader.required_node("layer", "a layer"));
    reader.finish();
    return SharedLayer(std::make_shared<RepeatedLayer>(layer, calls, join == "chain", name));
  };
  catalog.enter<SharedLayer>({"Repeated", {}, make, {}});
}

}  // namespace meshwork::test
