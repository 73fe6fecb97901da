// A model as a configuration writes it: inputs, layers, and how they are joined.
//
//     model:
//       input: [28, 28, 1]                        # the shape of a sample; its name is "input"
//       layers:
//         - Flatten:
//         - Dense: {name: d1, units: 200, activation: relu}
//         - Dense: {name: d2, units: 200, activation: relu}
//         - Add: {name: sum, inputs: [d1, d2]}    # what a layer is called on, by name
//         - Dense: {units: 10}
//       output: dense                             # the layer whose output is the model's
//
// An input of whole numbers, such as tokens, is written `input: {shape: [64], dtype: int32}`.
//
// How layers are joined, called again and repeated is layer_list.h's affair.
//
// A layer without `inputs` takes the output of the one before it, the first layer the model's
// input. Names in `inputs` are those that earlier layers were given, or those of inputs. Without
// `output` the last layer is it; a model of several has `outputs: [price, kind]`, and each has a
// loss of its own (written_outputs.h in runtime/train). A model of several inputs has `inputs:
// {left: [28, 28], right: [3]}` in place of `input`, and its first layer says which it takes.
// Blocks of layers with a name of their own are a layer like any other (`Sequential`), so names
// within them do not count here.
//
// `frozen` lists the variables that training leaves as they are, by path or by regular expression,
// as keys of layouts are (path_pattern.h): `frozen: [d1/kernel, "features/.*"]`. `trainable: false`
// freezes a layer, which BatchNormalization takes for more (layer.h).
#pragma once

#include <vector>

#include "runtime/config/catalog.h"
#include "runtime/config/node.h"
#include "runtime/config/options.h"
#include "runtime/graph/layer.h"
#include "runtime/mesh/path_pattern.h"

namespace meshwork {

/// An input that is written as a map.
struct InputOptions {
  Shape shape;  // of a sample
  ElementType dtype = ElementType::float32;
};

template <class Visitor>
void describe(InputOptions& input, Visitor& option) {
  option.about("an input of a model");
  option.required("shape", input.shape, positive, "shape of a sample, without the batch dimension");
  option.choice("dtype", input.dtype,
                {{"float32", ElementType::float32}, {"int32", ElementType::int32}},
                "type of its numbers; int32: tokens or categories");
}

/// The section `model`, as it is written.
struct ModelSection {
  Written<"the shape of a sample, such as [28, 28, 1], or {shape: [64], dtype: int32}"> input;
  Written<"a map of names and shapes, such as {left: [28, 28], right: [3]}"> inputs;
  Written<"a list of layers"> layers;
  Written<"the name of a layer"> output{.initial = "the last layer"};
  Written<"a list of names of layers"> outputs;
  Written<"a list of paths or regular expressions, such as [d1/kernel, \"features/.*\"]"> frozen{
      .initial = "none"};
};

template <class Visitor>
void describe(ModelSection& model, Visitor& option) {
  option.about("inputs, layers and their connections");
  option("input", model.input, "the only input, without the batch dimension");
  option("inputs", model.inputs, "in place of input: several inputs");
  option.required(
      "layers", model.layers,
      "layers in order; `inputs` of a layer names its inputs, by default the layer before it");
  option("output", model.output, "the layer whose output is the model's");
  option("outputs", model.outputs, "in place of output: several layers");
  option("frozen", model.frozen, "variables that are not trained, by path or regular expression");
}

/// An entry of `frozen`.
struct FrozenKey {
  PathPattern pattern;
  ConfigNode node;  // where it was written
};

struct ConfiguredModel {
  std::vector<SymbolicTensor> inputs;  // in the order in which they are written
  std::vector<SymbolicTensor> outputs;
  std::vector<FrozenKey> frozen;
};

/// The model that `model`, the section of that name, describes, of layers that `catalog` has.
/// Throws `ConfigError` with the place: an unknown layer or option, two layers or inputs of one
/// name, a name in `inputs` or `output` that is none or is further down, several outputs, inputs
/// whose shape the layer does not take, an input or a layer of which nothing is made.
[[nodiscard]] ConfiguredModel model_from_config(const ConfigNode& model, const Catalog& catalog);

/// The names under `outputs`; none where the model has one output. Nothing for what is no list of
/// names, of which model_from_config says what is wrong.
[[nodiscard]] std::optional<std::vector<std::string>> names_of_outputs(const ConfigNode& model);

/// Its graph. Throws `Error` as make_graph does, and for an entry of `frozen` that matches no
/// variable.
[[nodiscard]] Graph graph_of(const ConfiguredModel& model);

}  // namespace meshwork
