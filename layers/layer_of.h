// A layer of its options and a function that builds it, which is all that most layers are.
//
//     SharedLayer Dropout(DropoutOptions options) {
//       return layer_of("Dropout", std::move(options),
//                       [](const DropoutOptions& of, LayerBuilder& builder, TensorId x) {
//                         return builder.apply(std::make_unique<DropoutOperation>(of.rate), {x});
//                       });
//     }
#pragma once

#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "collectives/error.h"
#include "runtime/graph/layer.h"
#include "runtime/graph/layer_config.h"

namespace meshwork {

/// How messages call a layer whose options are wrong: by its name, else by its class.
[[nodiscard]] inline std::string called(const std::string& name, const std::string& class_name) {
  return name.empty() ? class_name : name;
}

template <class Options, class Build>
class LayerOf final : public Layer {
 public:
  LayerOf(std::string class_name, Options options, Build build)
      : Layer(options.name),
        class_name_(std::move(class_name)),
        options_(std::move(options)),
        build_(std::move(build)) {
    if constexpr (requires { options_.trainable; }) set_trainable(options_.trainable);
  }

  std::string class_name() const override { return class_name_; }

  std::string part_in_keras(const std::string& part) const override {
    if constexpr (requires { Options::part_in_keras(part); }) {
      return Options::part_in_keras(part);
    } else {
      return part;
    }
  }

  TensorId build(LayerBuilder& builder, std::span<const TensorId> inputs) const override {
    if constexpr (std::is_invocable_v<const Build&, const Options&, LayerBuilder&, TensorId>) {
      if (inputs.size() != 1) {
        fail("expected one input, found {}", inputs.size());
      }
      return build_(options_, builder, inputs.front());
    } else {
      return build_(options_, builder, inputs);
    }
  }

 private:
  std::string class_name_;
  Options options_;
  Build build_;
};

/// A layer of Keras's class `class_name`, named `options.name`. `build(options, builder, x)` does
/// what Layer::build does, for a layer of one input, or `build(options, builder, inputs)` for one
/// of several. Throws `Error` for options outside the ranges that their description states.
template <class Options, class Build>
[[nodiscard]] SharedLayer layer_of(std::string class_name, Options options, Build build) {
  check_options(called(options.name, class_name), options);
  // make_shared would compile a control block for each layer. A pointer to the base needs one.
  return SharedLayer(std::shared_ptr<Layer>(static_cast<Layer*>(
      new LayerOf<Options, Build>(std::move(class_name), std::move(options), std::move(build)))));
}

}  // namespace meshwork
