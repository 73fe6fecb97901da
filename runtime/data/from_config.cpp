#include "runtime/data/from_config.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/config/nearest.h"
#include "runtime/config/reader.h"
#include "runtime/data/hdf5.h"
#include "runtime/data/idx.h"
#include "runtime/data/synthetic.h"

namespace meshwork {
namespace {

using Inputs = std::span<const std::string>;

std::shared_ptr<const Source> read_idx(ConfigReader& reader, Inputs inputs) {
  if (inputs.size() != 1) {
    reader.source().fail("IDX data has one feature, its images, but the model has {} inputs",
                         inputs.size());
  }
  std::vector<IdxFile> files(1);
  files[0].field = inputs[0];
  reader.required("images", files[0].path);
  if (const auto labels = reader.node("labels")) {
    files.push_back({"labels", labels->as_path(), FieldRole::target});
  }
  reader.finish();
  return std::make_shared<IdxSource>(files);
}

// The features that `node` has for each input: itself for the only one, or else its entries by
// name.
std::vector<ConfigNode> features_of(const ConfigNode& node, Inputs inputs, bool by_name) {
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

std::shared_ptr<const Source> read_hdf5(ConfigReader& reader, Inputs inputs) {
  const auto field = [](const std::string& name, const ConfigNode& node, FieldRole role) {
    const std::string text = node.as<std::string>();
    return Hdf5Field{name, node.located([&] { return parse_hdf5_location(text); }), role};
  };
  std::vector<Hdf5Field> fields;
  const ConfigNode features = reader.required_node("features", "\"FILE:/DATASET\"");
  const std::vector<ConfigNode> nodes = features_of(features, inputs, features.is_map());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    fields.push_back(field(inputs[i], nodes[i], FieldRole::feature));
  }
  if (const auto targets = reader.node("targets")) {
    fields.push_back(field("targets", *targets, FieldRole::target));
  }
  Hdf5Permissions permissions;
  reader.optional("virtual", permissions.virtual_sources);
  reader.optional("sparse", permissions.sparse);
  reader.finish();
  return std::make_shared<Hdf5Source>(fields, permissions);
}

SyntheticField synthetic_field(const ConfigNode& node, std::string name, FieldRole role) {
  SyntheticField field;
  field.name = std::move(name);
  field.role = role;
  ConfigReader reader(node);
  reader.choice("kind", field.kind,
                {{"uniform", SyntheticKind::uniform},
                 {"normal", SyntheticKind::normal},
                 {"classes", SyntheticKind::classes},
                 {"linear", SyntheticKind::linear},
                 {"linear_classes", SyntheticKind::linear_classes}});
  const bool class_numbers =
      field.kind == SyntheticKind::classes || field.kind == SyntheticKind::linear_classes;
  if (class_numbers) {
    field.type = ElementType::int32;
  }
  reader.choice("type", field.type,
                {{"uint8", ElementType::uint8},
                 {"int32", ElementType::int32},
                 {"int64", ElementType::int64},
                 {"float32", ElementType::float32},
                 {"float64", ElementType::float64}});
  if (role == FieldRole::feature) {
    reader.required("shape", field.shape, positive);
  } else {
    reader.optional("shape", field.shape, positive);
  }
  // Only the options of its kind: one that does nothing is a mistake.
  switch (field.kind) {
    case SyntheticKind::uniform:
      reader.optional("low", field.low, finite);
      reader.optional("high", field.high, finite);
      break;
    case SyntheticKind::normal:
      reader.optional("mean", field.mean, finite);
      reader.optional("stddev", field.stddev, at_least(0));
      break;
    case SyntheticKind::classes:
    case SyntheticKind::linear_classes:
      reader.optional("classes", field.classes, positive);
      break;
    case SyntheticKind::linear:
      break;
  }
  reader.finish();
  return field;
}

std::shared_ptr<const Source> read_synthetic(ConfigReader& reader, Inputs inputs,
                                             std::uint64_t seed) {
  std::int64_t rows = 0;
  reader.required("rows", rows, positive);
  reader.optional("seed", seed);
  std::vector<SyntheticField> fields;
  const ConfigNode features = reader.required_node("features", "{kind: normal, shape: [...]}");
  const std::vector<ConfigEntry> entries = features.entries();
  const bool by_name = !entries.empty() && std::all_of(entries.begin(), entries.end(),
                                                       [](auto& e) { return e.value.is_map(); });
  const std::vector<ConfigNode> nodes = features_of(features, inputs, by_name);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    fields.push_back(synthetic_field(nodes[i], inputs[i], FieldRole::feature));
  }
  if (const auto targets = reader.node("targets")) {
    fields.push_back(synthetic_field(*targets, "targets", FieldRole::target));
  }
  reader.finish();
  return std::make_shared<SyntheticSource>(rows, std::move(fields), seed);
}

}  // namespace

std::shared_ptr<const Source> source_from_config(const ConfigNode& node, Inputs inputs,
                                                 std::uint64_t seed) {
  enum class Kind { idx, hdf5, synthetic };
  return node.located([&]() -> std::shared_ptr<const Source> {
    ConfigReader reader(node);
    Kind kind = Kind::idx;
    reader.required_choice(
        "kind", kind, {{"idx", Kind::idx}, {"hdf5", Kind::hdf5}, {"synthetic", Kind::synthetic}});
    switch (kind) {
      case Kind::idx:
        return read_idx(reader, inputs);
      case Kind::hdf5:
        return read_hdf5(reader, inputs);
      case Kind::synthetic:
        return read_synthetic(reader, inputs, seed);
    }
    internal_error("a kind of data that is not known");
  });
}

}  // namespace meshwork
