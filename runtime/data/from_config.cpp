#include "runtime/data/from_config.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/config/catalog.h"
#include "runtime/config/nearest.h"
#include "runtime/data/hdf5.h"
#include "runtime/data/idx.h"
#include "runtime/data/synthetic.h"

namespace meshwork {
namespace {

using Inputs = std::span<const std::string>;

// Fields, which are read when the model's inputs are known.
struct Written {
  static constexpr const char* expected =
      "a field; features also as a map, by the inputs of the model";
  std::optional<ConfigNode> node;
};

void from_config(const ConfigNode& node, Written& written) {
  written.node = node;
}

std::string to_text(const Written&) {
  return "";
}

struct IdxOptions {
  std::filesystem::path images;
  std::optional<std::filesystem::path> labels;
};

template <class Visitor>
void describe(IdxOptions& options, Visitor& option) {
  option.required("images", options.images, "the file of the features");
  option("labels", options.labels, "the file of the targets");
}

struct Hdf5Options {
  Written features;
  std::optional<Written> targets;
  Hdf5Permissions permissions;
};

template <class Visitor>
void describe(Hdf5Options& options, Visitor& option) {
  option.required("features", options.features, "as FILE:/DATASET");
  option("targets", options.targets, "as FILE:/DATASET");
  option("virtual", options.permissions.virtual_sources,
         "take virtual data sets, with sources in the file's own folder or below");
  option("sparse", options.permissions.sparse, "take more than 4 GiB of fill values");
}

struct SyntheticOptions {
  std::int64_t rows = 0;
  std::optional<std::uint64_t> seed;
  Written features;
  std::optional<Written> targets;
};

template <class Visitor>
void describe(SyntheticOptions& options, Visitor& option) {
  option.required("rows", options.rows, positive, "how many samples there are");
  option("seed", options.seed, "of the values; none: that of the run");
  option.required("features", options.features, "options of synthetic fields");
  option("targets", options.targets, "options of a synthetic field");
}

Hdf5Field read_hdf5(const ConfigNode& node, const std::string& name, FieldRole role) {
  const std::string text = node.as<std::string>();
  return {name, node.located([&] { return parse_hdf5_location(text); }), role};
}

// Of which nothing is said but its kind.
SyntheticField synthetic_field(SyntheticKind kind) {
  return {.type = makes_classes(kind) ? ElementType::int32 : ElementType::float32, .kind = kind};
}

SyntheticField read_synthetic(const ConfigNode& node, const std::string& name, FieldRole role) {
  const auto kind = node.find("kind");
  SyntheticField field =
      synthetic_field(kind ? kind->choice(synthetic_kinds) : SyntheticKind::normal);
  field.name = name;
  field.role = role;
  return read_options<SyntheticField>(node, Catalog(), {}, std::move(field));
}

// What is written for each input: all of it for the only one, or else its entries by name.
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

// The fields of `options`, each as `read` has it.
template <class Options, class Read>
auto fields_of(const Options& options, Inputs inputs, bool by_name, Read read) {
  std::vector<decltype(read(*options.features.node, "", FieldRole::feature))> fields;
  const std::vector<ConfigNode> nodes = features_of(*options.features.node, inputs, by_name);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    fields.push_back(read(nodes[i], inputs[i], FieldRole::feature));
  }
  if (options.targets) {
    fields.push_back(read(*options.targets->node, "targets", FieldRole::target));
  }
  return fields;
}

template <class Options>
Options read(const ConfigNode& node) {
  return read_options<Options>(node, Catalog(), {"kind"});
}

std::shared_ptr<const Source> open_idx(const ConfigNode& node, Inputs inputs, std::uint64_t) {
  if (inputs.size() != 1) {
    node.fail("IDX data has one feature, its images, but the model has {} inputs", inputs.size());
  }
  const auto options = read<IdxOptions>(node);
  std::vector<IdxFile> files{{inputs[0], options.images, FieldRole::feature}};
  if (options.labels) files.push_back({"labels", *options.labels, FieldRole::target});
  return std::make_shared<IdxSource>(files);
}

std::shared_ptr<const Source> open_hdf5(const ConfigNode& node, Inputs inputs, std::uint64_t) {
  const auto options = read<Hdf5Options>(node);
  const bool by_name = options.features.node->is_map();
  return std::make_shared<Hdf5Source>(fields_of(options, inputs, by_name, read_hdf5),
                                      options.permissions);
}

std::shared_ptr<const Source> make_synthetic(const ConfigNode& node, Inputs inputs,
                                             std::uint64_t seed) {
  const auto options = read<SyntheticOptions>(node);
  const std::vector<ConfigEntry> entries = options.features.node->entries();
  const bool by_name = !entries.empty() && std::all_of(entries.begin(), entries.end(),
                                                       [](auto& e) { return e.value.is_map(); });
  return std::make_shared<SyntheticSource>(options.rows,
                                           fields_of(options, inputs, by_name, read_synthetic),
                                           options.seed.value_or(seed));
}

const ChoiceTable<decltype(&source_from_config)> kinds{
    {"idx", open_idx}, {"hdf5", open_hdf5}, {"synthetic", make_synthetic}};

}  // namespace

std::shared_ptr<const Source> source_from_config(const ConfigNode& node, Inputs inputs,
                                                 std::uint64_t seed) {
  return node.located([&] {
    const auto open = ConfigReader(node).required_node("kind", names_in(kinds)).choice(kinds);
    return open(node, inputs, seed);
  });
}

std::map<std::string, std::vector<OptionText>> source_option_texts() {
  std::map<std::string, std::vector<OptionText>> texts{
      {"idx", option_texts<IdxOptions>()},
      {"hdf5", option_texts<Hdf5Options>()},
      {"synthetic", option_texts<SyntheticOptions>()}};
  for (const auto& [name, kind] : synthetic_kinds) {
    texts["synthetic " + name] = option_texts(synthetic_field(kind));
  }
  return texts;
}

}  // namespace meshwork
