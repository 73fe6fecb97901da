// Strategies lay models out as their papers say, and the numbers stay those of one rank.
#include <map>
#include <stdexcept>

#include "layers/add.h"
#include "layers/batch_normalization.h"
#include "layers/convolution.h"
#include "layers/dense.h"
#include "layers/embedding.h"
#include "layers/flatten.h"
#include "layers/layer_normalization.h"
#include "layers/merging.h"
#include "layers/multi_head_attention.h"
#include "runtime/config/load.h"
#include "runtime/pages.h"
#include "runtime/train/losses/categorical_crossentropy.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/optimizers/adam.h"
#include "runtime/train/strategies/fully_sharded_data_parallel.h"
#include "runtime/train/strategies/megatron_layout.h"
#include "tests/support/one_rank.h"

namespace meshwork::strategies_test {

using namespace meshwork::test;
using Catch::Matchers::ContainsSubstring;

namespace {

using Layouts = std::map<std::string, std::string>;

// By path: the layouts that `strategy` gives over {data: 2, model: `ranks`}.
Layouts layouts(const SharedStrategy& strategy, const SymbolicTensor& input,
                const SymbolicTensor& output, std::int64_t ranks = 2) {
  const MeshShape mesh({{"data", 2}, {"model", ranks}}, 2 * ranks);
  Layouts all;
  for (const LayoutMatch& match :
       strategy->layouts(make_graph({input}, {output}), mesh, 0).entries()) {
    all[match.key] = meshwork::to_string(match.layout);
  }
  return all;
}

}  // namespace

TEST_CASE("MegatronLayout splits a stack of dense layers by columns, then by rows") {
  const auto input = Input({6});
  auto x = Dense({.name = "a", .units = 8, .activation = Activation::relu})(input);
  x = Dense({.name = "b", .units = 6})(x);
  x = Dense({.name = "c", .units = 8, .activation = Activation::relu})(x);
  x = Dense({.name = "d", .units = 3})(x);
  CHECK(layouts(megatron(), input, x) == Layouts{{"a/kernel", "[~, model]"},
                                                 {"a/bias", "[model]"},
                                                 {"b/kernel", "[model, ~]"},
                                                 {"c/kernel", "[~, model]"},
                                                 {"c/bias", "[model]"},
                                                 {"d/kernel", "[model, ~]"}});
}

TEST_CASE("MegatronLayout splits attention by heads and a tied table by rows") {
  const auto input = Input({5}, "", ElementType::int32);
  const SharedLayer table =
      ReversibleEmbedding({.name = "tokens", .input_dim = 11, .output_dim = 8});
  auto x = table(input);
  auto y = LayerNormalization({.name = "norm_1"})(x);
  y = MultiHeadAttention({.name = "attention", .num_heads = 4, .key_dim = 2})(y);
  x = Add({.name = "mid"})({x, y});
  y = LayerNormalization({.name = "norm_2"})(x);
  auto up = Dense({.name = "up", .units = 12, .activation = Activation::silu})(y);
  up = Multiply()({up, Dense({.name = "gate", .units = 12})(y)});
  x = Add({.name = "sum"})({x, Dense({.name = "down", .units = 8})(up)});
  x = table(LayerNormalization({.name = "norm"})(x));
  CHECK(layouts(megatron(), input, x) ==
        Layouts{{"tokens/embeddings", "[model, ~]"},
                {"attention/query/kernel", "[~, model, ~]"},
                {"attention/query/bias", "[model, ~]"},
                {"attention/key/kernel", "[~, model, ~]"},
                {"attention/key/bias", "[model, ~]"},
                {"attention/value/kernel", "[~, model, ~]"},
                {"attention/value/bias", "[model, ~]"},
                {"attention/attention_output/kernel", "[model, ~, ~]"},
                {"up/kernel", "[~, model]"},
                {"up/bias", "[model]"},
                {"gate/kernel", "[~, model]"},
                {"gate/bias", "[model]"},
                {"down/kernel", "[model, ~]"}});
}

TEST_CASE("MegatronLayout splits convolutions by channels, through norms of each channel") {
  const auto input = Input({6, 6, 3});
  auto x =
      Conv2D({.name = "a", .filters = 4, .kernel_size = {3, 3}, .padding = Padding::same})(input);
  x = BatchNormalization({.name = "norm"})(x);
  x = Conv2D({.name = "b", .filters = 5, .kernel_size = {3, 3}, .use_bias = false})(x);
  x = Flatten()(x);
  x = Dense({.name = "c", .units = 3})(x);
  CHECK(layouts(megatron(), input, x) == Layouts{{"a/kernel", "[~, ~, ~, model]"},
                                                 {"a/bias", "[model]"},
                                                 {"norm/gamma", "[model]"},
                                                 {"norm/beta", "[model]"},
                                                 {"norm/moving_mean", "[model]"},
                                                 {"norm/moving_variance", "[model]"},
                                                 {"b/kernel", "[~, ~, model, ~]"},
                                                 {"c/kernel", "[~, model]"},
                                                 {"c/bias", "[model]"}});
}

TEST_CASE("MegatronLayout leaves a layer whole whose features a norm takes together") {
  const auto input = Input({6});
  auto x = Dense({.name = "a", .units = 8})(input);
  x = LayerNormalization({.name = "norm"})(x);
  x = Dense({.name = "b", .units = 3})(x);
  CHECK(layouts(megatron(), input, x) ==
        Layouts{{"b/kernel", "[~, model]"}, {"b/bias", "[model]"}});
  // Three features are fewer than four ranks.
  CHECK(layouts(megatron(), input, x, 4).empty());
}

TEST_CASE("MegatronLayout splits more query heads than key heads where there are ranks enough") {
  const auto input = Input({5, 8});
  const auto x = GroupQueryAttention(
      {.name = "attention", .head_dim = 2, .num_query_heads = 4, .num_key_value_heads = 2})(input);
  const Layouts two = layouts(megatron(), input, x, 2);
  CHECK(two.at("attention/query/kernel") == "[~, model, ~]");
  CHECK(two.at("attention/key/kernel") == "[~, model, ~]");
  const Layouts four = layouts(megatron(), input, x, 4);
  CHECK(four.at("attention/query/kernel") == "[~, model, ~]");
  CHECK_FALSE(four.contains("attention/key/kernel"));
  CHECK(four.at("attention/attention_output/kernel") == "[model, ~, ~]");
}

TEST_CASE("FullyShardedDataParallel splits what is large by the first length that ranks divide") {
  const auto input = Input({5});
  auto x = Dense({.name = "a", .units = 8})(input);
  x = Dense({.name = "b", .units = 7})(x);
  x = Dense({.name = "c", .units = 9})(x);
  CHECK(layouts(fully_sharded({.min_elements = 40}), input, x) ==
        Layouts{{"a/kernel", "[~, data]"}, {"b/kernel", "[data, ~]"}, {"c/kernel", "[~, data]"}});
}

TEST_CASE("a strategy names the axis that it lacks") {
  const auto input = Input({5});
  const auto x = Dense({.units = 8})(input);
  const Graph graph = make_graph({input}, {x});
  const MeshShape mesh({{"data", 2}, {"modle", 2}}, 4);
  CHECK_THROWS_WITH(megatron()->layouts(graph, mesh, 0),
                    ContainsSubstring("MegatronLayout: axis: ") && ContainsSubstring("modle"));
  CHECK_THROWS_WITH(megatron({.axis = "data"})->layouts(graph, mesh, 0),
                    ContainsSubstring("axis \"data\" splits batches"));
  CHECK_THROWS_WITH(fully_sharded()->layouts(graph, mesh, std::nullopt),
                    ContainsSubstring("no axis splits batches"));
}

TEST_CASE("what a user lays out goes before what a strategy does") {
  const auto input = Input({6});
  auto x = Dense({.name = "a", .units = 8})(input);
  x = Dense({.name = "b", .units = 6})(x);
  const Graph graph = make_graph({input}, {x});
  LayoutMap own(MeshShape({{"data", 2}, {"model", 2}}, 4));
  own[".*/kernel"] = {"data", unsharded};
  const LayoutMap all = with_strategy(own, megatron(), graph, 0);
  CHECK(all.find("a/kernel")->key == ".*/kernel");
  CHECK(all.find("b/kernel")->key == ".*/kernel");
  CHECK(all.find("a/bias")->origin == "MegatronLayout");
  CHECK(all.find("a/bias")->chosen);
}

TEST_CASE("a key of a strategy that matches nothing is an error") {
  class Misspelt final : public Strategy {
   public:
    std::string name() const override { return "Misspelt"; }
    LayoutMap layouts(const Graph&, const MeshShape& mesh, std::optional<Axis>) const override {
      LayoutMap map(mesh);
      map["a/kernl"] = {unsharded, "model"};
      return map;
    }
  };
  const auto input = Input({6});
  const Graph graph = make_graph({input}, {Dense({.name = "a", .units = 8})(input)});
  const LayoutMap own(MeshShape({{"data", 2}, {"model", 2}}, 4));
  CHECK_THROWS_WITH(with_strategy(own, std::make_shared<const Misspelt>(), graph, 0),
                    ContainsSubstring("Misspelt: ") && ContainsSubstring("a/kernl"));
}

TEST_CASE("a strategy that throws is named") {
  class Moody final : public Strategy {
   public:
    std::string name() const override { return "Moody"; }
    LayoutMap layouts(const Graph&, const MeshShape&, std::optional<Axis>) const override {
      throw std::runtime_error("it rains");
    }
  };
  const auto input = Input({6});
  const Graph graph = make_graph({input}, {Dense({.name = "a", .units = 8})(input)});
  const LayoutMap own(MeshShape({{"data", 2}, {"model", 2}}, 4));
  CHECK_THROWS_WITH(with_strategy(own, std::make_shared<const Moody>(), graph, 0),
                    "Moody: it rains");
}

TEST_CASE("models are trained as on one rank by every strategy") {
  const auto input = Input({6}, "", ElementType::int32);
  const auto build = [&] {
    auto x = Embedding({.name = "tokens", .input_dim = 13, .output_dim = 8})(input);
    auto y = MultiHeadAttention({.name = "attention", .num_heads = 5, .key_dim = 2})(x);
    x = Add({.name = "mid"})({x, y});
    y = Dense({.name = "up", .units = 11, .activation = Activation::gelu})(x);
    x = Add({.name = "sum"})({x, Dense({.name = "down", .units = 8})(y)});
    return Dense({.name = "logits", .units = 13})(x);
  };
  constexpr std::int64_t rows = 5;
  std::vector<float> tokens, next;
  for (int i = 0; i < rows * 6; ++i) {
    tokens.push_back(static_cast<float>((i * 7) % 13));
    next.push_back(static_cast<float>((i * 7 + 7) % 13));
  }
  const auto train = [&](const Distribution& distribution) {
    Model model(input, build(), distribution, {.seed = 3});
    model.compile({.loss = SparseCategoricalCrossentropy({.from_logits = true}),
                   .optimizer = Adam({.learning_rate = 0.01, .epsilon = 1e-3})});
    for (int step = 0; step < 5; ++step) {
      (void)model.train_step({.rows = rows, .inputs = {tokens}, .targets = {next}});
    }
    return variables_of(model);
  };
  DeviceMesh one = alone();
  const auto expected = train(DataParallel(one));
  const int ranks = Communicator::world().size();
  std::vector<std::pair<std::string, std::vector<MeshAxis>>> meshes{
      {"model", {{"data", 1}, {"model", ranks}}}, {"data", {{"data", ranks}, {"model", 1}}}};
  if (ranks % 2 == 0) meshes.push_back({"both", {{"data", 2}, {"model", ranks / 2}}});
  for (const auto& [name, axes] : meshes) {
    DeviceMesh mesh(axes, Communicator::world());
    for (const bool columns : {true, false}) {
      INFO(name << (columns ? ": MegatronLayout" : ": FullyShardedDataParallel"));
      const auto found = train(columns ? MegatronLayout(mesh)
                                       : FullyShardedDataParallel(mesh, {.min_elements = 9}));
      for (std::size_t v = 0; v < expected.size(); ++v) {
        CHECK(difference(found[v], expected[v], 1e-5) == "");
      }
    }
  }
}

}  // namespace meshwork::strategies_test
