#include "runtime/train/loop/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "collectives/error.h"
#include "runtime/device/philox.h"
#include "runtime/graph/graph.h"
#include "runtime/train/objective.h"

namespace meshwork {

TokenModel token_model_of(const Graph& graph) {
  const GraphTensor& input = graph.tensors[graph.inputs.front()];
  const GraphTensor& output = graph.tensors[graph.outputs.front()];
  if (graph.inputs.size() != 1 || graph.outputs.size() != 1 || input.type != ElementType::int32 ||
      input.shape.size() != 2 || output.shape.size() != 3 || output.shape[1] != input.shape[1]) {
    fail(
        "expected a language model from int32 of shape (batch, length) to (batch, length, "
        "classes); found an input of {} {} and an output of shape {}",
        name_of(input.type), to_string(input.shape), to_string(output.shape));
  }
  const Operation* const maker = maker_of_values(graph, graph.outputs.front());
  return {input.shape[1], output.shape[2],
          maker != nullptr && maker->output_values() == ValueKind::probabilities};
}

std::int64_t drawn_class(std::span<const double> scores, std::int64_t place,
                         const GenerationOptions& options) {
  const std::int64_t classes = std::ssize(scores);
  std::vector<std::int64_t> candidates(scores.size());
  std::iota(candidates.begin(), candidates.end(), 0);
  if (options.top_k > 0 && options.top_k < classes) {
    const auto better = [&](std::int64_t a, std::int64_t b) {
      return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
    };
    std::nth_element(candidates.begin(), candidates.begin() + options.top_k - 1, candidates.end(),
                     better);
    candidates.resize(static_cast<std::size_t>(options.top_k));
    std::sort(candidates.begin(), candidates.end());
  }
  const std::uint64_t key = random_key(options.seed, "generate");
  const auto value = [&](std::int64_t one) {
    if (options.temperature == 0) return scores[one];
    const double word = philox_word(key, static_cast<std::uint64_t>(place * classes + one), 0);
    return scores[one] / options.temperature - std::log(-std::log((word + 0.5) / 4294967296.0));
  };
  std::int64_t best = candidates.front();
  double most = value(best);
  for (const std::int64_t one : candidates) {
    if (const double its = value(one); its > most) best = one, most = its;
  }
  return best;
}

void check_prompt(std::span<const std::int32_t> prompt, const TokenModel& of) {
  if (prompt.empty()) fail("the prompt is empty; expected a token at least");
  for (const std::int32_t token : prompt) {
    if (token < 0 || token >= of.classes) {
      fail("the prompt has the token {}; the model has {} tokens, from 0 on", token, of.classes);
    }
  }
}

namespace {

// The scores of what follows a text that grows.
class NextScores {
 public:
  NextScores(const TokenModel& of, const TokenPredictor& predictor)
      : of_(of), predictor_(predictor), seen_(static_cast<std::size_t>(of.length)) {}

  [[nodiscard]] bool in_pieces(std::span<const std::int32_t> text) const {
    return predictor_.piece && std::ssize(text) <= of_.length;
  }
  std::vector<float> behind(std::span<const std::int32_t> text) {
    return in_pieces(text) ? by_pieces(text) : by_all(text, 0);
  }
  // With `filler` at the places behind the text.
  std::vector<float> by_all(std::span<const std::int32_t> text, float filler) {
    const std::int64_t count = std::min(of_.length, std::ssize(text));
    std::fill(std::copy(text.end() - count, text.end(), seen_.begin()), seen_.end(), filler);
    return scores_at(predictor_.whole(seen_), count - 1);
  }

 private:
  // Places of a prompt that are seen at once.
  static constexpr std::int64_t prompt_piece = 64;

  // The last piece may begin with places that were seen before, and has fillers behind the text.
  std::vector<float> by_pieces(std::span<const std::int32_t> text) {
    std::vector<float> scores;
    for (const std::int64_t count = std::ssize(text); kept_ < count;) {
      const std::int64_t places = count - kept_ == 1 ? 1 : std::min(prompt_piece, of_.length);
      const std::int64_t first = std::min(kept_, of_.length - places);
      kept_ = std::min(count, first + places);
      const std::span piece = std::span(seen_).first(static_cast<std::size_t>(places));
      std::fill(std::copy(text.begin() + first, text.begin() + kept_, piece.begin()), piece.end(),
                0.0f);
      scores = scores_at(predictor_.piece(piece, first), kept_ - 1 - first);
    }
    return scores;
  }

  std::vector<float> scores_at(const std::vector<float>& all, std::int64_t place) const {
    const auto at = all.begin() + place * of_.classes;
    return {at, at + of_.classes};
  }

  const TokenModel& of_;
  const TokenPredictor& predictor_;
  std::vector<float> seen_;  // tokens that are handed over
  std::int64_t kept_ = 0;    // places of the text that pieces had
};

}  // namespace

void generate_tokens(const TokenModel& of, const TokenPredictor& predictor,
                     std::vector<std::int32_t> prompt, const GenerationOptions& options,
                     const std::function<void(std::int32_t token)>& receive) {
  if (options.tokens < 0 || options.top_k < 0 || !std::isfinite(options.temperature) ||
      options.temperature < 0) {
    fail("{} tokens at temperature {} of the {} likeliest: expected finite numbers of at least 0",
         options.tokens, options.temperature, options.top_k);
  }
  check_prompt(prompt, of);
  std::vector<std::int32_t> text = std::move(prompt);
  std::vector<double> scores(static_cast<std::size_t>(of.classes));
  NextScores next(of, predictor);
  for (std::int64_t made = 0; made < options.tokens; ++made) {
    const std::vector<float> last = next.behind(text);
    std::transform(last.begin(), last.end(), scores.begin(), [&](float score) {
      const auto exact = static_cast<double>(score);
      return of.probabilities ? std::log(exact) : exact;
    });
    // A probability of 0 has the logarithm -infinity.
    if (std::ranges::any_of(scores, [](double score) { return !(score < HUGE_VAL); })) {
      throw ScoresNotFinite(fmt::format(
          "the scores of the token after {} tokens are NaN or infinite", std::ssize(text)));
    }
    if (made == 0 && std::ssize(text) < of.length && !next.in_pieces(text) &&
        last != next.by_all(text, static_cast<float>(of.classes - 1))) {
      fail(
          "the model's places read later places, so it cannot predict the next token; set "
          "use_causal_mask in its attention");
    }
    text.push_back(static_cast<std::int32_t>(drawn_class(scores, std::ssize(text), options)));
    receive(text.back());
  }
}

TokenPredictor token_predictor(PredictWhole whole, PredictPiece piece) {
  const auto of = [](std::span<const float> tokens) {
    return BatchView{.rows = 1, .inputs = {tokens}, .targets = {}};
  };
  TokenPredictor predictor{.whole = [of, whole = std::move(whole)](std::span<const float> tokens) {
    return std::move(whole(of(tokens)).front());
  }};
  if (piece) {
    predictor.piece = [of, piece = std::move(piece)](std::span<const float> tokens,
                                                     std::int64_t first) {
      return std::move(piece(of(tokens), first).front());
    };
  }
  return predictor;
}

void generate_tokens(Model& model, std::vector<std::int32_t> prompt,
                     const GenerationOptions& options,
                     const std::function<void(std::int32_t token)>& receive) {
  const TokenModel of = token_model_of(model.graph());
  PredictPiece piece;
  if (options.in_pieces && model.obstacle_to_pieces().empty()) {
    piece = [&](const BatchView& batch, std::int64_t place) {
      return model.predict_piece(batch, place);
    };
  }
  const PredictWhole whole = [&](const BatchView& batch) { return model.predict_step(batch); };
  generate_tokens(of, token_predictor(whole, piece), std::move(prompt), options, receive);
}

std::string slow_tokens(Model& model, std::int64_t prompt, const GenerationOptions& options) {
  const std::int64_t length = token_model_of(model.graph()).length;
  const std::string each = fmt::format("takes a pass over all {} places", length);
  if (const std::string obstacle = model.obstacle_to_pieces(); !obstacle.empty()) {
    return fmt::format("each token {}: {}", each, obstacle);
  }
  if (prompt + options.tokens <= length + 1) return "";
  return fmt::format("each token behind the first {} {}: it moves all others", length, each);
}

}  // namespace meshwork
