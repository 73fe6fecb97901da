// Layers as configurations write them: every option of each, and what goes wrong.
#include "layers/pages.h"

#include "collectives/error.h"
#include "layers/initializers/constant.h"
#include "layers/initializers/he.h"
#include "layers/regularizers/l1_l2.h"
#include "runtime/config/load.h"
#include "runtime/graph/layer_config.h"
#include "tests/support/catch.h"

namespace meshwork::options_test {

namespace {

SharedLayer made(const std::string& text) {
  Catalog catalog;
  add_layers(catalog);
  return catalog.make<SharedLayer>(parse_config(text, "net.yaml"));
}

// The graph of the layer alone on samples of `shape`.
Graph graph_of(const std::string& text, const Shape& shape) {
  const auto x = Input(shape);
  return make_graph({x}, {made(text)(x)});
}

std::string error_of(const std::string& text) {
  try {
    static_cast<void>(made(text));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("dense reads all of its options") {
  const Graph graph = graph_of(
      "Dense:\n"
      "  name: d1\n"
      "  units: 4\n"
      "  activation: tanh\n"
      "  kernel_initializer: he_normal\n"
      "  bias_initializer: {Constant: {value: 0.5}}\n"
      "  kernel_regularizer: {L2: 0.25}\n"
      "  bias_regularizer: {L1: 0.5}\n",
      {3});
  REQUIRE(graph.variables.size() == 2);
  CHECK(graph.variables[0].path == "d1/kernel");
  CHECK(graph.variables[0].options.initializer == HeNormal());
  CHECK(graph.variables[0].options.regularizer == L2(0.25f));
  CHECK(graph.variables[1].options.initializer == Constant({.value = 0.5}));
  CHECK(graph.variables[1].options.regularizer == L1(0.5f));
  CHECK(graph.operations.back().path == "d1/tanh");
  CHECK(graph_of("Dense: {units: 4, use_bias: false, activation: ~}", {3}).operations.size() == 1);
}

TEST_CASE("an embedding reads its options, and takes numbers alone") {
  const auto tokens = Input({6}, "tokens", ElementType::int32);
  const SharedLayer embedding =
      made("Embedding: {name: e, input_dim: 50, output_dim: 4, embeddings_regularizer: l2}");
  const Graph graph = make_graph({tokens}, {embedding(tokens)});
  REQUIRE(graph.variables.size() == 1);
  CHECK(graph.variables[0].path == "e/embeddings");
  CHECK(graph.variables[0].options.shape == Shape{50, 4});
  CHECK(graph.variables[0].options.regularizer.active());
  CHECK(graph.tensors[graph.outputs[0]].shape == Shape{-1, 6, 4});
  CHECK(graph.classes_of(graph.inputs[0]) == 50);
  CHECK_THROWS_WITH(embedding(Input({6})), Catch::Contains("dtype: int32"));
  CHECK_THROWS_WITH(made("Dense: {units: 2}")(tokens), Catch::Contains("expected float32"));
  CHECK_THAT(error_of("Embedding: {input_dim: 5}"), Catch::Contains("output_dim"));
  CHECK_THAT(error_of("EinsumDense: {equation: \"ab,bc,cd->ad\", output_shape: [3]}"),
             Catch::Contains("expected an equation of input and kernel"));
  CHECK_THAT(error_of("EinsumDense: {equation: \",ab->b\", output_shape: [3]}"),
             Catch::Contains("expected an equation of input and kernel"));
  CHECK(made("EinsumDense: {equation: \"abc,cd->abd\", output_shape: [~, 3], bias_axes: ~}")(
            Input({6, 4}))
            .shape() == Shape{-1, 6, 3});
  CHECK(made("EinsumDense: {equation: \"abc,cd->adb\", output_shape: [3, ~]}")(Input({6, 4}))
            .shape() == Shape{-1, 3, 6});
  CHECK_THROWS_WITH(
      made("EinsumDense: {equation: \"abc,cd->abd\", output_shape: [6, ~]}")(Input({6, 4})),
      Catch::Contains("needs a length for 'd'"));
  CHECK_THROWS_WITH(
      made("EinsumDense: {equation: \"abc,cd->abd\", output_shape: [5, 3]}")(Input({6, 4})),
      Catch::Contains("dimension 0 is 6"));
  CHECK(
      made("MultiHeadAttention: {num_heads: 2, key_dim: 3, value_dim: ~}")(Input({6, 4})).shape() ==
      Shape{-1, 6, 4});
  CHECK_THAT(error_of("MultiHeadAttention: {num_heads: 2, key_dim: 3, value_dim: 0}"),
             Catch::Contains("value_dim: expected a positive integer"));
  CHECK_THAT(error_of("MultiHeadAttention: {num_heads: 2, key_dim: 3, value_dim: 20000000}"),
             Catch::Contains("of at most 16777216"));
  CHECK_THAT(
      error_of("GroupQueryAttention: {head_dim: 4, num_query_heads: 6, num_key_value_heads: 4}"),
      Catch::Contains("expected a divisor of the 6 heads of queries, found 4"));
  CHECK_THROWS_WITH(Input({6}, "", ElementType::int64), Catch::Contains("float32 or int32"));
}

TEST_CASE("the other layers read theirs") {
  CHECK(graph_of("Flatten", {2, 3}).paths().front() == "flatten/output");
  CHECK(graph_of("Flatten:", {2, 3}).paths().front() == "flatten/output");
  CHECK(graph_of("Flatten: {name: f}", {2, 3}).paths().front() == "f/output");
  CHECK(made("Reshape: {target_shape: [3, -1]}")(Input({6})).shape() == Shape{-1, 3, 2});
  CHECK(graph_of("Rescaling: {scale: 0.5, offset: 1}", {2}).layers[0].class_name == "Rescaling");
  CHECK(graph_of("Activation: {activation: gelu}", {2}).operations[0].path == "activation/gelu");
  CHECK(graph_of("Dropout: {name: drop, rate: 0.5}", {2}).operations[0].path == "drop/dropout");
  CHECK(made("Dot: {axes: -1}")({Input({2, 3}), Input({4, 3})}).shape() == Shape{-1, 2, 4});
  CHECK(made("Dot: {axes: [2, 1], normalize: true}")({Input({2, 3}), Input({3, 4})}).shape() ==
        Shape{-1, 2, 4});
  CHECK(made("CategoryEncoding: {num_tokens: 5}")(Input({3})).shape() == Shape{-1, 5});
  CHECK(made("CategoryEncoding: {num_tokens: 5, output_mode: one_hot}")(Input({3})).shape() ==
        Shape{-1, 3, 5});
  CHECK(made("Add: {name: sum}")({Input({2}), Input({2})}).shape() == Shape{-1, 2});
  CHECK(made("Concatenate: {axis: 1}")({Input({2, 3}), Input({4, 3})}).shape() == Shape{-1, 6, 3});
}

TEST_CASE("layers over images are read from their options") {
  const auto shape_of = [](const std::string& text, const Shape& sample) {
    return made(text)(Input(sample)).shape();
  };
  const Shape image{7, 5, 2};
  CHECK(shape_of("Conv2D: {filters: 4, kernel_size: [3, 2], strides: 2, padding: same}", image) ==
        Shape{-1, 4, 3, 4});
  CHECK(shape_of("Conv2D: {filters: 4, kernel_size: 3, dilation_rate: [3, 1], groups: 2}", image) ==
        Shape{-1, 1, 3, 4});
  CHECK(shape_of("Conv1D: {filters: 4, kernel_size: 3, activation: relu}", {7, 2}) ==
        Shape{-1, 5, 4});
  CHECK(shape_of("Conv1D: {filters: 4, kernel_size: 3, strides: 2, padding: causal}", {7, 2}) ==
        Shape{-1, 4, 4});
  CHECK(shape_of("Conv3D: {filters: 4, kernel_size: [1, 2, 3], strides: [1, 2, 1]}",
                 {2, 7, 5, 2}) == Shape{-1, 2, 3, 3, 4});
  CHECK(shape_of("MaxPooling3D: {pool_size: [1, 2, 3]}", {2, 7, 5, 2}) == Shape{-1, 2, 3, 1, 2});
  CHECK(shape_of("SeparableConv2D: {filters: 4, kernel_size: 3, depth_multiplier: 2}", image) ==
        Shape{-1, 5, 3, 4});
  CHECK_THAT(
      error_of("Conv3D: {filters: 1, kernel_size: [1, 2]}"),
      Catch::Contains("expected one length, or three for planes, rows and columns, found 2"));
  CHECK(shape_of("Conv2DTranspose: {filters: 4, kernel_size: 3, strides: 2, padding: same}",
                 image) == Shape{-1, 14, 10, 4});
  CHECK(shape_of("MaxPooling2D", image) == Shape{-1, 3, 2, 2});
  CHECK(shape_of("AveragePooling2D: {pool_size: 3, strides: ~, padding: same}", image) ==
        Shape{-1, 3, 2, 2});
  CHECK(shape_of("MaxPooling1D: {pool_size: 3, strides: 2}", {7, 2}) == Shape{-1, 3, 2});
  CHECK(shape_of("AveragePooling1D:", {7, 2}) == Shape{-1, 3, 2});
  CHECK(shape_of("GlobalAveragePooling2D: {keepdims: true}", image) == Shape{-1, 1, 1, 2});
  CHECK(shape_of("GlobalMaxPooling1D:", {7, 2}) == Shape{-1, 2});
  CHECK(shape_of("ZeroPadding2D: {padding: [[0, 1], 2]}", image) == Shape{-1, 8, 9, 2});
  CHECK(shape_of("ZeroPadding2D: {padding: [1, 2]}", image) == Shape{-1, 9, 9, 2});
  CHECK(shape_of("ZeroPadding1D: {padding: [1, 2]}", {7, 2}) == Shape{-1, 10, 2});
  CHECK(shape_of("Cropping1D:", {7, 2}) == Shape{-1, 5, 2});
  CHECK(shape_of("Cropping2D: {cropping: [[1, 0], 2]}", image) == Shape{-1, 6, 1, 2});
  CHECK(shape_of("UpSampling2D: {size: [1, 3], interpolation: bilinear}", image) ==
        Shape{-1, 7, 15, 2});
  CHECK(shape_of("Permute: {dims: [3, 1, 2]}", image) == Shape{-1, 2, 7, 5});
  CHECK(graph_of("BatchNormalization: {axis: -1, momentum: 0.9, scale: false, trainable: false}",
                 image)
            .variables.size() == 3);
  CHECK(graph_of("Normalization: {mean: 1, variance: [1, 2]}", image).variables.size() == 2);
  CHECK(graph_of("Normalization: {invert: true}", image).operations[0].path ==
        "normalization/denormalization");
  CHECK(graph_of("ReLU", image).layers[0].path == "re_lu");
  CHECK(graph_of("ReLU: {max_value: ~, negative_slope: 0}", image).operations[0].path ==
        "re_lu/relu");
  CHECK(graph_of("ReLU: {max_value: 6}", image).operations[0].path == "re_lu/rectifier");
  CHECK(graph_of("Softmax: {axis: 1}", image).operations.size() == 3);
  CHECK(graph_of("LeakyReLU: {negative_slope: 0.1}", image).layers[0].path == "leaky_re_lu");
  CHECK(graph_of("ELU: {alpha: 0.5}", image).operations[0].path == "elu/elu");
  const Graph learned = graph_of("PReLU: {shared_axes: [1, 2], alpha_regularizer: l2}", image);
  CHECK(learned.layers[0].path == "p_re_lu");
  CHECK(learned.tensors[learned.variables[0].tensor].shape == Shape{1, 1, 2});

  CHECK_THAT(error_of("Conv2D: {filters: 4}"), Catch::Contains("kernel_size"));
  CHECK_THAT(error_of("Conv2D: {filters: 4, kernel_size: [1, 2, 3]}"),
             Catch::Contains("net.yaml:1:35") && Catch::Contains("two for rows and columns"));
  CHECK_THAT(error_of("Conv2D: {filters: 4, kernel_size: 0}"), Catch::Contains("positive integer"));
  CHECK_THAT(error_of("Conv2D: {filters: 4, kernel_size: 3, padding: smae}"),
             Catch::Contains("same"));
  CHECK_THAT(error_of("Conv2D: {filters: 4, kernel_size: 3, padding: causal}"),
             Catch::Contains("valid") && Catch::Contains("same"));
  CHECK_THAT(error_of("ReLU: {threshold: -1}"), Catch::Contains("at least 0"));
  CHECK_THAT(error_of("ELU: {alpha: -1}"), Catch::Contains("at least 0"));
  CHECK_THAT(error_of("PReLU: {shared_axes: [2]}"), Catch::Contains("found [2]"));
  CHECK_THAT(error_of("BatchNormalization: {axis: 1}"),
             Catch::Contains("axis: expected -1, the last dimension"));
  CHECK_THAT(error_of("ZeroPadding2D: {padding: -1}"), Catch::Contains("at least 0"));
  CHECK_THAT(error_of("Cropping3D: {cropping: [1, 2]}"), Catch::Contains("three for planes"));
  CHECK_THAT(error_of("ZeroPadding1D: {padding: [1, 2, 3]}"), Catch::Contains("before and behind"));
  CHECK_THAT(error_of("UpSampling2D: {interpolation: bicubic}"), Catch::Contains("bilinear"));
}

TEST_CASE("a block of layers has a name and a list") {
  const Graph graph = graph_of(
      "Sequential:\n"
      "  name: feature\n"
      "  layers:\n"
      "    - Dense: {name: d1, units: 4}\n"
      "    - Sequential: {layers: [Dense: {units: 2}]}\n",
      {3});
  CHECK(graph.variables[0].path == "feature/d1/kernel");
  CHECK(graph.variables[2].path == "feature/sequential/dense/kernel");
}

TEST_CASE("what a layer is called on is not its own option") {
  CHECK(graph_of("Dense: {units: 4, inputs: [x]}", {3}).variables.size() == 2);
  CHECK(graph_of("Flatten: {inputs: x}", {3}).operations.size() == 1);
}

TEST_CASE("wrong options are errors with their place") {
  CHECK_THAT(error_of("Dense:\n  name: d1\n"),
             Catch::Contains("net.yaml:") && Catch::Contains("units"));
  CHECK_THAT(error_of("Dense: {units: ten}"),
             Catch::Contains("net.yaml:1:16") && Catch::Contains("positive integer"));
  CHECK_THAT(error_of("Dense: {units: 0}"), Catch::Contains("positive integer"));
  CHECK_THAT(error_of("Dense: {units: 4, activaton: relu}"),
             Catch::Contains("net.yaml:1:19") && Catch::Contains("activation"));
  CHECK_THAT(error_of("Dense: {units: 4, activation: rleu}"), Catch::Contains("relu"));
  CHECK_THAT(error_of("Dense: {units: 4, kernel_initializer: he_nomal}"),
             Catch::Contains("net.yaml:1:") && Catch::Contains("he_normal"));
  CHECK_THAT(error_of("Dropout: {rate: 1.5}"), Catch::Contains("between 0 and 1"));
  CHECK_THAT(error_of("Dropout:"), Catch::Contains("rate"));
  // The path says the class.
  CHECK(error_of("Reshape: {target_shape: [-1, -1]}") ==
        "net.yaml:1:10: Reshape: `target_shape` (-1, -1) leaves several lengths open; at most one "
        "may be -1");
  CHECK_THAT(error_of("Rescaling: {scale: .nan}"), Catch::Contains("scale"));
  CHECK_THAT(error_of("Flatten: {units: 3}"), Catch::Contains("units"));
  CHECK_THAT(error_of("Sequential: {name: s}"), Catch::Contains("a list of layers"));
  CHECK_THAT(error_of("Sequential: {layers: [Desne: {units: 3}]}"),
             Catch::Contains("did you mean \"Dense\"?"));
  CHECK_THAT(error_of("[Dense]"), Catch::Contains("a layer"));
  CHECK_THAT(error_of("Dense: {units: 1}\nFlatten:"), Catch::Contains("2 entries"));
}

TEST_CASE("the table of the way back is neither charged nor constrained, as in Keras") {
  const auto layer = made(
      "ReversibleEmbedding: {input_dim: 4, output_dim: 3, tie_weights: false, "
      "embeddings_regularizer: {L2: {l2: 0.5}}, "
      "embeddings_constraint: NonNeg}");
  const auto x = Input({2}, "", ElementType::int32);
  const Graph graph = make_graph({x}, {layer(layer(x))});
  REQUIRE(graph.variables.size() == 2);
  CHECK(graph.variables[0].options.regularizer.active());
  CHECK(graph.variables[0].options.constraint != Constraint());
  CHECK_FALSE(graph.variables[1].options.regularizer.active());
  CHECK(graph.variables[1].options.constraint == Constraint());
}

}  // namespace meshwork::options_test
