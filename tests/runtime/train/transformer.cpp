// A language model spread over a mesh is trained as on one rank: tokens, places, attention, tied
// tables and the loss of split classes together. Lengths are odd, so ranks have unequal blocks.
//
// Every rank trains the same model alone and on the mesh under test, ten steps of AdamW. A sum of n
// products in another order differs by about sqrt(n) * 2^-24 of its terms; Adam's steps do not
// shrink with gradients, so differences of small ones grow over ten steps: 2e-4 of the largest
// weight.
//
// And it is asked for the next token piece by piece (graph/sequences.h): with the scores of whole
// sequences, and the same text.
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

// Of documents, each of which ends with the token 1.
SymbolicTensor of_documents(const SymbolicTensor& tokens) {
  auto x = Embedding(
      {.name = "tokens", .input_dim = vocabulary, .output_dim = width, .document_end = 1})(tokens);
  for (const std::string block : {"a", "b"}) {
    const auto y = MultiHeadAttention({.name = "attention_" + block,
                                       .num_heads = 3,
                                       .key_dim = 4,
                                       .use_causal_mask = true,
                                       .rope_max_wavelength = 10000})(
        RMSNormalization({.name = "norm_" + block})(x));
    x = Add({.name = block == "a" ? "both" : "sum_b"})({x, y});
  }
  const auto up = Dense({.name = "up_a", .units = 25, .activation = Activation::relu})(x);
  x = Add({.name = "sum_c"})({x, Dense({.name = "down_a", .units = width})(up)});
  return Dense({.name = "logits", .units = vocabulary, .use_bias = false})(x);
}

using Network = SymbolicTensor (*)(const SymbolicTensor&);

struct Outcome {
  std::vector<float> losses;
  std::vector<std::vector<float>> variables;
  std::vector<std::int32_t> text;
};

// Behind a prompt, and on behind what the model sees.
std::vector<std::int32_t> text_of(Model& model, bool in_pieces) {
  std::vector<std::int32_t> text;
  generate_tokens(
      model, {1, 2, 3},
      {.tokens = 20, .temperature = 0.7, .top_k = 30, .seed = 9, .in_pieces = in_pieces},
      [&](std::int32_t token) { text.push_back(token); });
  return text;
}

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
  outcome.text = text_of(model, true);
  CHECK(text_of(model, false) == outcome.text);
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
  if (network == llama || network == of_documents) layouts.emplace_back("logits/kernel", columns);
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

// Tokens of which none counts that is 0 (mask_zero), and a head that caps scores.
SymbolicTensor masked_gpt(const SymbolicTensor& tokens) {
  const SharedLayer table = ReversibleEmbedding({.name = "tokens",
                                                 .input_dim = vocabulary,
                                                 .output_dim = width,
                                                 .mask_zero = true,
                                                 .logit_soft_cap = 5});
  auto x = table(tokens);
  x = Add({.name = "both"})(
      {x, PositionEmbedding({.name = "places", .sequence_length = length})(x)});
  x = Add({.name = "sum_a"})(
      {x, MultiHeadAttention(
              {.name = "attention_a", .num_heads = 3, .key_dim = 4, .use_causal_mask = true})(x)});
  const auto up = Dense({.name = "up_a", .units = 25, .activation = Activation::relu})(x);
  return table(Add({.name = "sum_b"})({x, Dense({.name = "down_a", .units = width})(up)}));
}

// Scores (rows, length, vocabulary) of sequences that come in pieces of so many positions.
std::vector<float> scores_in_pieces(Model& model, std::span<const float> tokens, std::int64_t rows,
                                    const std::vector<std::int64_t>& pieces) {
  std::vector<float> all(static_cast<std::size_t>(rows * length * vocabulary));
  std::int64_t position = 0;
  for (const std::int64_t positions : pieces) {
    std::vector<float> piece;
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto from = tokens.begin() + row * length + position;
      piece.insert(piece.end(), from, from + positions);
    }
    const std::vector<float> scores =
        model.predict_piece({.rows = rows, .inputs = {piece}, .targets = {}}, position).front();
    REQUIRE(std::ssize(scores) == rows * positions * vocabulary);
    for (std::int64_t row = 0; row < rows; ++row) {
      std::copy_n(scores.begin() + row * positions * vocabulary, positions * vocabulary,
                  all.begin() + (row * length + position) * vocabulary);
    }
    position += positions;
  }
  return all;
}

void check_pieces(Network network) {
  constexpr std::int64_t rows = 3;
  std::vector<float> tokens;
  for (std::int64_t i = 0; i < rows * length; ++i) {
    tokens.push_back(static_cast<float>(i % 5 == 3 ? 0 : i * i % vocabulary));
  }
  // Weights that make the scores differ from position to position.
  const auto made = [&](Distribution distribution) {
    const SymbolicTensor input = Input({length}, "text", ElementType::int32);
    Model model(input, network(input), std::move(distribution), {.seed = 3, .check_plan = true});
    unsigned seed = 0;
    for (const Variable& variable : model.graph().variables) {
      model.set_variable(variable.path,
                         random_floats(element_count(variable.options.shape), ++seed));
    }
    return model;
  };
  DeviceMesh single = alone();
  const std::vector<float> expected =
      made(spread_over(single))
          .predict_step({.rows = rows, .inputs = {tokens}, .targets = {}})
          .front();
  const int ranks = Communicator::world().size();
  std::vector<Setting> all = settings(network, ranks);
  if (network == gpt || network == masked_gpt) {
    all.push_back(
        {"the table of places",
         {{"data", 1}, {"sequence", ranks}},
         {{"places/embeddings", {"sequence", {}}}, {"places/output", {"data", "sequence", {}}}}});
  }
  for (const Setting& setting : all) {
    INFO(setting.name << " over " << ranks << " ranks");
    DeviceMesh mesh(setting.axes);
    Model model = made(spread_over(mesh, setting.layouts, "data"));
    REQUIRE(model.obstacle_to_pieces() == "");
    // Longer texts are seen first: nothing of them may shine through.
    for (const std::vector<std::int64_t>& pieces :
         {std::vector<std::int64_t>{13}, {5, 8}, {4, 1, 1, 7}, std::vector<std::int64_t>(13, 1)}) {
      const std::vector<float> wrong(static_cast<std::size_t>(rows * length), 7);
      (void)scores_in_pieces(model, wrong, rows, {13});
      CHECK(difference(scores_in_pieces(model, tokens, rows, pieces), expected, 1e-4) == "");
    }
    // Positions that come again take the place of what was there.
    const std::vector<float> wrong(static_cast<std::size_t>(rows * length), 7);
    (void)scores_in_pieces(model, tokens, rows, {4});
    const std::vector<float> behind(static_cast<std::size_t>(rows * 6), 7);
    (void)model.predict_piece({.rows = rows, .inputs = {behind}, .targets = {}}, 4);
    std::vector<float> again, its;
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t at = row * length + 3;
      again.insert(again.end(), tokens.begin() + at, tokens.begin() + at + 2);
      its.insert(its.end(), expected.begin() + at * vocabulary,
                 expected.begin() + (at + 2) * vocabulary);
    }
    CHECK(
        difference(model.predict_piece({.rows = rows, .inputs = {again}, .targets = {}}, 3).front(),
                   its, 1e-4) == "");
  }
}

}  // namespace

TEST_CASE("position by position, a language model gives the scores that it gives at once") {
  check_pieces(gpt);
  check_pieces(llama);
  check_pieces(masked_gpt);
  check_pieces(of_documents);
}

TEST_CASE("what is no piece of a model's sequences is an error") {
  DeviceMesh mesh({{"data", Communicator::world().size()}});
  const SymbolicTensor input = Input({length}, "text", ElementType::int32);
  Model model(input, gpt(input), spread_over(mesh, {}, "data"));
  const auto refused = [&](std::vector<float> tokens, std::int64_t position, const char* what) {
    CHECK_THROWS_WITH(model.predict_piece({.rows = 1, .inputs = {tokens}, .targets = {}}, position),
                      Catch::Contains(what));
  };
  refused({1, 2}, 12, "positions 12 to 13 of sequences of 13");
  refused({1, 2}, -1, "positions -1 to 0 of sequences of 13");
  refused({}, 0, "no positions of 1 values each");
  refused({1, vocabulary}, 0, "category 101 is out of range; expected whole numbers from 0 to 100");
  refused({1, 2.5f}, 0, "category 2.5 is out of range");
  refused({1, 2}, 3,
          "these weights have seen none of 1 sequences; pass the positions before it first");
  const std::vector<float> first{1, 2}, third{3};
  (void)model.predict_piece({.rows = 1, .inputs = {first}, .targets = {}}, 0);
  refused({1, 2}, 3, "these weights have seen 2 positions of 1 sequences");
  (void)model.predict_piece({.rows = 1, .inputs = {third}, .targets = {}}, 2);
  // After any other call what was seen may be of other weights.
  model.set_variable(model.graph().variables.front().path,
                     model.variable(model.graph().variables.front().path));
  refused({1, 2}, 3, "seen none");
  CHECK_THROWS_WITH(model.predict_piece({.rows = 1, .inputs = {}, .targets = {}}, 0),
                    Catch::Contains("a piece of 0 inputs"));
}

TEST_CASE("a GPT, split by data, heads, vocabulary or sequence, is trained as on one rank") {
  check_all(gpt);
}

TEST_CASE("a model of documents, split in the same ways, is trained as on one rank") {
  check_all(of_documents);
}

TEST_CASE("attention does not look across the end of a document") {
  DeviceMesh mesh({{"data", Communicator::world().size()}});
  const SymbolicTensor input = Input({length}, "text", ElementType::int32);
  Model model(input, of_documents(input), spread_over(mesh, {}, "data"), {.seed = 3});
  // The second of two documents, behind two others of one length.
  const std::vector<float> text{5, 6, 7, 1, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  std::vector<float> other = text;
  other[0] = 50, other[2] = 51;
  const auto scores = [&](const std::vector<float>& tokens) {
    return model.predict_step({.rows = 1, .inputs = {tokens}, .targets = {}}).front();
  };
  const std::vector<float> first = scores(text), second = scores(other);
  const auto begin = 4 * vocabulary;  // of the second document
  CHECK(std::equal(first.begin() + begin, first.end(), second.begin() + begin));
  // The end is of the first document.
  CHECK(!std::equal(first.begin() + begin - vocabulary, first.begin() + begin,
                    second.begin() + begin - vocabulary));
  // In one document it does look back.
  std::vector<float> later = text;
  later[5] = 50;
  CHECK(!std::equal(first.end() - vocabulary, first.end(), scores(later).end() - vocabulary));

  const SymbolicTensor tokens = Input({length}, "text", ElementType::int32);
  const auto documents = Embedding(
      {.name = "tokens", .input_dim = vocabulary, .output_dim = width, .document_end = 1})(tokens);
  CHECK_THROWS_WITH(
      Model(tokens, MultiHeadAttention({.name = "a", .num_heads = 3, .key_dim = 4})(documents),
            spread_over(mesh)),
      Catch::Contains("documents, and only causal attention keeps them apart"));
}

TEST_CASE("a Llama with a window, split in the same ways, is trained as on one rank") {
  check_all(llama);
}

}  // namespace meshwork::transformer_test
