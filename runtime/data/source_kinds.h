// The kinds of sources that a configuration can name.
//
// A kind is a page: the file of the source, with a function that enters the kind. Nothing else
// names the page; the build writes the function that calls them all (launch/cmake/pages.cmake).
//
//     void add_idx(SourceKinds& kinds) {
//       kinds.push_back(source_kind<IdxOptions>("idx", open_idx));
//     }
//
// Most kinds have `features`, `targets` and `sample_weights`. A model with one input takes what is
// written under `features`; a model with several takes a map with an entry for each, by its name.
// `targets` are of outputs as `features` are of inputs. `fields_of` reads all of it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/catalog.h"
#include "runtime/config/options.h"
#include "runtime/data/from_config.h"
#include "runtime/data/source.h"

namespace meshwork {

struct SourceKind {
  std::string name;
  std::shared_ptr<const Source> (*open)(const ConfigNode& node, const SourceContext& context);
  /// What `meshwork reference` says of its options, and of parts of them, as "synthetic/normal".
  std::map<std::string, Explained> explained;
  /// Throws `ConfigError` for what is wrong with what is written, as far as that can be told before
  /// the model's inputs are known and without a file.
  std::function<void(const ConfigNode& node)> check;
};
using SourceKinds = std::vector<SourceKind>;

/// Enters every kind.
void add_sources(SourceKinds& kinds);

/// What describes a field, read when the model's inputs are known.
using WrittenField =
    Written<"a field; of several inputs or outputs: a map of fields by their names">;

/// The options of the source of `kind` that `node` describes.
template <class Options>
[[nodiscard]] Options read_source_options(const ConfigNode& node, const char* kind) {
  return read_options<Options>(node, Catalog(), kind, {"kind"});
}

/// What `node` gives, one value or a list. Throws `ConfigError` for a list without `expected`.
template <class Value>
[[nodiscard]] std::vector<Value> one_or_more(const ConfigNode& node, std::string_view expected) {
  if (!node.is_sequence()) return {node.as<Value>()};
  auto values = node.as<std::vector<Value>>();
  if (values.empty()) node.fail("the list is empty; expected {}", expected);
  return values;
}

/// The kind `name` of sources with these options.
template <class Options>
[[nodiscard]] SourceKind source_kind(const std::string& name, decltype(SourceKind::open) open) {
  return {name, open, {{name, explained<Options>()}}, [name](const ConfigNode& node) {
            static_cast<void>(read_source_options<Options>(node, name.c_str()));
          }};
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
         fmt::format("{}: weights of samples, which multiply their loss, and no metrics", form)
             .c_str());
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
