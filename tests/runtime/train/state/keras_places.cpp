// Where Keras has the variables of a model. What is expected here was written by Keras 3.15 for the
// same models.
#include "runtime/train/state/keras_places.h"

#include "layers/add.h"
#include "layers/batch_normalization.h"
#include "layers/convolution.h"
#include "layers/dense.h"
#include "layers/embedding.h"
#include "layers/flatten.h"
#include "layers/multi_head_attention.h"
#include "layers/normalization.h"
#include "layers/position.h"
#include "layers/reshape.h"
#include "tests/support/catch.h"

namespace meshwork::keras_places_test {

namespace {

// "d1/kernel: layers/dense/vars/0".
std::vector<std::string> lines(const std::vector<KerasPlace>& places) {
  std::vector<std::string> text;
  for (const KerasPlace& place : places) {
    text.push_back(place.variable + ": " + place.place);
  }
  return text;
}

class TwoLayers final : public LayerBlock {
 public:
  explicit TwoLayers(std::string first, std::string second)
      : first_(add(first, Dense({.units = 4}))), second_(add(second, Dense({.units = 4}))) {}
  std::string class_name() const override { return "TwoLayers"; }
  SymbolicTensor call(const std::vector<SymbolicTensor>& inputs) const override {
    return second_(first_(inputs.front()));
  }

 private:
  SharedLayer first_, second_;
};

}  // namespace

TEST_CASE("a chain is counted by class as it is written, whatever its layers are called") {
  const SymbolicTensor input = Input({6});
  SymbolicTensor x = Dense({.name = "one", .units = 5})(input);
  x = BatchNormalization({.name = "norm"})(x);
  x = Reshape({.target_shape = {5, 1, 1}})(x);
  x = Conv2D({.name = "conv", .filters = 2, .kernel_size = 1})(x);
  x = Flatten()(x);
  x = Dense({.name = "a", .units = 3})(x);
  CHECK(lines(keras_places(make_graph({input}, {x}), KerasModel::functional)) ==
        std::vector<std::string>{
            "one/kernel: layers/dense/vars/0", "one/bias: layers/dense/vars/1",
            "norm/gamma: layers/batch_normalization/vars/0",
            "norm/beta: layers/batch_normalization/vars/1",
            "norm/moving_mean: layers/batch_normalization/vars/2",
            "norm/moving_variance: layers/batch_normalization/vars/3",
            "conv/kernel: layers/conv2d/vars/0", "conv/bias: layers/conv2d/vars/1",
            "a/kernel: layers/dense_1/vars/0", "a/bias: layers/dense_1/vars/1"});
}

TEST_CASE("the parts of a layer have Keras's names for them") {
  const SymbolicTensor input = Input({4, 6});
  const auto x = MultiHeadAttention({.name = "a", .num_heads = 2, .key_dim = 3})(input);
  const std::string attention = "layers/multi_head_attention/";
  std::vector<std::string> expected;
  for (const auto& [part, in_keras] :
       {std::pair{"query", "query_dense"}, std::pair{"key", "key_dense"},
        std::pair{"value", "value_dense"}, std::pair{"attention_output", "output_dense"}}) {
    expected.push_back(fmt::format("a/{}/kernel: {}{}/vars/0", part, attention, in_keras));
    expected.push_back(fmt::format("a/{}/bias: {}{}/vars/1", part, attention, in_keras));
  }
  CHECK(lines(keras_places(make_graph({input}, {x}), KerasModel::functional)) == expected);
  const auto y = GroupQueryAttention({.name = "g",
                                      .head_dim = 2,
                                      .num_query_heads = 2,
                                      .num_key_value_heads = 1,
                                      .use_bias = false})(input);
  const std::string grouped = "layers/grouped_query_attention/_";
  CHECK(lines(keras_places(make_graph({input}, {y}), KerasModel::functional)) ==
        std::vector<std::string>{"g/query/kernel: " + grouped + "query_dense/vars/0",
                                 "g/key/kernel: " + grouped + "key_dense/vars/0",
                                 "g/value/kernel: " + grouped + "value_dense/vars/0",
                                 "g/attention_output/kernel: " + grouped + "output_dense/vars/0"});
}

TEST_CASE("a table that is used both ways has one place") {
  const SymbolicTensor input = Input({4}, "", ElementType::int32);
  const SharedLayer tokens = ReversibleEmbedding({.name = "t", .input_dim = 5, .output_dim = 3});
  const auto x = tokens(input);
  const auto y = tokens(Add()({x, PositionEmbedding({.name = "p", .sequence_length = 4})(x)}));
  CHECK(lines(keras_places(make_graph({input}, {y}), KerasModel::functional)) ==
        std::vector<std::string>{"t/embeddings: layers/reversible_embedding/vars/0",
                                 "p/embeddings: layers/position_embedding/vars/0"});
}

TEST_CASE("where a layer lacks a variable, those behind it move up") {
  const SymbolicTensor input = Input({6});
  SymbolicTensor x = Dense({.name = "d", .units = 5, .use_bias = false})(input);
  x = BatchNormalization({.name = "n", .scale = false})(x);
  x = BatchNormalization({.name = "frozen", .trainable = false})(x);
  CHECK(lines(keras_places(make_graph({input}, {x}), KerasModel::functional)) ==
        std::vector<std::string>{"d/kernel: layers/dense/vars/0",
                                 "n/beta: layers/batch_normalization/vars/0",
                                 "n/moving_mean: layers/batch_normalization/vars/1",
                                 "n/moving_variance: layers/batch_normalization/vars/2",
                                 "frozen/gamma: layers/batch_normalization_1/vars/0",
                                 "frozen/beta: layers/batch_normalization_1/vars/1",
                                 "frozen/moving_mean: layers/batch_normalization_1/vars/2",
                                 "frozen/moving_variance: layers/batch_normalization_1/vars/3"});
}

TEST_CASE(
    "statistics that were found have places, with a count, and those that were given have none") {
  const SymbolicTensor input = Input({6});
  SymbolicTensor x = Normalization({.name = "given", .mean = 1, .variance = 2})(input);
  x = Normalization({.name = "found"})(x);
  CHECK(lines(keras_places(make_graph({input}, {x}), KerasModel::functional)) ==
        std::vector<std::string>{"found/mean: layers/normalization_1/vars/0",
                                 "found/variance: layers/normalization_1/vars/1",
                                 "found/count: layers/normalization_1/vars/2"});
}

TEST_CASE("layers beside each other are counted by depth, then from the first input on") {
  const SymbolicTensor left = Input({6});
  const SymbolicTensor right = Input({4});
  const SymbolicTensor l = Dense({.name = "l2", .units = 5, .use_bias = false})(
      Dense({.name = "l1", .units = 3, .use_bias = false})(left));
  const SymbolicTensor r = Dense({.name = "r2", .units = 5, .use_bias = false})(
      Dense({.name = "r1", .units = 7, .use_bias = false})(right));
  const SymbolicTensor sum = Add()({l, r});
  const SymbolicTensor output = Dense({.name = "out", .units = 2, .use_bias = false})(sum);
  CHECK(lines(keras_places(make_graph({left, right}, {output}), KerasModel::functional)) ==
        std::vector<std::string>{
            "l1/kernel: layers/dense/vars/0", "r1/kernel: layers/dense_1/vars/0",
            "l2/kernel: layers/dense_2/vars/0", "r2/kernel: layers/dense_3/vars/0",
            "out/kernel: layers/dense_4/vars/0"});
}

TEST_CASE("a short branch stands where it joins, and a layer called twice where it is deepest") {
  const SymbolicTensor input = Input({4});
  const SharedLayer shared = Dense({.name = "shared", .units = 4, .use_bias = false});
  const SymbolicTensor deep =
      shared(Dense({.name = "first", .units = 4, .use_bias = false})(shared(input)));
  const SymbolicTensor branch = Dense({.name = "short", .units = 4, .use_bias = false})(input);
  const SymbolicTensor output = Add()({branch, deep});
  CHECK(lines(keras_places(make_graph({input}, {output}), KerasModel::functional)) ==
        std::vector<std::string>{"shared/kernel: layers/dense/vars/0",
                                 "first/kernel: layers/dense_1/vars/0",
                                 "short/kernel: layers/dense_2/vars/0"});
}

TEST_CASE("blocks count anew: a Sequential by class, a block of one's own by its members") {
  const SymbolicTensor input = Input({5});
  SymbolicTensor x =
      Sequential({Dense({.units = 4, .use_bias = false}), Dense({.units = 4, .use_bias = false})},
                 "head")(input);
  x = SharedLayer(std::make_shared<TwoLayers>("first", "second"))(x);
  x = Dense({.units = 2, .use_bias = false})(x);
  CHECK(lines(keras_places(make_graph({input}, {x}), KerasModel::functional)) ==
        std::vector<std::string>{"head/dense/kernel: layers/sequential/layers/dense/vars/0",
                                 "head/dense_1/kernel: layers/sequential/layers/dense_1/vars/0",
                                 "two_layers/first/kernel: layers/two_layers/first/vars/0",
                                 "two_layers/first/bias: layers/two_layers/first/vars/1",
                                 "two_layers/second/kernel: layers/two_layers/second/vars/0",
                                 "two_layers/second/bias: layers/two_layers/second/vars/1",
                                 "dense/kernel: layers/dense/vars/0"});
}

TEST_CASE("a model written as a class has members before \"layers\" by name, later ones listed") {
  const SymbolicTensor input = Input({6});
  const auto block = std::make_shared<TwoLayers>("d1", "out");
  const SymbolicTensor output = block->call({input});
  const Graph graph = make_graph({input}, {output});
  CHECK(lines(keras_places(graph, KerasModel::subclass)) ==
        std::vector<std::string>{"d1/kernel: d1/vars/0", "d1/bias: d1/vars/1",
                                 "out/kernel: layers/dense_1/vars/0",
                                 "out/bias: layers/dense_1/vars/1"});
  CHECK(lines(keras_places(graph, KerasModel::members)) ==
        std::vector<std::string>{"d1/kernel: d1/vars/0", "d1/bias: d1/vars/1",
                                 "out/kernel: out/vars/0", "out/bias: out/vars/1"});
}

}  // namespace meshwork::keras_places_test
