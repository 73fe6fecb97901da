// A language model spread over a mesh is trained as on one rank: tokens, places, attention, tied
// tables and the loss of split classes together. Lengths are odd, so ranks have unequal blocks.
//
// Every rank trains the same model alone and on the mesh under test, ten steps of AdamW. A sum of n
// products in another order differs by about sqrt(n) * 2^-24 of its terms; Adam's steps do not
// shrink with gradients, so differences of small ones grow over ten steps: 2e-4 of the largest
// weight.
#include <numeric>

#include "layers/add.h"
#include "layers/dense.h"
#include "layers/embedding.h"
#include "layers/layer_normalization.h"
#include "layers/merging.h"
#include "layers/multi_head_attention.h"
#include "layers/position.h"
#include "runtime/train/loop/generation.h"
#include "runtime/train/losses/categorical_crossentropy.h"
#include "runtime/train/optimizers/adam.h"
#include "tests/support/one_rank.h"

namespace meshwork::transformer_test {

using namespace meshwork::test;

namespace {

constexpr std::int64_t length = 13, vocabulary = 101, width = 12, batch = 6, steps = 10;

// As GPT-2: learned places, norms before, a tied table.
SymbolicTensor gpt(const SymbolicTensor& tokens) {
  const SharedLayer table =
      ReversibleEmbedding({.name = "tokens", .input_dim = vocabulary, .output_dim = width});
  auto x = table(tokens);
  x = Add({.name = "both"})(
      {x, PositionEmbedding({.name = "places", .sequence_length = length})(x)});
  for (const std::string block : {"a", "b"}) {
    auto y = LayerNormalization({.name = "norm_1" + block, .epsilon = 1e-5})(x);
    y = MultiHeadAttention({.name = "attention_" + block,
                            .num_heads = 3,
                            .key_dim = 4,
                            .dropout = 0.1f,
                            .use_causal_mask = true})(y);
    x = Add({.name = "mid_" + block})({x, y});
    y = LayerNormalization({.name = "norm_2" + block, .epsilon = 1e-5})(x);
    y = Dense({.name = "up_" + block, .units = 25, .activation = Activation::gelu_tanh})(y);
    x = Add({.name = "sum_" + block})({x, Dense({.name = "down_" + block, .units = width})(y)});
  }
  return table(LayerNormalization({.name = "norm", .epsilon = 1e-5})(x));
}

// As Llama: rotary places, heads that share keys, a gate.
SymbolicTensor llama(const SymbolicTensor& tokens) {
  auto x = Embedding({.name = "tokens", .input_dim = vocabulary, .output_dim = width})(tokens);
  auto y = GroupQueryAttention({.name = "attention_a",
                                .head_dim = 4,
                                .num_query_heads = 6,
                                .num_key_value_heads = 2,
                                .use_bias = false,
                                .use_causal_mask = true,
                                .sliding_window = 6,
                                .rope_max_wavelength = 10000})(RMSNormalization({.name = "n1"})(x));
  x = Add({.name = "both"})({x, y});
  y = RMSNormalization({.name = "n2"})(x);
  const auto up = Dense({.name = "up_a", .units = 25, .use_bias = false})(y);
  const auto gate =
      Dense({.name = "gate", .units = 25, .activation = Activation::silu, .use_bias = false})(y);
  y = Multiply({.name = "gated"})({up, gate});
  y = Dense({.name = "down_a", .units = width, .use_bias = false})(y);
  x = RMSNormalization({.name = "n3"})(Add({.name = "sum_a"})({x, y}));
  return Dense({.name = "logits", .units = vocabulary, .use_bias = false})(x);
}

using Network = SymbolicTensor (*)(const SymbolicTensor&);

struct Outcome {
  std::vector<float> losses;
  std::vector<std::vector<float>> variables;
  std::vector<std::int32_t> text;
};

Outcome trained(Network network, Distribution distribution) {
  const SymbolicTensor tokens = Input({length}, "text", ElementType::int32);
  Model model(tokens, network(tokens), std::move(distribution), {.seed = 3});
  model.compile({.loss = SparseCategoricalCrossentropy({.from_logits = true}),
                 .optimizer = AdamW({.learning_rate = 3e-3, .weight_decay = 0.1})});
  Outcome outcome;
  for (std::int64_t step = 0; step < steps; ++step) {
    // A text in which the next token mostly follows from the last.
    std::vector<float> features, targets;
    for (std::int64_t row = 0; row < batch; ++row) {
      for (std::int64_t place = 0; place < length; ++place) {
        const std::int64_t at = 17 * step + 5 * row + place;
        features.push_back(static_cast<float>(at * at % vocabulary));
        targets.push_back(static_cast<float>((at + 1) * (at + 1) % vocabulary));
      }
    }
    const Logs logs = model.train_step({.rows = batch, .inputs = {features}, .targets = {targets}});
    outcome.losses.push_back(static_cast<float>(logs.at("loss")));
  }
  outcome.variables = variables_of(model);
  generate_tokens(model, {1, 2, 3}, {.tokens = 20, .temperature = 0.7, .top_k = 30, .seed = 9},
                  [&](std::int32_t token) { outcome.text.push_back(token); });
  return outcome;
}

struct Setting {
  std::string name;
  std::vector<MeshAxis> axes;
  LayoutEntries layouts;
};

// Heads, hidden units and the vocabulary over `model`.
LayoutEntries tensor_parallel(Network network) {
  const TensorLayout columns{{}, "model"}, rows{"model", {}};
  LayoutEntries layouts{{"attention_.*/(query|key|value)/kernel", {{}, "model", {}}},
                        {"attention_.*/attention_output/kernel", {"model", {}, {}}},
                        {"up_.*/kernel", columns},
                        {"down_.*/kernel", rows},
                        {"tokens/embeddings", rows}};
  if (network == llama) layouts.emplace_back("logits/kernel", columns);
  return layouts;
}

// The sequence of what stands between the layers over `axis`.
LayoutEntries sequence_parallel(const std::string& axis) {
  const TensorLayout places{"data", axis, {}};
  return {{"both/output", places}, {"sum_.*/output", places}, {"attention_.*/output", places}};
}

std::vector<Setting> settings(Network network, int ranks) {
  LayoutEntries sharded{{"tokens/embeddings", {"data", {}}},
                        {"up_.*/kernel", {{}, "data"}},
                        {"down_.*/kernel", {"data", {}}},
                        {"attention_.*/(query|value)/kernel", {"data", {}, {}}}};
  std::vector<Setting> all{
      {"data", {{"data", ranks}}, {}},
      {"fully sharded", {{"data", ranks}}, sharded},
      {"model", {{"data", 1}, {"model", ranks}}, tensor_parallel(network)},
      {"sequence", {{"data", 1}, {"sequence", ranks}}, sequence_parallel("sequence")}};
  if (ranks % 2 == 0) {
    all.push_back(
        {"data and model", {{"data", 2}, {"model", ranks / 2}}, tensor_parallel(network)});
    LayoutEntries both = tensor_parallel(network);
    for (const auto& entry : sequence_parallel("sequence")) both.push_back(entry);
    all.push_back(
        {"model and sequence", {{"data", 1}, {"sequence", 2}, {"model", ranks / 2}}, both});
  }
  return all;
}

void check_all(Network network) {
  DeviceMesh single = alone();
  const Outcome expected = trained(network, spread_over(single));
  CHECK(expected.losses.back() < expected.losses.front());
  const int ranks = Communicator::world().size();
  for (const Setting& setting : settings(network, ranks)) {
    INFO(setting.name << " over " << ranks << " ranks");
    DeviceMesh mesh(setting.axes);
    const Outcome found = trained(network, spread_over(mesh, setting.layouts, "data"));
    CHECK(difference(found.losses, expected.losses, 2e-5) == "");
    REQUIRE(found.variables.size() == expected.variables.size());
    for (std::size_t i = 0; i < found.variables.size(); ++i) {
      CHECK(difference(found.variables[i], expected.variables[i], 2e-4) == "");
    }
    CHECK(found.text == expected.text);
  }
}

}  // namespace

TEST_CASE("a GPT, split by data, heads, vocabulary or sequence, is trained as on one rank") {
  check_all(gpt);
}

TEST_CASE("a Llama with a window, split in the same ways, is trained as on one rank") {
  check_all(llama);
}

}  // namespace meshwork::transformer_test
