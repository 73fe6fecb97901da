// Variables that lead to no loss: a layer whose output is that of its first sub-layer, beside which
// it calls others that nobody reads.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/graph/layer.h"

namespace meshwork::test {

class AsideLayer : public Layer {
 public:
  AsideLayer(SharedLayer used, std::vector<SharedLayer> unused)
      : Layer("all"), used_(std::move(used)), unused_(std::move(unused)) {}
  [[nodiscard]] std::string class_name() const override { return "Aside"; }
  [[nodiscard]] TensorId build(LayerBuilder& builder,
                               std::span<const TensorId> inputs) const override {
    const TensorId output = builder.call(used_.pointer(), inputs);
    for (const SharedLayer& layer : unused_) {
      (void)builder.call(layer.pointer(), inputs);
    }
    return output;
  }

 private:
  SharedLayer used_;
  std::vector<SharedLayer> unused_;
};

/// Paths begin with "all/".
[[nodiscard]] inline SharedLayer Aside(SharedLayer used, std::vector<SharedLayer> unused) {
  return SharedLayer(std::make_shared<AsideLayer>(std::move(used), std::move(unused)));
}

}  // namespace meshwork::test
