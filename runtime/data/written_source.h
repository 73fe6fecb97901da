// Sources of samples as configurations write them.
//
//     {kind: idx, images: train-images.gz, labels: train-labels.gz}
//     {kind: hdf5, features: "train.h5:/images", targets: "train.h5:/labels"}
//     {kind: npy, features: x.npy, targets: y.npy}
//     {kind: npz, file: data.npz, features: x, targets: y}
//     {kind: csv, file: table.csv, features: [age, city], targets: price}
//     {kind: images, directory: photos}
//     {kind: text, file: novel.txt, length: 64}
//     {kind: synthetic, rows: 128, features: {kind: normal, shape: [28, 28, 1]},
//                                  targets: {kind: classes, classes: 10}}
//
// A kind is a page, as a class of the catalog is (runtime/config/catalog.h): the file of the source,
// with a function that enters the kind.
//
//     void add_idx(Catalog& catalog) { add_source<IdxOptions>(catalog, "idx", open_idx); }
//
// Its options are read with the configuration. The source is opened when the model's inputs are
// known: its features have their names and their order, as have targets of several outputs.
//
// Most kinds have `features`, `targets` and `sample_weights`. A model with one input takes what is
// written under `features`; a model with several takes a map with an entry for each, by its name.
// `targets` are of outputs as `features` are of inputs; they may be absent where nothing is compared
// with them. `fields_of` reads all of it. File names are relative to the directory in which the
// program runs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/catalog.h"
#include "runtime/config/options.h"
#include "runtime/data/source.h"

namespace meshwork {

/// What a source is opened for.
struct SourceContext {
  std::span<const std::string> inputs;  // the names of the model's inputs
  /// Of a model with several outputs, the names of those that are compared with targets; of a model
  /// with one, none.
  std::span<const std::string> outputs = {};
  /// The names of fields whose numbers may not be rounded: those of rows and classes. The only
  /// target is called "targets".
  std::span<const std::string> exact = {};
  /// The numbers that end documents for the model; none: it knows no documents.
  std::span<const std::int64_t> document_ends = {};
  std::uint64_t seed = 0;  // of the run, which a synthetic source is made by unless it says its own
  /// Of the training data, where this source is of others; null if these are not known.
  const std::vector<Categories>* categories = nullptr;
};

struct WrittenSource {
  ConfigNode node;  // where messages about it point
  /// Throws `ConfigError` with the place: all that is wrong with the files, and what does not fit
  /// the model.
  std::function<std::shared_ptr<const Source>(const SourceContext& context)> open;
};
using SharedWrittenSource = std::shared_ptr<const WrittenSource>;

template <>
struct KindOf<SharedWrittenSource> {
  static constexpr const char* word = "source";
  static constexpr const char* article = "a source, such as {kind: idx, ...}";
  static constexpr const char* key = "kind";
};
[[nodiscard]] std::string to_text(const SharedWrittenSource& source);

/// Enters the kind `name` with these options. `open(node, options, context)` makes the source.
template <class Options>
void add_source(Catalog& catalog, const std::string& name,
                std::shared_ptr<const Source> (*open)(const ConfigNode& node,
                                                      const Options& options,
                                                      const SourceContext& context)) {
  catalog.enter<SharedWrittenSource>(
      {name,
       {},
       [name, reference = catalog.reference_of(name), open](
           const ConfigNode& node, const Catalog& all) -> SharedWrittenSource {
         return std::make_shared<const WrittenSource>(WrittenSource{
             node,
             [node, name, open, options = read_options<Options>(node, all, reference, {"kind"})](
                 const SourceContext& context) {
               return node.located([&] {
                 std::shared_ptr<const Source> source = open(node, options, context);
                 if (!source) fail("the kind \"{}\" has opened no source: it gave null", name);
                 return source;
               });
             }});
       },
       [] { return explained<Options>(); }});
}

/// What describes a field, read when the model's inputs are known.
using WrittenField =
    Written<"a field; of several inputs or outputs: a map of fields by their names">;

/// What `node` gives, one value or a list. Throws `ConfigError` for a list without `expected`.
template <class Value>
[[nodiscard]] std::vector<Value> one_or_more(const ConfigNode& node, std::string_view expected) {
  if (!node.is_sequence()) return {node.as<Value>()};
  auto values = node.as<std::vector<Value>>();
  if (values.empty()) node.fail("the list is empty; expected {}", expected);
  return values;
}

/// What is written for each input: all of `node` for the only one or, `by_name`, its entries.
/// Throws `ConfigError` for an input without a feature and a feature without an input.
[[nodiscard]] std::vector<ConfigNode> features_of(const ConfigNode& node,
                                                  std::span<const std::string> inputs,
                                                  bool by_name);

/// The entries of the map `node`, one for each of the model's `outputs`, of which there is one at
/// least. Throws `ConfigError` as features_of does.
[[nodiscard]] std::vector<ConfigNode> targets_of(const ConfigNode& node,
                                                 std::span<const std::string> outputs);

/// Throws `ConfigError` for a source of `kind`, whose samples have one target, where several outputs
/// are compared with one each.
void check_one_target(const ConfigNode& node, const SourceContext& context, std::string_view kind);

/// Describes where the weights of samples are; `form` is how that is written.
template <class Value, class Visitor>
void describe_weights(std::optional<Value>& weights, Visitor& option, std::string_view form) {
  option("sample_weights", weights,
         fmt::format("{}: sample weights, which multiply losses and not metrics", form).c_str());
}

/// The field `name` as `read(node, name, role)` gives it, exact if the model takes it so.
template <class Read>
[[nodiscard]] auto read_field(const ConfigNode& node, const std::string& name, FieldRole role,
                              const SourceContext& context, const Read& read) {
  auto field = read(node, name, role);
  if constexpr (requires { field.exact; }) {
    field.exact = std::ranges::find(context.exact, name) != context.exact.end();
  }
  return field;
}

/// The fields of targets that `node` describes, each as `read(node, name, role)` gives it.
template <class Read>
[[nodiscard]] auto target_fields(const ConfigNode& node, const SourceContext& context, Read read) {
  std::vector<decltype(read(node, "", FieldRole::target))> fields;
  if (context.outputs.empty()) {
    fields.push_back(read_field(node, "targets", FieldRole::target, context, read));
    return fields;
  }
  const std::vector<ConfigNode> nodes = targets_of(node, context.outputs);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    fields.push_back(read_field(nodes[i], context.outputs[i], FieldRole::target, context, read));
  }
  return fields;
}

/// The fields that `options.features`, `targets` and `weights` describe, each as `read(node, name,
/// role)` gives it.
template <class Options, class Read>
[[nodiscard]] auto fields_of(const Options& options, const SourceContext& context, bool by_name,
                             Read read) {
  std::vector<decltype(read(*options.features.node, "", FieldRole::feature))> fields;
  const std::vector<ConfigNode> features =
      features_of(*options.features.node, context.inputs, by_name);
  for (std::size_t i = 0; i < features.size(); ++i) {
    fields.push_back(read_field(features[i], context.inputs[i], FieldRole::feature, context, read));
  }
  if (options.targets) {
    for (auto& field : target_fields(*options.targets->node, context, read)) {
      fields.push_back(std::move(field));
    }
  }
  if (options.weights) {
    fields.push_back(read(*options.weights->node, std::string(weights_name), FieldRole::weight));
  }
  return fields;
}

}  // namespace meshwork
