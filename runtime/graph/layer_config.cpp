#include "runtime/graph/layer_config.h"

#include <utility>
#include <vector>

namespace meshwork {
namespace {

// Classes of initializers as configurations name them, by the name of the initializer.
const std::vector<std::pair<std::string, std::string>>& initializer_classes() {
  static const std::vector<std::pair<std::string, std::string>> classes{
      {"Zeros", "zeros"},
      {"Ones", "ones"},
      {"Constant", "constant"},
      {"RandomUniform", "random_uniform"},
      {"RandomNormal", "random_normal"},
      {"TruncatedNormal", "truncated_normal"},
      {"VarianceScaling", "variance_scaling"},
      {"GlorotUniform", "glorot_uniform"},
      {"GlorotNormal", "glorot_normal"},
      {"HeUniform", "he_uniform"},
      {"HeNormal", "he_normal"},
      {"LecunUniform", "lecun_uniform"},
      {"LecunNormal", "lecun_normal"},
  };
  return classes;
}

const ChoiceTable<Activation>& activations() {
  static const ChoiceTable<Activation> all{
      {"linear", Activation::linear}, {"relu", Activation::relu},
      {"gelu", Activation::gelu},     {"sigmoid", Activation::sigmoid},
      {"tanh", Activation::tanh},     {"softmax", Activation::softmax}};
  return all;
}

Initializer initializer_named(const ConfigEntry& entry) {
  std::vector<std::string> known;
  for (const auto& [class_name, name] : initializer_classes()) {
    if (entry.name == name || entry.name == class_name) {
      return initializer_by_name(name);
    }
    known.push_back(entry.value.is_null() ? name : class_name);
  }
  throw entry.key.unknown("initializer", known);
}

}  // namespace

void from_config(const ConfigNode& node, Activation& activation) {
  activation = node.is_null() ? Activation::linear : node.choice(activations());
}

std::string to_text(Activation activation) {
  for (const auto& [name, one] : activations()) {
    if (one == activation) return name;
  }
  internal_error("an activation without a name");
}

void from_config(const ConfigNode& node, Initializer& initializer) {
  const ConfigEntry entry = node.single_entry("an initializer");
  initializer = initializer_named(entry);
  ConfigReader reader(entry.value);
  switch (initializer.kind) {
    case InitializerKind::constant:
      reader.optional("value", initializer.value, finite);
      break;
    case InitializerKind::random_uniform:
      reader.optional("minval", initializer.minimum, finite);
      reader.optional("maxval", initializer.maximum, finite);
      break;
    case InitializerKind::random_normal:
    case InitializerKind::truncated_normal:
      reader.optional("mean", initializer.mean, finite);
      reader.optional("stddev", initializer.standard_deviation, finite_not_negative);
      break;
    case InitializerKind::variance_scaling:
      // The classes with a formula in their name have it fixed.
      if (entry.name == "VarianceScaling" || entry.name == "variance_scaling") {
        reader.optional("scale", initializer.scale, finite_positive);
        reader.choice(
            "mode", initializer.fan,
            {{"fan_in", FanMode::in}, {"fan_out", FanMode::out}, {"fan_avg", FanMode::average}});
        reader.choice("distribution", initializer.distribution,
                      {{"truncated_normal", ScalingDistribution::truncated_normal},
                       {"untruncated_normal", ScalingDistribution::normal},
                       {"uniform", ScalingDistribution::uniform}});
      }
      break;
    case InitializerKind::zeros:
    case InitializerKind::ones:
      break;
  }
  reader.finish();
}

std::string to_text(const Initializer& initializer) {
  for (const auto& [class_name, name] : initializer_classes()) {
    if (initializer == initializer_by_name(name)) return name;
  }
  return "an initializer with options of its own";
}

std::string to_text(const Regularizer& regularizer) {
  return regularizer.active() ? fmt::format("l1 {}, l2 {}", regularizer.l1, regularizer.l2)
                              : "none";
}

// As in Keras, L1 and L2 are 0.01 if nothing is said, and 0 within L1L2.
void from_config(const ConfigNode& node, Regularizer& regularizer) {
  regularizer = {};
  if (node.is_null()) {
    return;
  }
  const ConfigEntry entry = node.single_entry("a regularizer");
  const auto read_one = [&](const std::string& key, float& factor) {
    factor = 0.01f;
    if (entry.value.is_scalar()) {
      factor = entry.value.as<float>(finite_not_negative);
      return;
    }
    ConfigReader reader(entry.value);
    reader.optional(key, factor, finite_not_negative);
    reader.finish();
  };
  if (entry.name == "L1" || entry.name == "l1") {
    read_one("l1", regularizer.l1);
  } else if (entry.name == "L2" || entry.name == "l2") {
    read_one("l2", regularizer.l2);
  } else if (entry.name == "L1L2" || entry.name == "l1_l2") {
    ConfigReader reader(entry.value);
    reader.optional("l1", regularizer.l1, finite_not_negative);
    reader.optional("l2", regularizer.l2, finite_not_negative);
    reader.finish();
  } else {
    throw entry.key.unknown("regularizer", {"L1", "L2", "L1L2"});
  }
}

}  // namespace meshwork
