// Models as configurations write them. (What is wrong with one is tested with whole configurations,
// in tests/launch.)
#include "runtime/graph/model_config.h"

#include "collectives/error.h"
#include "layers/pages.h"
#include "runtime/config/load.h"
#include "tests/support/catch.h"

namespace meshwork::model_config_test {

namespace {

ConfiguredModel model(const std::string& text) {
  Catalog catalog;
  add_layers(catalog);
  return model_from_config(parse_config(text, "test.yaml"), catalog);
}

Graph graph(const std::string& text) {
  return graph_of(model(text));
}

}  // namespace

TEST_CASE("layers one after the other give the paths that they would have in C++") {
  const Graph made = graph(R"(
input: [28, 28, 1]
layers:
  - Flatten:
  - Dense: {name: d1, units: 200, use_bias: false}
  - Dense: {units: 10}
)");
  CHECK(made.paths() == std::vector<std::string>{"flatten/output", "d1/kernel", "d1/output",
                                                 "dense/kernel", "dense/bias", "dense/output"});
  CHECK(made.tensors[made.find("d1/kernel")].shape == Shape{784, 200});
  CHECK(made.tensors[made.inputs.front()].path == "input");
}

TEST_CASE("a layer takes what it names, also several, and earlier ones again") {
  const Graph made = graph(R"(
input: [6]
layers:
  - Dense: {name: left, units: 4}
  - Dense: {name: right, units: 4, inputs: input}
  - Add: {name: sum, inputs: [left, right]}
  - Concatenate: {name: all, inputs: [sum, left, input]}
)");
  CHECK(made.tensors[made.find("all/output")].shape == Shape{-1, 14});
  CHECK(made.outputs.front() == made.find("all/output"));
}

TEST_CASE("a Repeat makes blocks of variables of their own, each on the output of the one before") {
  const Graph made = graph(R"(
input: [6]
layers:
  - Dense: {name: front, units: 4}
  - Repeat:
      name: block
      count: 2
      layers:
        - Dense: {name: up, units: 8}
        - Dense: {units: 4}
        - Repeat: {name: inner, count: 2, layers: [Dense: {name: d, units: 4, use_bias: false}]}
        - Add: {name: sum, inputs: [input, inner_1]}
  - Concatenate: {name: all, inputs: [front, block_0, block_1]}
)");
  const auto paths = made.paths();
  CHECK(std::vector<std::string>(paths.begin() + 3, paths.begin() + 18) ==
        std::vector<std::string>{
            "block_0/up/kernel", "block_0/up/bias", "block_0/up/output", "block_0/dense/kernel",
            "block_0/dense/bias", "block_0/dense/output", "block_0/inner_0/d/kernel",
            "block_0/inner_0/d/output", "block_0/inner_0/output", "block_0/inner_1/d/kernel",
            "block_0/inner_1/d/output", "block_0/inner_1/output", "block_0/sum/output",
            "block_0/output", "block_1/up/kernel"});
  CHECK(made.tensors[made.find("all/output")].shape == Shape{-1, 12});
}

TEST_CASE("what is wrong in a Repeat is said at its place, once") {
  const auto error = [](const std::string& layers) {
    try {
      (void)graph("input: [6]\nlayers:\n  - Repeat: " + layers + "\n");
    } catch (const Error& problem) {
      return std::string(problem.what());
    }
    return std::string("no error");
  };
  CHECK_THAT(error("{count: 3, layers: [Dens: {units: 6}]}"),
             Catch::StartsWith("test.yaml:3:33: layers[0].Repeat.layers[0]: unknown layer "
                               "\"Dens\"; did you mean \"Dense\"? (known: "));
  CHECK_THAT(error("{count: 2, layers: [Dense: {name: d, units: 6}, Add: {inputs: [input, e]}]}"),
             Catch::Contains("test.yaml:3:83: layers[0].Repeat.layers[1].Add.inputs[1]: "
                             "unknown layer or input \"e\""));
  CHECK_THAT(error("{count: 2, layers: [Dense: {units: 6}, Dense: {units: 6, inputs: input}]}"),
             Catch::Contains("this layer's output is unused"));
  CHECK_THAT(
      error("{count: 2, layers: [Dense: {name: d, units: 5}, Add: {inputs: [input, d]}]}"),
      Catch::Contains("test.yaml:3:5: layers[0]: block_0/Add: expected inputs of equal shapes"));
  CHECK_THAT(error("{layers: [Dense: {units: 6}]}"), Catch::Contains("count"));
  CHECK_THAT(error("{count: 0, layers: [Dense: {units: 6}]}"), Catch::Contains("count"));
  CHECK_THAT(error("{count: 2, layers: []}"), Catch::Contains("the block has no layers"));
  CHECK_THAT(error("{count: 200, layers: [Repeat: {count: 100, layers: [Dense: {units: 6}]}]}"),
             Catch::Contains("expected at most 10000 blocks in all, found 200 times 100"));
  CHECK_THAT(error("{count: 2, name: a/b, layers: [Dense: {units: 6}]}"),
             Catch::Contains("\"a/b_0\""));
}

TEST_CASE("several inputs are made in the order in which they are written") {
  const ConfiguredModel made = model(R"(
inputs: {image: [4, 4], extra: [3]}
layers:
  - Flatten: {name: flat, inputs: image}
  - Concatenate: {inputs: [flat, extra]}
)");
  REQUIRE(made.inputs.size() == 2);
  CHECK(made.inputs[0].call()->input_name == "image");
  CHECK(made.inputs[1].shape() == Shape{-1, 3});
  CHECK(made.outputs.front().shape() == Shape{-1, 19});
}

TEST_CASE("an input of numbers says so") {
  const Graph made = graph(R"(
inputs: {tokens: {shape: [6], dtype: int32}, extra: {shape: [3]}}
layers:
  - Embedding: {name: words, input_dim: 20, output_dim: 4, inputs: tokens}
  - Flatten: {name: flat}
  - Concatenate: {inputs: [flat, extra]}
)");
  CHECK(made.tensors[made.inputs[0]].type == ElementType::int32);
  CHECK(made.tensors[made.inputs[1]].type == ElementType::float32);
  CHECK(made.tensors[made.outputs[0]].shape == Shape{-1, 27});
  CHECK_THROWS_WITH(graph("{input: {shape: [6], dtype: int16}, layers: [Flatten]}"),
                    Catch::Contains("one of float32, int32"));
  CHECK_THROWS_WITH(graph("{input: {dtype: int32}, layers: [Flatten]}"), Catch::Contains("shape"));
}

TEST_CASE("a layer is called again by its name, with the same weights") {
  const std::string twice = R"(
inputs: {left: [4], right: [4]}
layers:
  - Dense: {name: tower, units: 3, inputs: left}
  - tower: {name: again, inputs: right}
  - Concatenate: {name: joined, inputs: [tower, again]}
)";
  const Graph made = graph(twice);
  CHECK(made.variables.size() == 2);
  CHECK(made.tensors[made.find("again/output")].shape == Shape{-1, 3});
  CHECK(made.tensors[made.outputs.front()].shape == Shape{-1, 6});
  // Without a name or inputs, on what stands before it.
  CHECK(graph("{input: [4], layers: [{Dense: {name: d, units: 4}}, d, {ReLU: }, {d: }]}")
            .variables.size() == 2);
  CHECK_THROWS_WITH(graph("{input: [4], layers: [{Dense: {name: d, units: 4}}, {d: {units: 3}}]}"),
                    Catch::Contains("test.yaml:1:58") && Catch::Contains("\"units\""));
  CHECK_THROWS_WITH(graph("{input: [4], layers: [{Dense: {name: d, units: 3}}, d]}"),
                    Catch::Contains("a layer that is called twice takes inputs of one size"));
  CHECK_THROWS_WITH(graph("{input: [4], layers: [{Dense: {name: d, units: 4}}, {d: {name: d}}]}"),
                    Catch::Contains("there is a layer \"d\" already"));
  CHECK_THROWS_WITH(graph("{input: [4], layers: [{input: }]}"),
                    Catch::Contains("unknown layer \"input\""));
  CHECK_THROWS_WITH(graph("{input: [4], layers: [{Dense: {name: dense9, units: 4}}, dens9]}"),
                    Catch::Contains("did you mean \"dense9\"?"));
  CHECK_THROWS_WITH(graph("{input: [4], layers: [d, {Dense: {name: d, units: 4}}]}"),
                    Catch::Contains("\"d\" stands further down"));
  CHECK_THROWS_WITH(graph("{input: [4], layers: [{Dense: {name: d, units: 4}}, {d: {name: a/b}}]}"),
                    Catch::Contains("test.yaml:1:54") && Catch::Contains("\"a/b\""));
  CHECK_THROWS_WITH(graph("{input: [4], layers: [{Dense: {name: \".\", units: 4}}]}"),
                    Catch::Contains("a meaning of its own in paths"));
}

TEST_CASE("the output can be a layer that is not the last") {
  const Graph made = graph(R"(
input: [6]
layers:
  - Dense: {name: first, units: 4}
  - Dense: {name: second, units: 3}
  - Dense: {name: aside, units: 2, inputs: first}
  - Concatenate: {name: joined, inputs: [second, aside]}
output: joined
)");
  CHECK(made.outputs.front() == made.find("joined/output"));
}

TEST_CASE("the layers of a block have its name in their paths, and cannot be joined otherwise") {
  const Graph made = graph(R"(
input: [6]
layers:
  - Sequential: {name: block, layers: [{Dense: {name: d1, units: 4}}, {Dense: {units: 2}}]}
)");
  CHECK(made.find("block/d1/kernel") >= 0);
  CHECK(made.find("block/dense/kernel") >= 0);
  CHECK_THROWS_WITH(
      graph("{input: [6], layers: [{Sequential: {layers: [{Dense: {units: 4, inputs: a}}]}}]}"),
      Catch::Contains("test.yaml:1:") && Catch::Contains("one after the other"));
}

TEST_CASE("variables are frozen by path, by regular expression, and with their layer") {
  const std::string layers = R"(
input: [6]
layers:
  - Dense: {name: d1, units: 4}
  - Sequential: {name: block, trainable: false, layers: [Dense: {units: 3}]}
  - Dense: {name: d2, units: 2}
)";
  const auto trained = [&](const std::string& frozen) {
    std::string paths;
    for (const Variable& variable : graph(layers + frozen).variables) {
      if (variable.options.trainable) paths += variable.path + " ";
    }
    return paths;
  };
  CHECK(trained("") == "d1/kernel d1/bias d2/kernel d2/bias ");
  CHECK(trained("frozen: []") == trained(""));
  CHECK(trained("frozen: [d1/kernel]") == "d1/bias d2/kernel d2/bias ");
  CHECK(trained("frozen: [\".*/bias\", d2/kernel]") == "d1/kernel ");
  CHECK(trained("frozen: [\"d.*\"]") == "");
  CHECK_THROWS_WITH(
      trained("frozen: [d1/kernl, \"d[12]\", \"(\"]"),
      Catch::Contains("test.yaml:7:29: ") && Catch::Contains("is not a regular expression"));
  CHECK_THROWS_WITH(
      trained("frozen: [d1/kernl, \"d[12]\"]"),
      Catch::Contains("test.yaml:7:10: ") && Catch::Contains("key \"d1/kernl\" matches nothing") &&
          Catch::Contains("did you mean \"kernel\"?") && Catch::Contains("test.yaml:7:20: ") &&
          Catch::Contains("has to match the whole path"));
}

TEST_CASE("a model needs layers, and an input that says its shape") {
  CHECK_THROWS_WITH(graph("{input: [6], layers: []}"), Catch::Contains("no layers"));
  CHECK_THROWS_WITH(graph("{layers: [{Dense: {units: 4}}]}"),
                    Catch::Contains("\"input\" is missing"));
  CHECK_THROWS_WITH(graph("{inputs: {}, layers: [{Dense: {units: 4}}]}"),
                    Catch::Contains("no inputs"));
  CHECK_THROWS_WITH(graph("{input: [6], inputs: {a: [6]}, layers: [{Dense: {units: 4}}]}"),
                    Catch::Contains("`input` already"));
  CHECK_THROWS_WITH(graph("{inputs: {a: [6], b: [6]}, layers: [{Dense: {units: 4}}]}"),
                    Catch::Contains("has to say which it takes"));
  CHECK_THROWS_WITH(graph("{inputs: {a: [6], b: [6]}, layers: [{Dense: {units: 4, inputs: a}}]}"),
                    Catch::Contains("this input is unused"));
  CHECK_THROWS_WITH(graph("{input: [6], layers: [{Dense: {units: 4}}], output: input}"),
                    Catch::Contains("this layer's output is unused"));
  const auto of_two = [](const std::string& outputs) {
    return graph(
        "{input: [6], layers: [{Dense: {name: a, units: 4}}, "
        "{Dense: {name: b, units: 3, inputs: input}}], " +
        outputs + "}");
  };
  const Graph two = of_two("outputs: [b, a]");
  CHECK(two.outputs == std::vector<TensorId>{two.find("b/output"), two.find("a/output")});
  CHECK(of_two("outputs: [a, b]").outputs.size() == 2);
  CHECK_THROWS_WITH(of_two("output: [a, b]"),
                    Catch::Contains("several are listed under `outputs`"));
  CHECK_THROWS_WITH(of_two("outputs: [a, b, a]"), Catch::Contains("\"a\" is listed twice"));
  CHECK_THROWS_WITH(of_two("outputs: []"), Catch::Contains("the list is empty"));
  CHECK_THROWS_WITH(of_two("outputs: [a, c]"), Catch::Contains("unknown layer or input \"c\""));
  CHECK_THROWS_WITH(of_two("output: a, outputs: [a, b]"), Catch::Contains("has `output` already"));
  CHECK_THROWS_WITH(of_two("outputs: [a, b, input]"), Catch::Contains("one of its inputs"));
  CHECK_THROWS_WITH(of_two("outputs: a"), Catch::Contains("expected a list"));
  CHECK_THROWS_WITH(graph("{input: [6], layers: [{Dense: {name: input, units: 4}}]}"),
                    Catch::Contains("an input \"input\" already"));
}

}  // namespace meshwork::model_config_test
