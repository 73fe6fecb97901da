#include "runtime/graph/layer_config.h"

#include <array>

namespace meshwork {
namespace {

const ChoiceTable<Activation>& activations() {
  static const auto all =
      by_name(std::array{Activation::linear, Activation::relu, Activation::gelu,
                         Activation::sigmoid, Activation::tanh, Activation::softmax});
  return all;
}

}  // namespace

void from_config(const ConfigNode& node, Activation& activation) {
  activation = node.is_null() ? Activation::linear : node.choice(activations());
}

std::string to_text(Activation activation) {
  return std::string(name_of(activation));
}

std::string expected_of(Activation) {
  return names_in(activations());
}

std::string to_text(const Initializer& initializer) {
  for (const NamedInitializer& one : named_initializers()) {
    if (initializer == one.initializer) return one.name;
  }
  return "an initializer with options of its own";
}

void from_config(const ConfigNode& node, Regularizer& regularizer, const Catalog& catalog) {
  regularizer = node.is_null() ? Regularizer{} : catalog.make<Regularizer>(node);
}

std::string to_text(const Regularizer& regularizer) {
  return regularizer.active() ? fmt::format("l1 {}, l2 {}", regularizer.l1, regularizer.l2)
                              : "none";
}

}  // namespace meshwork
