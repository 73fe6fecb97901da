// What options of layers are made of, and how messages speak of layers (catalog.h).
//
//     template <class Visitor>
//     void describe(ScaleOptions& options, Visitor& option) {
//       describe_name(options, option);
//       option.required("factor", options.factor, any_finite, "what inputs are multiplied by");
//     }
//
//     void add_scale(Catalog& catalog) { catalog.add<SharedLayer, ScaleOptions>("Scale", {}, Scale); }
//
// An Activation, an Initializer, a Regularizer and a Constraint are options, too:
//
//     activation: relu                                   # ~ is linear
//     kernel_initializer: he_normal
//     kernel_initializer: {VarianceScaling: {scale: 2.0, mode: fan_in, distribution: uniform}}
//     kernel_regularizer: {L2: 0.01}                     # L1, {L1L2: {l1: 0.001, l2: 0.01}}
//     kernel_constraint: {MaxNorm: {max_value: 3}}
//
// Names and defaults are Keras's.
#pragma once

#include <string>
#include <vector>

#include "runtime/config/catalog.h"
#include "runtime/device/kernels/activation.h"
#include "runtime/graph/graph.h"
#include "runtime/graph/initializer.h"
#include "runtime/graph/layer.h"

namespace meshwork {

template <>
struct KindOf<SharedLayer> {
  static constexpr const char* word = "layer";
  static constexpr const char* article = "a layer";
  /// What the layer is called on, which belongs to the model's description (model_config.h).
  static std::vector<std::string> other_keys() { return {"inputs"}; }
};

template <>
struct KindOf<Initializer> {
  static constexpr const char* word = "initializer";
  static constexpr const char* article = "an initializer";
};
template <>
struct KindOf<Regularizer> {
  static constexpr const char* word = "regularizer";
  static constexpr const char* article = "a regularizer";
};
template <>
struct KindOf<Constraint> {
  static constexpr const char* word = "constraint";
  static constexpr const char* article = "a constraint";
};

/// The option that every layer has.
template <class Options, class Visitor>
void describe_name(Options& options, Visitor& option) {
  option("name", options.name,
         "name of the layer, and prefix of its variables' paths; empty: derived from the class");
}

/// The options of a layer that begin with `name`, that of a variable: how it begins, what its size
/// costs, what it is held to. `words` speak of it: "the kernel".
template <class Visitor>
void describe_variable(Visitor& option, const std::string& name, const std::string& words,
                       Initializer& initializer, Regularizer& regularizer, Constraint& constraint) {
  option((name + "_initializer").c_str(), initializer, ("initial values of " + words).c_str());
  option((name + "_regularizer").c_str(), regularizer, ("penalty on " + words).c_str());
  option((name + "_constraint").c_str(), constraint,
         ("constraint on " + words + " after an update").c_str());
}

void from_config(const ConfigNode& node, Activation& activation);
[[nodiscard]] std::string to_text(Activation activation);
[[nodiscard]] std::string expected_of(Activation activation);
[[nodiscard]] std::string to_text(const Initializer& initializer);
/// Null is none.
void from_config(const ConfigNode& node, Regularizer& regularizer, const Catalog& catalog);
[[nodiscard]] std::string to_text(const Regularizer& regularizer);
void from_config(const ConfigNode& node, Constraint& constraint, const Catalog& catalog);
[[nodiscard]] std::string to_text(const Constraint& constraint);
void from_config(const ConfigNode& node, ConstrainedAxis& axis);
[[nodiscard]] std::string to_text(const ConstrainedAxis& axis);

}  // namespace meshwork
