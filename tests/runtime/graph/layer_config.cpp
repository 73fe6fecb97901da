// Registering layers, and reading their options.
#include "layers/constraints/max_norm.h"
#include "layers/constraints/min_max_norm.h"
#include "layers/constraints/non_neg.h"
#include "layers/constraints/unit_norm.h"
#include "layers/initializers/constant.h"
#include "layers/initializers/glorot.h"
#include "layers/initializers/he.h"
#include "layers/initializers/random_uniform.h"
#include "layers/initializers/truncated_normal.h"
#include "layers/initializers/variance_scaling.h"
#include "layers/regularizers/l1_l2.h"
#include "layers/regularizers/orthogonal_regularizer.h"
#include "runtime/config/catalog.h"
#include "runtime/device/kernels/activation.h"

#include "collectives/error.h"
#include "layers/identity.h"
#include "layers/pages.h"
#include "runtime/config/load.h"
#include "runtime/graph/layer_config.h"
#include "tests/support/catch.h"

namespace meshwork::layer_config_test {

namespace {

ConfigNode parsed(const std::string& text) {
  return parse_config(text, "test.yaml");
}

SharedLayer made(const std::string& text) {
  Catalog catalog;
  add_layers(catalog);
  return catalog.make<SharedLayer>(parsed(text));
}

template <class Value>
Value option(const ConfigNode& node) {
  Catalog catalog;
  add_layers(catalog);
  Value value;
  from_config(node, value, catalog);
  return value;
}

Initializer initializer(const std::string& text) {
  return option<Initializer>(parsed(text));
}

}  // namespace

TEST_CASE("a class can be registered once, and begins with a capital letter") {
  Catalog catalog;
  add_layers(catalog);
  CHECK(catalog.find<SharedLayer>("Dense") != nullptr);
  CHECK(catalog.names_like<SharedLayer>("Dense") ==
        std::vector<std::string>{"Activation",
                                 "ActivityRegularization",
                                 "AdaptiveAveragePooling1D",
                                 "AdaptiveAveragePooling2D",
                                 "AdaptiveAveragePooling3D",
                                 "AdaptiveMaxPooling1D",
                                 "AdaptiveMaxPooling2D",
                                 "AdaptiveMaxPooling3D",
                                 "Add",
                                 "AlphaDropout",
                                 "Average",
                                 "AveragePooling1D",
                                 "AveragePooling2D",
                                 "AveragePooling3D",
                                 "BatchNormalization",
                                 "CategoryEncoding",
                                 "CenterCrop",
                                 "Concatenate",
                                 "Conv1D",
                                 "Conv1DTranspose",
                                 "Conv2D",
                                 "Conv2DTranspose",
                                 "Conv3D",
                                 "Conv3DTranspose",
                                 "Cropping1D",
                                 "Cropping2D",
                                 "Cropping3D",
                                 "Dense",
                                 "DepthwiseConv1D",
                                 "DepthwiseConv2D",
                                 "Dot",
                                 "Dropout",
                                 "ELU",
                                 "EinsumDense",
                                 "Embedding",
                                 "Flatten",
                                 "GaussianDropout",
                                 "GaussianNoise",
                                 "GlobalAveragePooling1D",
                                 "GlobalAveragePooling2D",
                                 "GlobalAveragePooling3D",
                                 "GlobalMaxPooling1D",
                                 "GlobalMaxPooling2D",
                                 "GlobalMaxPooling3D",
                                 "GroupNormalization",
                                 "GroupQueryAttention",
                                 "Identity",
                                 "LayerNormalization",
                                 "LeakyReLU",
                                 "Masking",
                                 "MaxPooling1D",
                                 "MaxPooling2D",
                                 "MaxPooling3D",
                                 "Maximum",
                                 "Minimum",
                                 "MultiHeadAttention",
                                 "Multiply",
                                 "Normalization",
                                 "PReLU",
                                 "Permute",
                                 "PositionEmbedding",
                                 "RMSNormalization",
                                 "RandomBrightness",
                                 "RandomContrast",
                                 "RandomCrop",
                                 "RandomFlip",
                                 "RandomRotation",
                                 "RandomTranslation",
                                 "RandomZoom",
                                 "ReLU",
                                 "Repeat",
                                 "RepeatVector",
                                 "Rescaling",
                                 "Reshape",
                                 "Resizing",
                                 "ReversibleEmbedding",
                                 "RotaryEmbedding",
                                 "SeparableConv1D",
                                 "SeparableConv2D",
                                 "Sequential",
                                 "Softmax",
                                 "SpatialDropout1D",
                                 "SpatialDropout2D",
                                 "SpatialDropout3D",
                                 "Subtract",
                                 "UnitNormalization",
                                 "UpSampling1D",
                                 "UpSampling2D",
                                 "UpSampling3D",
                                 "ZeroPadding1D",
                                 "ZeroPadding2D",
                                 "ZeroPadding3D"});
  CHECK_THROWS_WITH(add_layers(catalog), "there are two layer classes \"Activation\"");
  CHECK_THROWS_WITH(catalog.enter<SharedLayer>({"scale", {}, {}, {}}),
                    Catch::Contains("capital letter"));
}

TEST_CASE("a layer that does not exist is an error with place and nearest name") {
  CHECK_THROWS_WITH(
      made("{Dens: {units: 3}}"),
      Catch::Contains("test.yaml:1:2: unknown layer \"Dens\"; did you mean \"Dense\"?"));
}

TEST_CASE("initializers are names or classes with options") {
  CHECK(initializer("he_normal") == HeNormal());
  CHECK(initializer("HeNormal") == HeNormal());
  CHECK(initializer("{GlorotUniform: }") == GlorotUniform());
  CHECK(initializer("{Constant: {value: 0.5}}") == Constant({.value = 0.5}));
  CHECK(initializer("{RandomUniform: {minval: -1, maxval: 2}}") ==
        RandomUniform({.minval = -1, .maxval = 2}));
  CHECK(initializer("{TruncatedNormal: {stddev: 0.1}}") == TruncatedNormal({.stddev = 0.1}));
  CHECK(initializer("{VarianceScaling: {scale: 2, mode: fan_avg, distribution: uniform}}") ==
        VarianceScaling(
            {.scale = 2, .mode = FanMode::average, .distribution = ScalingDistribution::uniform}));
  CHECK(initializer("{VarianceScaling: {distribution: untruncated_normal}}") ==
        VarianceScaling({.distribution = ScalingDistribution::normal}));
  CHECK(initializer("{Constant: {value: 0.5}}") != initializer("{Constant: {value: 0.25}}"));
  CHECK(to_text(initializer("he_normal")) == "he_normal");
  CHECK(to_text(initializer("RandomUniform")) == "random_uniform");
  CHECK(to_text(initializer("{RandomUniform: {minval: -1}}")) ==
        "an initializer with options of its own");

  CHECK_THROWS_WITH(initializer("glorot_unifrom"),
                    Catch::Contains("did you mean \"glorot_uniform\"?"));
  CHECK_THROWS_WITH(initializer("{Constant: {valeu: 1}}"), Catch::Contains("\"value\""));
  CHECK_THROWS_WITH(initializer("{HeNormal: {scale: 1}}"), Catch::Contains("scale"));
  CHECK_THROWS_WITH(initializer("{VarianceScaling: {scale: 0}}"),
                    Catch::Contains("positive") || Catch::Contains("above 0"));
  CHECK_THROWS_WITH(initializer("{VarianceScaling: {mode: fan_inn}}"), Catch::Contains("fan_in"));
  CHECK_THROWS_AS(initializer("[he_normal]"), ConfigError);
}

TEST_CASE("regularizers have Keras's forms and defaults") {
  const auto regularizer = [](const std::string& text) {
    return option<Regularizer>(*parsed("r: " + text).find("r"));
  };
  CHECK(regularizer("~") == Regularizer{});
  CHECK(regularizer("{L2: 0.5}") == L2(0.5f));
  CHECK(regularizer("{L1: 0.25}") == L1(0.25f));
  CHECK(regularizer("{L2: {l2: 0.5}}") == L2(0.5f));
  CHECK(regularizer("L2") == L2(0.01f));
  CHECK(regularizer("l1") == L1(0.01f));
  CHECK(regularizer("{L1L2: {l1: 0.5, l2: 0.25}}") == L1L2({.l1 = 0.5f, .l2 = 0.25f}));
  CHECK(regularizer("{L1L2: {l2: 0.25}}") == L2(0.25f));
  CHECK(regularizer("OrthogonalRegularizer") == OrthogonalRegularizer());
  CHECK(regularizer("{OrthogonalRegularizer: {factor: 0.5, mode: columns}}") ==
        OrthogonalRegularizer({.factor = 0.5f, .of_rows = false}));
  CHECK(regularizer("{L2: 0.5}") != regularizer("{L2: 0.25}"));
  CHECK(to_text(Regularizer{}) == "none");
  CHECK(to_text(regularizer("{L2: 0.5}")) == "L1L2 of l1 0, l2 0.5");
  CHECK_THROWS_AS(regularizer("{L2: -1}"), ConfigError);
  CHECK_THROWS_AS(regularizer("{L2: .inf}"), ConfigError);
  CHECK_THROWS_AS(regularizer("{L2: {l1: 1}}"), ConfigError);
  CHECK_THROWS_WITH(regularizer("{L3: 1}"), Catch::Contains("unknown regularizer \"L3\""));
}

TEST_CASE("constraints have Keras's forms and defaults") {
  const auto constraint = [](const std::string& text) {
    return option<Constraint>(*parsed("c: " + text).find("c"));
  };
  CHECK(constraint("~") == Constraint{});
  CHECK(constraint("non_neg") == NonNeg());
  CHECK(constraint("MaxNorm") == MaxNorm({.max_value = 2}));
  CHECK(constraint("{MaxNorm: {max_value: 3, axis: 1}}") == MaxNorm({.max_value = 3, .axis = 1}));
  CHECK(constraint("{UnitNorm: {axis: [0, 1, 2]}}") == UnitNorm({.axis = {0, 1, 2}}));
  CHECK(constraint("{MinMaxNorm: {min_value: 0.5, rate: 0.25}}") ==
        MinMaxNorm({.min_value = 0.5, .max_value = 1, .rate = 0.25}));
  CHECK(constraint("{MaxNorm: {axis: 1}}") != constraint("MaxNorm"));
  CHECK(to_text(Constraint{}) == "none");
  CHECK(to_text(constraint("MaxNorm")) == "max_norm");
  CHECK_THROWS_WITH(constraint("{UnitNorm: {max_value: 1}}"), Catch::Contains("max_value"));
  CHECK_THROWS_WITH(constraint("{MaxNorm: {axis: rows}}"), Catch::Contains("axis"));
  CHECK_THROWS_WITH(constraint("{MinMaxNorm: {rate: 2}}"), Catch::Contains("between 0 and 1"));
}

TEST_CASE("activations are names, and nothing is linear") {
  CHECK(parsed("a: ~").find("a")->as<Activation>() == Activation::linear);
  CHECK(parsed("gelu").as<Activation>() == Activation::gelu);
  CHECK(parsed("swish").as<Activation>() == Activation::silu);
  CHECK(parsed("hard_swish").as<Activation>() == Activation::hard_silu);
  CHECK(parsed("celu").as<Activation>() == Activation::elu);
  for (const Activation activation : all_activations()) {
    CHECK(parsed(std::string(name_of(activation))).as<Activation>() == activation);
  }
  CHECK_THROWS_WITH(parsed("rleu").as<Activation>(), Catch::Contains("\"relu\""));
}

TEST_CASE("a layer class that makes nothing is told so") {
  Catalog catalog;
  const auto nothing = [](const ConfigNode&, const Catalog&) { return SharedLayer(nullptr); };
  catalog.enter<SharedLayer>({"Nothing", {}, nothing, nullptr});
  CHECK_THROWS_WITH(catalog.make<SharedLayer>(parsed("\nNothing: {}")),
                    "test.yaml:2:10: Nothing: the layer class Nothing made no layer");
}

}  // namespace meshwork::layer_config_test
