#include "runtime/train/loop/generation.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "layers/dense.h"
#include "layers/einsum_dense.h"
#include "layers/embedding.h"
#include "layers/initializers/listed.h"
#include "layers/softmax.h"
#include "tests/support/one_rank.h"

namespace meshwork::generation_test {

using namespace meshwork::test;

namespace {

const std::vector<double> scores{0.5, -1, 2, 1.5, 2};

// The next token is that before it, plus one, modulo five.
SymbolicTensor counter(const SymbolicTensor& tokens, bool probabilities) {
  std::vector<double> next(25);
  for (std::size_t i = 0; i < 5; ++i) next[5 * i + (i + 1) % 5] = 30;
  const auto x = Embedding(
      {.name = "table", .input_dim = 5, .output_dim = 5, .embeddings_initializer = Listed(next)})(
      tokens);
  return probabilities ? Softmax({.name = "p"})(x) : x;
}

}  // namespace

TEST_CASE("classes are drawn as often as softmax of scores over temperature says") {
  for (const double temperature : {0.5, 1.0, 3.0}) {
    for (const std::int64_t top_k : {0, 2, 5}) {
      std::vector<double> expected;
      for (std::size_t i = 0; i < scores.size(); ++i) {
        const bool among = top_k != 2 || scores[i] == 2;
        expected.push_back(among ? std::exp(scores[i] / temperature) : 0);
      }
      const double sum = std::accumulate(expected.begin(), expected.end(), 0.0);
      constexpr int draws = 20000;
      std::vector<int> counts(scores.size());
      for (int place = 0; place < draws; ++place) {
        ++counts[static_cast<std::size_t>(
            drawn_class(scores, place, {.temperature = temperature, .top_k = top_k, .seed = 4}))];
      }
      INFO("temperature " << temperature << ", top_k " << top_k);
      for (std::size_t i = 0; i < scores.size(); ++i) {
        const double share = expected[i] / sum;
        // Four standard deviations of a share.
        CHECK(std::abs(counts[i] / static_cast<double>(draws) - share) <=
              4 * std::sqrt(share * (1 - share) / draws));
      }
    }
  }
}

TEST_CASE("temperature 0 takes the first of the largest scores, and a seed has a draw of its own") {
  CHECK(drawn_class(scores, 7, {.temperature = 0}) == 2);
  CHECK(drawn_class(scores, 7, {.temperature = 0, .top_k = 1}) == 2);
  std::set<std::vector<std::int64_t>> texts;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    std::vector<std::int64_t> text;
    for (std::int64_t place = 0; place < 20; ++place) {
      text.push_back(drawn_class(scores, place, {.seed = seed}));
    }
    texts.insert(text);
  }
  CHECK(texts.size() == 5);
}

TEST_CASE("a text goes on behind its last token, also when it is longer than the model sees") {
  DeviceMesh mesh({{"data", Communicator::world().size()}});
  for (const bool probabilities : {false, true}) {
    const SymbolicTensor tokens = Input({4}, "text", ElementType::int32);
    Model model(tokens, counter(tokens, probabilities), spread_over(mesh));
    std::vector<std::int32_t> text;
    generate_tokens(model, {2, 3}, {.tokens = 9},
                    [&](std::int32_t token) { text.push_back(token); });
    CHECK(text == std::vector<std::int32_t>{4, 0, 1, 2, 3, 4, 0, 1, 2});
    CHECK_THROWS_WITH(generate_tokens(model, {}, {}, [](std::int32_t) {}),
                      "the prompt is empty; expected a token at least");
    CHECK_THROWS_WITH(generate_tokens(model, {1, 5}, {}, [](std::int32_t) {}),
                      "the prompt has the token 5; the model has 5 tokens, from 0 on");
  }
  // A place that looks at the ones behind it.
  const SymbolicTensor places = Input({4}, "text", ElementType::int32);
  const auto mixed =
      EinsumDense({.name = "mix", .equation = "btc,ts->bsc", .output_shape = {4, 5}});
  Model looking(places, mixed(counter(places, false)), spread_over(mesh));
  CHECK_THROWS_WITH(generate_tokens(looking, {1}, {}, [](std::int32_t) {}),
                    Catch::Contains("places read later places"));
  const auto refused = [&](const GenerationOptions& options) {
    const SymbolicTensor tokens = Input({4}, "text", ElementType::int32);
    Model model(tokens, counter(tokens, false), spread_over(mesh));
    CHECK_THROWS_WITH(generate_tokens(model, {1}, options, [](std::int32_t) {}),
                      Catch::Contains("expected finite numbers of at least 0"));
    model.set_variable("table/embeddings",
                       std::vector<float>(25, std::numeric_limits<float>::quiet_NaN()));
    CHECK_THROWS_WITH(generate_tokens(model, {1}, {}, [](std::int32_t) {}),
                      "the scores of the token after 1 tokens are NaN or infinite");
  };
  refused({.tokens = -1});
  refused({.temperature = -1});
  refused({.temperature = std::numeric_limits<double>::infinity()});
  refused({.top_k = -1});
  const SymbolicTensor numbers = Input({4});
  Model other(numbers, Dense({.units = 3})(numbers), spread_over(mesh));
  CHECK_THROWS_WITH(generate_tokens(other, {1}, {}, [](std::int32_t) {}),
                    Catch::Contains("expected a language model"));
}

TEST_CASE(
    "each token is seen once, the prompt in pieces, until the text is longer than the model sees") {
  const TokenModel of{.length = 100, .classes = 3};
  struct Asked {
    std::int64_t first, places;  // first < 0: all
    bool operator==(const Asked&) const = default;
  };
  std::vector<Asked> asked;
  // The scores of a place are the token there and those before it, modulo 3: what was handed over.
  std::vector<float> kept(100);
  const auto scores_of = [&](std::int64_t first, std::int64_t places) {
    std::vector<float> scores;
    for (std::int64_t place = first; place < first + places; ++place) {
      float sum = 0;
      for (std::int64_t i = 0; i <= place; ++i) sum += kept[static_cast<std::size_t>(i)];
      for (int one = 0; one < 3; ++one) {
        scores.push_back(static_cast<int>(sum) % 3 == one ? 1.0f : 0.0f);
      }
    }
    return scores;
  };
  TokenPredictor predictor{.whole = [&](std::span<const float> tokens) {
    asked.push_back({-1, std::ssize(tokens)});
    std::copy(tokens.begin(), tokens.end(), kept.begin());
    return scores_of(0, 100);
  }};
  const auto text_behind = [&](std::int64_t prompt, std::int64_t tokens) {
    std::vector<std::int32_t> text;
    asked.clear();
    std::fill(kept.begin(), kept.end(), 5.0f);
    const std::vector<std::int32_t> begin(static_cast<std::size_t>(prompt), 1);
    generate_tokens(of, predictor, begin, {.tokens = tokens, .temperature = 0},
                    [&](std::int32_t token) { text.push_back(token); });
    return text;
  };
  const std::vector<std::int32_t> short_text = text_behind(5, 4), long_text = text_behind(70, 35),
                                  full = text_behind(100, 2), more = text_behind(120, 2);
  predictor.piece = [&](std::span<const float> tokens, std::int64_t first) {
    asked.push_back({first, std::ssize(tokens)});
    std::copy(tokens.begin(), tokens.end(), kept.begin() + first);
    return scores_of(first, std::ssize(tokens));
  };
  CHECK(text_behind(5, 4) == short_text);
  CHECK(asked == std::vector<Asked>{{0, 64}, {5, 1}, {6, 1}, {7, 1}});
  CHECK(text_behind(70, 35) == long_text);
  CHECK(asked.size() == 36);
  CHECK(std::vector(asked.begin(), asked.begin() + 4) ==
        std::vector<Asked>{{0, 64}, {36, 64}, {70, 1}, {71, 1}});
  CHECK(std::vector(asked.end() - 5, asked.end()) ==
        std::vector<Asked>{{99, 1}, {-1, 100}, {-1, 100}, {-1, 100}, {-1, 100}});
  CHECK(text_behind(100, 2) == full);
  CHECK(asked == std::vector<Asked>{{0, 64}, {36, 64}, {-1, 100}});
  CHECK(text_behind(120, 2) == more);
  CHECK(asked == std::vector<Asked>{{-1, 100}, {-1, 100}});
  CHECK(text_behind(65, 1).size() == 1);
  CHECK(asked == std::vector<Asked>{{0, 64}, {64, 1}});
}

TEST_CASE("which tokens take a pass over all places is said, and why") {
  DeviceMesh mesh({{"data", Communicator::world().size()}});
  const SymbolicTensor tokens = Input({4}, "text", ElementType::int32);
  Model model(tokens, counter(tokens, false), spread_over(mesh));
  CHECK(slow_tokens(model, 2, {.tokens = 3}) == "");
  CHECK(slow_tokens(model, 2, {.tokens = 4}) ==
        "each token behind the first 4 takes a pass over all 4 places: it moves all others");
  const SymbolicTensor places = Input({4}, "text", ElementType::int32);
  const auto mixed =
      EinsumDense({.name = "mix", .equation = "btc,ts->bsc", .output_shape = {4, 5}});
  Model looking(places, mixed(counter(places, false)), spread_over(mesh));
  CHECK(
      slow_tokens(looking, 2, {.tokens = 1}) ==
      "each token takes a pass over all 4 places: mix/product does not work position by position");
}

}  // namespace meshwork::generation_test
