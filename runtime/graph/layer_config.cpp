#include "runtime/graph/layer_config.h"

namespace meshwork {
namespace {

const ChoiceTable<Activation>& activations() {
  // Keras's other names for some, the first of each being what it is called in all texts.
  static const auto all = [] {
    auto names = by_name(all_activations());
    names.emplace_back("swish", Activation::silu);
    names.emplace_back("hard_swish", Activation::hard_silu);
    names.emplace_back("celu", Activation::elu);  // equal at alpha 1
    return names;
  }();
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
