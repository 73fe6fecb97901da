#include "runtime/graph/layer_config.h"

#include <fmt/format.h>

#include "collectives/joined_text.h"

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
  return initializer.plain ? initializer.name : "an initializer with options of its own";
}

void from_config(const ConfigNode& node, Regularizer& regularizer, const Catalog& catalog) {
  regularizer = node.is_null() ? Regularizer{} : catalog.make<Regularizer>(node);
}

std::string to_text(const Regularizer& regularizer) {
  if (!regularizer.active()) return "none";
  return fmt::format("{} of {}", regularizer.name, words_of(regularizer.settings));
}

void from_config(const ConfigNode& node, Constraint& constraint, const Catalog& catalog) {
  constraint = node.is_null() ? Constraint{} : catalog.make<Constraint>(node);
}

std::string to_text(const Constraint& constraint) {
  return constraint.active() ? constraint.name : "none";
}

void from_config(const ConfigNode& node, ConstrainedAxis& axis) {
  axis.dimensions = node.is_sequence() ? node.as<std::vector<std::int64_t>>()
                                       : std::vector{node.as<std::int64_t>()};
}

std::string to_text(const ConstrainedAxis& axis) {
  const auto& all = axis.dimensions;
  return all.size() == 1 ? fmt::format("{}", all.front())
                         : fmt::format("[{}]", joined_text(all, ", "));
}

}  // namespace meshwork
