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
using WrittenField = Written<"a field; of several inputs: a map of fields by their names">;

struct IdxOptions {
  std::filesystem::path images;
  std::optional<std::filesystem::path> labels;
};

template <class Visitor>
void describe(IdxOptions& options, Visitor& option) {
  option.about("IDX files, the format of MNIST, also gzipped");
  option.required("images", options.images, "file of the features");
  option("labels", options.labels, "file of the targets");
}

struct Hdf5Options {
  WrittenField features;
  std::optional<WrittenField> targets;
  Hdf5Permissions permissions;
};

template <class Visitor>
void describe(Hdf5Options& options, Visitor& option) {
  option.about("HDF5 datasets with a row a sample; each rank reads its own rows");
  option.required("features", options.features, "FILE:/DATASET");
  option("targets", options.targets, "FILE:/DATASET");
  option("virtual", options.permissions.virtual_sources,
         "allow virtual datasets, with sources in the file's folder or below");
  option("sparse", options.permissions.sparse, "allow more than 4 GiB of fill values");
}

struct SyntheticOptions {
  std::int64_t rows = 0;
  std::optional<std::uint64_t> seed;
  WrittenField features;
  std::optional<WrittenField> targets;
};

template <class Visitor>
void describe(SyntheticOptions& options, Visitor& option) {
  option.about("samples computed from a seed, for trials and benchmarks");
  option.required("rows", options.rows, positive, "number of samples");
  option("seed", options.seed, "random seed of the values; none: the run's");
  option.required("features", options.features, "a synthetic field for each input");
  option("targets", options.targets, "a synthetic field");
}

Hdf5Field read_hdf5(const ConfigNode& node, const std::string& name, FieldRole role) {
  const std::string text = node.as<std::string>();
  return {name, node.located([&] { return parse_hdf5_location(text); }), role};
}

// What `meshwork reference` calls the options of such a field.
std::string reference_name(SyntheticKind kind) {
  return "synthetic/" + name_in(synthetic_kinds, kind);
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
  return read_options<SyntheticField>(node, Catalog(), reference_name(field.kind), {},
                                      std::move(field));
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
Options read(const ConfigNode& node, const char* kind) {
  return read_options<Options>(node, Catalog(), kind, {"kind"});
}

std::shared_ptr<const Source> open_idx(const ConfigNode& node, Inputs inputs, std::uint64_t) {
  if (inputs.size() != 1) {
    node.fail("IDX data has one feature, its images, but the model has {} inputs", inputs.size());
  }
  const auto options = read<IdxOptions>(node, "idx");
  std::vector<IdxFile> files{{inputs[0], options.images, FieldRole::feature}};
  if (options.labels) files.push_back({"labels", *options.labels, FieldRole::target});
  return std::make_shared<IdxSource>(files);
}

std::shared_ptr<const Source> open_hdf5(const ConfigNode& node, Inputs inputs, std::uint64_t) {
  const auto options = read<Hdf5Options>(node, "hdf5");
  const bool by_name = options.features.node->is_map();
  return std::make_shared<Hdf5Source>(fields_of(options, inputs, by_name, read_hdf5),
                                      options.permissions);
}

std::shared_ptr<const Source> make_synthetic(const ConfigNode& node, Inputs inputs,
                                             std::uint64_t seed) {
  const auto options = read<SyntheticOptions>(node, "synthetic");
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

std::map<std::string, Explained> explained_sources() {
  std::map<std::string, Explained> texts{{"idx", explained<IdxOptions>()},
                                         {"hdf5", explained<Hdf5Options>()},
                                         {"synthetic", explained<SyntheticOptions>()}};
  for (const auto& [_, kind] : synthetic_kinds) {
    texts[reference_name(kind)] = explained(synthetic_field(kind));
  }
  return texts;
}

}  // namespace meshwork
