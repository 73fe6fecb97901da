// The layers over sequences of tokens, spread in every legal way.
//
// Sequences have 7 places: over two and three ranks blocks differ, over eight one is empty. There
// are more ranks than heads, and than heads of keys.
#include <algorithm>
#include <cmath>
#include <optional>

#include "layers/add.h"
#include "layers/borders.h"
#include "layers/einsum_dense.h"
#include "layers/embedding.h"
#include "layers/flatten.h"
#include "layers/global_pooling.h"
#include "layers/initializers/random_uniform.h"
#include "layers/masking.h"
#include "layers/multi_head_attention.h"
#include "layers/position.h"
#include "tests/support/layer_spread.h"

namespace meshwork::spread_sequences_test {

using namespace meshwork::test;

namespace {

const Initializer random_bias = RandomUniform();

// A layer on sequences of 7 places with `features` each.
void add(std::vector<Case>& cases, const std::string& name, std::int64_t features,
         const SharedLayer& layer, const std::vector<std::string>& variables = {}) {
  std::vector<std::string> spread{"layer/output", "front/output"};
  for (const std::string& variable : variables) spread.push_back("layer/" + variable);
  append(cases, with_and_without_tail(
                    name, {7, 2},
                    [=](const SymbolicTensor& x) { return layer(front(features)(x)); }, spread));
}

std::vector<Case> embedding_cases() {
  std::vector<Case> cases = with_and_without_tail(
      "Embedding", {5},
      [](const SymbolicTensor& x) {
        return Embedding({.name = "layer", .input_dim = 5, .output_dim = 3})(x);
      },
      {"layer/embeddings", "layer/output"});
  append(cases, with_and_without_tail(
                    "Embedding of numbers and of the same numbers again", {3},
                    [layer = Embedding({.name = "layer", .input_dim = 5, .output_dim = 2})](
                        const SymbolicTensor& x) {
                      return Flatten({.name = "flat"})(Add({.name = "sum"})({layer(x), layer(x)}));
                    },
                    {"layer/embeddings", "sum/output"}));
  for (const bool tied : {true, false}) {
    std::vector<std::string> spread{"layer/embeddings", "positions/embeddings", "sum/output"};
    if (!tied) spread.emplace_back("layer/reverse_embeddings");
    append(cases, with_and_without_tail(
                      tied ? "ReversibleEmbedding" : "ReversibleEmbedding of two tables", {3},
                      [=, layer = ReversibleEmbedding({.name = "layer",
                                                       .input_dim = 5,
                                                       .output_dim = 3,
                                                       .tie_weights = tied,
                                                       .logit_soft_cap = tied ? 0.5f : 0.0f})](
                          const SymbolicTensor& x) {
                        const auto y = layer(x);
                        const auto places =
                            PositionEmbedding({.name = "positions", .sequence_length = 3})(y);
                        return layer(Add({.name = "sum"})({y, places}));
                      },
                      spread));
  }
  for (Case& subject : cases) {
    subject.dtype = ElementType::int32;
    subject.features = [](const Shape& shape) {
      std::vector<float> numbers = random_floats(element_count(shape), 17, 0, 5);
      for (float& number : numbers) number = std::min(std::floor(number), 4.0f);
      return numbers;
    };
  }
  return cases;
}

std::vector<Case> attention_cases() {
  const std::vector<std::string> split{"query/kernel", "query/bias", "key/kernel", "value/kernel",
                                       "attention_output/kernel"};
  const std::vector<std::string> kernels{"query/kernel", "value/kernel", "attention_output/kernel"};
  std::vector<Case> cases;
  add(cases, "MultiHeadAttention", 5,
      MultiHeadAttention(
          {.name = "layer", .num_heads = 3, .key_dim = 4, .bias_initializer = random_bias}),
      split);
  add(cases, "MultiHeadAttention, more heads than ranks", 5,
      MultiHeadAttention({.name = "layer", .num_heads = 7, .key_dim = 2, .use_causal_mask = true}),
      split);
  add(cases, "MultiHeadAttention, causal, with longer values", 5,
      MultiHeadAttention({.name = "layer",
                          .num_heads = 2,
                          .key_dim = 3,
                          .value_dim = 5,
                          .use_bias = false,
                          .use_causal_mask = true}),
      kernels);
  add(cases, "MultiHeadAttention, causal, to the last few places, with dropout", 5,
      MultiHeadAttention({.name = "layer",
                          .num_heads = 2,
                          .key_dim = 3,
                          .dropout = 0.3f,
                          .use_causal_mask = true,
                          .sliding_window = 3}),
      kernels);
  add(cases, "MultiHeadAttention to places nearby", 5,
      MultiHeadAttention({.name = "layer", .num_heads = 1, .key_dim = 4, .sliding_window = 2}),
      kernels);
  append(cases,
         with_and_without_tail(
             "MultiHeadAttention to another sequence", {5, 4},
             [layer = MultiHeadAttention({.name = "layer", .num_heads = 2, .key_dim = 3})](
                 const SymbolicTensor& x) {
               return layer({front(6)(x), Cropping1D({.name = "part", .cropping = {2, 0}})(x)});
             },
             {"front/output", "layer/key/kernel", "layer/output"}));
  return cases;
}

std::vector<Case> grouped_cases() {
  const std::vector<std::string> kernels{"query/kernel", "key/kernel", "value/kernel",
                                         "attention_output/kernel"};
  std::vector<Case> cases;
  add(cases, "GroupQueryAttention", 5,
      GroupQueryAttention({.name = "layer",
                           .head_dim = 4,
                           .num_query_heads = 6,
                           .num_key_value_heads = 2,
                           .use_causal_mask = true,
                           .rope_max_wavelength = 10000,
                           .bias_initializer = random_bias}),
      kernels);
  add(cases, "GroupQueryAttention, more heads of keys than ranks", 5,
      GroupQueryAttention({.name = "layer",
                           .head_dim = 2,
                           .num_query_heads = 14,
                           .num_key_value_heads = 7,
                           .use_causal_mask = true}),
      kernels);
  add(cases, "GroupQueryAttention, one head of keys", 5,
      GroupQueryAttention({.name = "layer",
                           .head_dim = 2,
                           .num_query_heads = 5,
                           .num_key_value_heads = 1,
                           .dropout = 0.2f,
                           .use_bias = false,
                           .sliding_window = 4}),
      kernels);
  return cases;
}

// Numbers of which many are 0, and a sequence of nothing else.
std::vector<float> padded_numbers(const Shape& shape) {
  std::vector<float> numbers = random_floats(element_count(shape), 17, 0, 5);
  for (float& number : numbers) number = std::floor(number) > 2 ? 0.0f : std::floor(number) + 1;
  std::fill_n(numbers.begin() + shape.back(), shape.back(), 0.0f);
  return numbers;
}

// Vectors of which many are of one number throughout, and some only begin so.
std::vector<float> padded_vectors(const Shape& shape) {
  std::vector<float> vectors = random_floats(element_count(shape), 17);
  const auto features = static_cast<std::size_t>(shape.back());
  for (std::size_t place = 0; place * features < vectors.size(); ++place) {
    const std::size_t padded = place % 3 == 1 ? features : place % 4 == 1 ? 1 : 0;
    std::fill_n(vectors.begin() + static_cast<std::ptrdiff_t>(place * features), padded, 0.5f);
  }
  return vectors;
}

std::vector<Case> masked_cases() {
  std::vector<Case> cases;
  const auto tokens = [&](const std::string& name, const SharedLayer& layer,
                          std::vector<std::string> spread) {
    std::vector<Case> those = with_and_without_tail(
        name, {7},
        [=](const SymbolicTensor& x) {
          return layer(
              Embedding({.name = "tokens", .input_dim = 4, .output_dim = 5, .mask_zero = true})(x));
        },
        std::move(spread));
    for (Case& subject : those) {
      subject.dtype = ElementType::int32, subject.features = padded_numbers;
    }
    append(cases, std::move(those));
  };
  tokens("Dense of tokens that count", Dense({.name = "layer", .units = 3}),
         {"tokens/embeddings", "tokens/output", "layer/kernel", "layer/output"});
  tokens("MultiHeadAttention of tokens that count",
         MultiHeadAttention({.name = "layer", .num_heads = 3, .key_dim = 4}),
         {"tokens/embeddings", "tokens/output", "layer/query/kernel", "layer/output"});
  tokens("GroupQueryAttention of tokens that count, causal, to the last few places, with dropout",
         GroupQueryAttention({.name = "layer",
                              .head_dim = 2,
                              .num_query_heads = 4,
                              .num_key_value_heads = 2,
                              .dropout = 0.2f,
                              .use_causal_mask = true,
                              .sliding_window = 4}),
         {"tokens/embeddings", "layer/key/kernel", "layer/output"});
  tokens("GlobalAveragePooling1D of tokens that count", GlobalAveragePooling1D({.name = "layer"}),
         {"tokens/embeddings", "tokens/output", "layer/output"});
  const auto masked = [&](const std::string& name, const Build& build,
                          const std::vector<std::string>& spread) {
    std::vector<Case> those = with_and_without_tail(name, {7, 3}, build, spread);
    for (Case& subject : those) subject.features = padded_vectors;
    append(cases, std::move(those));
  };
  masked("Masking",
         [](const SymbolicTensor& x) { return Masking({.name = "layer", .mask_value = 0.5f})(x); },
         {"input", "layer/output"});
  masked("Masking of what a layer makes",
         [](const SymbolicTensor& x) {
           return Masking({.name = "layer"})(
               Dense({.name = "front", .units = 4, .activation = Activation::relu})(x));
         },
         {"front/kernel", "front/output", "layer/output"});
  masked("attention to another sequence that is masked",
         [layer = MultiHeadAttention({.name = "layer", .num_heads = 2, .key_dim = 3})](
             const SymbolicTensor& x) {
           return layer({front(6)(x), Masking({.name = "other", .mask_value = 0.5f})(x)});
         },
         {"front/output", "other/output", "layer/output"});
  return cases;
}

std::vector<Case> place_cases() {
  std::vector<Case> cases;
  add(cases, "PositionEmbedding", 3, PositionEmbedding({.name = "layer", .sequence_length = 7}),
      {"embeddings"});
  add(cases, "PositionEmbedding of longer sequences", 3,
      PositionEmbedding({.name = "layer", .sequence_length = 10}), {"embeddings"});
  add(cases, "RotaryEmbedding", 6, RotaryEmbedding({.name = "layer", .max_wavelength = 50}));
  add(cases, "EinsumDense of heads", 5,
      EinsumDense({.name = "layer",
                   .equation = "abc,cde->abde",
                   .output_shape = {std::nullopt, 3, 2},
                   .bias_axes = "de",
                   .activation = Activation::tanh,
                   .bias_initializer = random_bias}),
      {"kernel", "bias"});
  add(cases, "EinsumDense with a kernel for each place", 5,
      EinsumDense({.name = "layer", .equation = "abc,bcd->abd", .output_shape = {7, 4}}),
      {"kernel"});
  return cases;
}

}  // namespace

TEST_CASE("on one rank the gradients of every layer of sequences are those of differences") {
  if (Communicator::world().size() > 1) {
    return;  // the same on every rank
  }
  check_differences(embedding_cases());
  check_differences(place_cases());
  std::vector<Case> attention = attention_cases();
  append(attention, grouped_cases());
  // With dropout a layer evaluates another function than it trains.
  std::erase_if(attention, [](const Case& subject) {
    return subject.name.find("dropout") != std::string::npos ||
           subject.name.find("one head of keys") != std::string::npos;
  });
  append(attention, masked_cases());
  std::erase_if(attention, [](const Case& subject) {
    return subject.name.find("dropout") != std::string::npos;
  });
  check_differences(attention);
}

TEST_CASE("rows of a table, spread in any way, are those of one rank, and so are their gradients") {
  check(embedding_cases(), 4);
}

TEST_CASE("attention, spread in any way, gives the numbers of one rank") {
  check(attention_cases(), 4);
}

TEST_CASE("heads that share heads of keys, spread in any way, give the numbers of one rank") {
  check(grouped_cases(), 4);
}

TEST_CASE("masks, spread in any way, leave out what they do on one rank") {
  check(masked_cases(), 4);
}

TEST_CASE("what knows its place in a sequence gives the numbers of one rank, spread in any way") {
  check(place_cases(), 4);
}

}  // namespace meshwork::spread_sequences_test
