// Calling layers, and the graph that follows: names, paths, sharing, blocks, errors.
#include "runtime/graph/layer.h"
#include "runtime/device/kernels/activation.h"

#include "collectives/error.h"
#include "layers/activation.h"
#include "layers/add.h"
#include "layers/concatenate.h"
#include "layers/dense.h"
#include "layers/dropout.h"
#include "layers/flatten.h"
#include "tests/support/catch.h"

namespace meshwork::layer_test {

namespace {

std::vector<std::string> operation_paths(const Graph& graph) {
  std::vector<std::string> paths;
  for (const GraphOperation& operation : graph.operations) {
    paths.push_back(operation.path);
  }
  return paths;
}

using Paths = std::vector<std::string>;

// A model as a class, with sub-layers by name.
class Perceptron : public LayerBlock {
 public:
  explicit Perceptron(std::int64_t units, std::string name = "")
      : LayerBlock(std::move(name)), units_(units) {}
  SymbolicTensor call(const std::vector<SymbolicTensor>& inputs) const override {
    return second_(first_(inputs[0]));
  }

 private:
  std::int64_t units_;
  SharedLayer first_ = add("first", Dense({.units = units_, .activation = Activation::relu}));
  SharedLayer second_ = add("second", Dense({.units = 2}));
};

SharedLayer perceptron(std::int64_t units, std::string name = "") {
  return SharedLayer(std::make_shared<Perceptron>(units, std::move(name)));
}

}  // namespace

TEST_CASE("the network of Keras's distribution guide has the guide's paths") {
  const auto images = Input({28, 28, 1});
  auto x = Flatten()(images);
  x = Dense({.name = "d1", .units = 200, .activation = Activation::relu, .use_bias = false})(x);
  x = Dropout({.rate = 0.4f})(x);
  x = Dense({.name = "d2", .units = 10, .activation = Activation::softmax})(x);
  CHECK(x.shape() == Shape{-1, 10});
  const Graph graph = make_graph({images}, {x});
  CHECK(graph.paths() == Paths{"flatten/output", "d1/kernel", "d1/output", "dropout/output",
                               "d2/kernel", "d2/bias", "d2/output"});
  CHECK(operation_paths(graph) == Paths{"flatten/reshape", "d1/product", "d1/relu",
                                        "dropout/dropout", "d2/product", "d2/bias", "d2/softmax"});
  CHECK(graph.tensors[graph.find("d1/kernel")].shape == Shape{784, 200});
  CHECK(graph.tensors[graph.find("d1/output")].shape == Shape{-1, 200});
  CHECK(graph.tensors[graph.inputs[0]].path == "input");
  CHECK(graph.outputs == std::vector<TensorId>{graph.find("d2/output")});
  CHECK(graph.layers.size() == 4);
  CHECK(graph.layers[1].path == "d1");
  CHECK(graph.layers[1].class_name == "Dense");
  CHECK(graph.layers[1].output == graph.find("d1/output"));
  CHECK(graph.operations[2].layer == 1);
}

TEST_CASE("class names become paths as in Keras") {
  CHECK(snake_case("Dense") == "dense");
  CHECK(snake_case("Conv2D") == "conv2d");
  CHECK(snake_case("MaxPooling2D") == "max_pooling2d");
  CHECK(snake_case("GlobalAveragePooling2D") == "global_average_pooling2d");
  CHECK(snake_case("BatchNormalization") == "batch_normalization");
  CHECK(snake_case("ReLU") == "re_lu");
  CHECK(snake_case("Conv2DTranspose") == "conv2d_transpose");
  CHECK(snake_case("LSTM") == "lstm");
  CHECK(snake_case("ABCd") == "ab_cd");
  CHECK(snake_case("aBC") == "a_bc");
  CHECK(snake_case("A_Bc") == "a__bc");
  CHECK(snake_case("abC2Def") == "ab_c2_def");
  CHECK(snake_case("My Layer!") == "my_layer");
  CHECK(snake_case("LeakyReLU") == "leaky_re_lu");
  CHECK(snake_case("InputLayer") == "input_layer");
}

TEST_CASE(
    "layers without a name are numbered by class in order of appearance, in every model anew") {
  for (int model = 0; model < 2; ++model) {
    const auto x = Input({4});
    auto y = Dense({.units = 3})(x);
    y = ActivationLayer({.activation = Activation::relu})(y);
    y = Dense({.units = 2})(y);
    const Graph graph = make_graph({x}, {y});
    CHECK(graph.paths() == Paths{"dense/kernel", "dense/bias", "dense/output", "activation/output",
                                 "dense_1/kernel", "dense_1/bias", "dense_1/output"});
  }
}

TEST_CASE("numbers go around names that the user gave, also later ones") {
  const auto x = Input({4});
  auto y = Dense({.units = 3})(x);
  y = Dense({.units = 3})(y);
  y = Dense({.name = "dense", .units = 3})(y);
  y = Dense({.name = "dense_1", .units = 3})(y);
  const Graph graph = make_graph({x}, {y});
  CHECK(graph.layers[0].path == "dense_2");
  CHECK(graph.layers[1].path == "dense_3");
}

TEST_CASE("a layer that is called twice has one set of variables and two outputs") {
  const auto a = Input({4}, "a");
  const auto b = Input({4}, "b");
  const SharedLayer d1 = Dense({.name = "d1", .units = 3});
  const auto y = Concatenate()({d1(a), d1(b)});
  const Graph graph = make_graph({a, b}, {y});
  CHECK(graph.paths() ==
        Paths{"d1/kernel", "d1/bias", "d1/output", "d1/output_1", "concatenate/output"});
  CHECK(operation_paths(graph) ==
        Paths{"d1/product", "d1/bias", "d1/product_1", "d1/bias_1", "concatenate/concatenate"});
  CHECK(graph.variables.size() == 2);
  const TensorId kernel = graph.find("d1/kernel");
  CHECK(graph.tensors[kernel].consumers.size() == 2);
  CHECK(graph.variables[graph.tensors[kernel].variable].path == "d1/kernel");
}

TEST_CASE("a value that is used twice is built once") {
  const auto x = Input({4});
  const auto y = Dense({.name = "d1", .units = 4})(x);
  const Graph graph = make_graph({x}, {Add()({y, y, x})});
  CHECK(operation_paths(graph) == Paths{"d1/product", "d1/bias", "add/add"});
}

TEST_CASE("a layer that does nothing has an output of its own") {
  const auto x = Input({4});
  auto y = Dense({.name = "d1", .units = 4})(x);
  y = ActivationLayer({.name = "none", .activation = Activation::linear})(y);
  y = Dropout({.name = "keep", .rate = 0})(y);
  const Graph graph = make_graph({x}, {y});
  CHECK(graph.paths() == Paths{"d1/kernel", "d1/bias", "d1/output", "none/output", "keep/output"});

  class Nothing : public Layer {
   public:
    std::string class_name() const override { return "Nothing"; }
    TensorId build(LayerBuilder&, std::span<const TensorId> inputs) const override {
      return inputs[0];
    }
  };
  const auto z = SharedLayer(std::make_shared<Nothing>())(x);
  const Graph unchanged = make_graph({x}, {z});
  CHECK(unchanged.paths() == Paths{"nothing/output"});
  CHECK(operation_paths(unchanged) == Paths{"nothing/identity"});
}

TEST_CASE("a block gives its name to the paths of its layers") {
  const auto x = Input({4});
  const auto y = perceptron(3, "block")(x);
  CHECK(y.shape() == Shape{-1, 2});
  const Graph graph = make_graph({x}, {Dense({.name = "head", .units = 1})(y)});
  CHECK(graph.paths() == Paths{"block/first/kernel", "block/first/bias", "block/first/output",
                               "block/second/kernel", "block/second/bias", "block/second/output",
                               "block/output", "head/kernel", "head/bias", "head/output"});
}

TEST_CASE("a model that is a class is no scope of its own when its call is the model") {
  const auto x = Input({4});
  const Perceptron model(3, "model");
  const Graph graph = make_graph({x}, {model.call({x})});
  CHECK(graph.paths().front() == "first/kernel");
  CHECK(graph.paths().back() == "second/output");
}

TEST_CASE("blocks nest, are numbered, and may be called twice") {
  const auto x = Input({2});
  const SharedLayer inner = perceptron(3);
  const SharedLayer outer = Sequential({inner, Dense({.units = 2}), inner}, "outer");
  const Graph graph = make_graph({x}, {outer(outer(x))});
  CHECK(graph.variables.size() == 6);
  CHECK(graph.variables[0].path == "outer/block/first/kernel");
  CHECK(graph.variables[4].path == "outer/dense/kernel");
  CHECK(graph.find("outer/block/output") >= 0);
  CHECK(graph.find("outer/block/output_3") >= 0);
  CHECK(graph.find("outer/output_1") == graph.outputs[0]);

  const auto y = Sequential({Dense({.units = 2})})(Sequential({Dense({.units = 2})})(x));
  const Graph numbered = make_graph({x}, {y});
  CHECK(numbered.variables[0].path == "sequential/dense/kernel");
  CHECK(numbered.variables[2].path == "sequential_1/dense/kernel");
}

TEST_CASE("a layer called in several scopes keeps the path of its first call") {
  const auto x = Input({2});
  const SharedLayer tied = Dense({.name = "tied", .units = 2});
  const auto y = tied(Sequential({tied}, "block")(x));
  const Graph graph = make_graph({x}, {y});
  CHECK(graph.variables.size() == 2);
  CHECK(graph.variables[0].path == "block/tied/kernel");
  CHECK(graph.find("block/tied/output_1") == graph.outputs[0]);
}

TEST_CASE("layers that a block makes anew in every call do not share by accident") {
  class Fresh : public LayerBlock {
   public:
    using LayerBlock::LayerBlock;
    SymbolicTensor call(const std::vector<SymbolicTensor>& inputs) const override {
      return ActivationLayer({.activation = Activation::relu})(Flatten()(inputs[0]));
    }
  };
  const auto x = Input({2, 3});
  const SharedLayer block(std::make_shared<Fresh>("fresh"));
  const Graph graph = make_graph({x}, {block(block(x))});
  CHECK(graph.find("fresh/flatten/output") >= 0);
  CHECK(graph.find("fresh/flatten_1/output") >= 0);
  CHECK(graph.find("fresh/activation_1/output") >= 0);
}

TEST_CASE("several inputs and outputs stay in the order in which they are listed") {
  const auto a = Input({3}, "a");
  const auto b = Input({5});
  const auto c = Input({7});
  const auto y = Dense({.name = "y", .units = 1})(c);
  const auto z = Concatenate({.name = "z"})({b, a});
  const Graph graph = make_graph({a, b, c}, {z, y});
  CHECK(graph.tensors[graph.inputs[0]].path == "a");
  CHECK(graph.tensors[graph.inputs[1]].path == "input");
  CHECK(graph.tensors[graph.inputs[2]].path == "input_1");
  CHECK(graph.outputs == std::vector<TensorId>{graph.find("z/output"), graph.find("y/output")});
  CHECK(graph.tensors[graph.outputs[0]].shape == Shape{-1, 8});
}

TEST_CASE("a deep model needs no deep stack") {
  const auto x = Input({2});
  const SharedLayer keep = ActivationLayer({.activation = Activation::relu});
  auto y = keep(x);
  for (int i = 0; i < 2000; ++i) {
    y = keep(y);
  }
  CHECK(make_graph({x}, {y}).operations.size() == 2001);
}

TEST_CASE("inputs that do not fit a layer are errors when it is called, with its path") {
  const auto x = Input({});
  CHECK_THROWS_WITH(Dense({.name = "d1", .units = 3})(x),
                    "d1: expected an input of at least two dimensions, batch and features, found "
                    "shape (batch)");
  CHECK_THROWS_WITH(Dense({.units = 3})(x), Catch::StartsWith("Dense: expected an input"));
  CHECK_THROWS_WITH(Dense({.name = "d1", .units = 3})({Input({2}), Input({2})}),
                    "d1: expected one input, found 2");
  CHECK_THROWS_WITH(Add()(std::vector<SymbolicTensor>{}), "Add: called without inputs");

  class Wrong : public LayerBlock {
   public:
    using LayerBlock::LayerBlock;
    SymbolicTensor call(const std::vector<SymbolicTensor>& inputs) const override {
      return sum_({inputs[0], first_(inputs[0])});
    }

   private:
    SharedLayer first_ = add("first", Dense({.units = 7}));
    SharedLayer sum_ = add("sum", Add());
  };
  const SharedLayer wrong(std::make_shared<Wrong>("wrong"));
  CHECK_THROWS_WITH(wrong(Input({3})), Catch::StartsWith("wrong/sum: expected inputs of equal"));
  CHECK_THROWS_WITH(Sequential({wrong}, "outer")(Input({3})),
                    Catch::StartsWith("outer/wrong/sum: expected inputs of equal"));
  CHECK_THROWS_WITH(Sequential({Flatten(), wrong})(Input({3})),
                    Catch::StartsWith("Sequential/wrong/sum: expected inputs of equal"));
}

TEST_CASE("what a layer throws is told with its path") {
  class Throws final : public Layer {
   public:
    Throws() : Layer("d1") {}
    std::string class_name() const override { return "Throws"; }
    TensorId build(LayerBuilder&, std::span<const TensorId>) const override {
      throw std::out_of_range("no such row");
    }
  };
  CHECK_THROWS_WITH(SharedLayer(std::make_shared<Throws>())(Input({3})), "d1: no such row");
}

TEST_CASE("a layer that is called on inputs of two sizes is an error when the graph is made") {
  const SharedLayer d1 = Dense({.name = "d1", .units = 3});
  const auto a = Input({4});
  const auto b = Input({5});
  CHECK_THROWS_WITH(
      make_graph({a, b}, {Add()({d1(a), d1(b)})}),
      "d1: its variable \"kernel\" has shape (4, 3) since the layer's first call, and "
      "this call needs (5, 3); a layer that is called twice takes inputs of one size");
}

TEST_CASE("names that clash or cannot be paths are errors") {
  const auto x = Input({4});
  const auto y = Dense({.name = "d1", .units = 4})(x);
  CHECK_THROWS_WITH(make_graph({x}, {Dense({.name = "d1", .units = 4})(y)}),
                    Catch::StartsWith("two layers are named \"d1\" (of class Dense and Dense)"));
  CHECK_THROWS_WITH(make_graph({x}, {Dropout({.name = "d1", .rate = 0.5f})(y)}),
                    Catch::StartsWith("two layers are named \"d1\" (of class Dense and Dropout)"));
  CHECK_THROWS_WITH(
      Sequential({Dense({.name = "d1", .units = 4}), Dense({.name = "d1", .units = 4})}, "s")(x),
      Catch::StartsWith("s: two layers are named \"d1\""));
  CHECK_THROWS_WITH(Dense({.name = "a/b", .units = 4})(x), Catch::Contains("contains \"/\""));
  CHECK_THROWS_WITH(Input({4}, "a/b"), Catch::Contains("contains \"/\""));
  CHECK_THROWS_WITH(Dense({.name = "a\nb", .units = 4})(x),
                    Catch::Contains("the name \"a\\nb\" contains a control character"));
  CHECK_THROWS_WITH(Dense({.name = std::string("a\0b", 3), .units = 4})(x),
                    Catch::Contains("the name \"a\\x00b\" contains a control character"));
  CHECK_THROWS_WITH(Input({4}, "\x1b[31m"),
                    Catch::Contains("the name \"\\x1b[31m\" contains a control character"));
  CHECK_THROWS_WITH(Input({2}, "\xe2\x80\xae"),
                    Catch::Contains("the name \"\\xe2\\x80\\xae\" contains a control character"));
  CHECK_THROWS_WITH(Input({2}, std::string(1025, 'n')),
                    Catch::Contains("1025 bytes, 1024 are the most"));
  CHECK_NOTHROW(Input({2}, std::string(1024, 'n')));
  CHECK_THROWS_WITH(make_graph({Input({4}, "d1")}, {y}),
                    Catch::Contains("no output depends on it"));
  const auto named = Input({4}, "d1");
  CHECK_THROWS_WITH(make_graph({named}, {Dense({.name = "d1", .units = 4})(named)}),
                    Catch::Contains("a layer (of class Dense) and an input are both named \"d1\""));
}

TEST_CASE("inputs of a model that do not fit its outputs are errors") {
  const auto x = Input({4}, "x");
  const auto y = Input({4}, "y");
  const auto z = Add()({x, y});
  CHECK_THROWS_WITH(make_graph({x}, {z}),
                    "the output depends on the input \"y\", which is not among the inputs");
  CHECK_THROWS_WITH(make_graph({x, y, Input({4}, "z")}, {z}),
                    "the input \"z\" is listed as an input of the model, but no output depends on "
                    "it");
  CHECK_THROWS_WITH(make_graph({x, y, x}, {z}), "the input \"x\" is listed twice");
  CHECK_THROWS_WITH(make_graph({x, y, z}, {z}), Catch::Contains("inputs are made by Input(shape)"));
  CHECK_THROWS_WITH(make_graph({}, {z}), Catch::Contains("at least one input and one output"));
  CHECK_THROWS_WITH(make_graph({x, Input({2}, "x")}, {Add()({x, x})}), Catch::Contains("\"x\""));
  CHECK_THROWS_WITH(Input({3, 0}), Catch::Contains("dimension 1 of a sample has length 0"));
  CHECK_THROWS_WITH(Input({-1, 3}), Catch::Contains("the batch is not among them"));
}

TEST_CASE("a block that reaches for a value outside is an error") {
  class Reaching : public LayerBlock {
   public:
    explicit Reaching(SymbolicTensor outside) : LayerBlock("reaching"), outside_(outside) {}
    SymbolicTensor call(const std::vector<SymbolicTensor>& inputs) const override {
      return Add()({inputs[0], outside_});
    }

   private:
    SymbolicTensor outside_;
  };
  const auto x = Input({4}, "x");
  CHECK_THROWS_WITH(SharedLayer(std::make_shared<Reaching>(x))(Input({4})),
                    "reaching: the output depends on the input \"x\", which is not among the "
                    "inputs");
}

TEST_CASE("sub-layers have one name") {
  class Renamed : public LayerBlock {
   public:
    SymbolicTensor call(const std::vector<SymbolicTensor>& inputs) const override {
      return inputs[0];
    }
    SharedLayer layer = add("b", Dense({.name = "a", .units = 1}));
  };
  CHECK_THROWS_WITH(Renamed(), "the sub-layer \"b\" has the name \"a\" already");
}

}  // namespace meshwork::layer_test
