// Generation: the tokens that a model of next tokens gives, one after the other.
//
// A model of next tokens has one input, the numbers of `length` tokens. It gives for each place the
// scores, or the probabilities, of the token behind it. Scores depend on their place and those
// before it alone. The model sees the text so far, or its last `length` tokens; the scores at the
// last place say what follows. Places behind the text hold token 0, at which no place looks.
//
// A model that takes pieces of sequences (graph/sequences.h) sees each token once: the prompt in
// pieces, then one token after the other. Any other sees all places for each token, and so does
// every model once the text is longer than `length`: then each token moves all others to the place
// before.
//
// What follows is drawn as the class with the largest score / temperature + g (the Gumbel-max
// trick; Maddison, Tarlow, Minka, "A* Sampling", 2014), where
//
//   g = -ln(-ln((w + 1/2) / 2^32))    with a Philox word w of (seed, place in the text, class)
//
// so a seed gives the same text on every mesh, but where two classes are as good as each other
// within rounding. Temperature 0 takes the largest score.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "collectives/error.h"
#include "runtime/train/model.h"

namespace meshwork {

struct GenerationOptions {
  std::int64_t tokens = 256;  // how many, not negative
  double temperature = 1;     // finite, not negative
  std::int64_t top_k = 0;     // draw among the so many largest scores; 0: among all
  std::uint64_t seed = 0;
  bool in_pieces = true;  // where the model can be run so
};

/// What a model of next tokens takes and gives.
struct TokenModel {
  std::int64_t length = 0;  // tokens that it sees
  std::int64_t classes = 0;
  bool probabilities = false;  // gives them, not scores
};
/// Throws `Error` for shapes and types that are not those of one.
[[nodiscard]] TokenModel token_model_of(const Graph& graph);

/// The class that is drawn of `scores`, none of which is NaN, at place `place` of a text.
[[nodiscard]] std::int64_t drawn_class(std::span<const double> scores, std::int64_t place,
                                       const GenerationOptions& options);

/// Throws `Error` for a prompt that is empty, or of tokens that the model does not have.
void check_prompt(std::span<const std::int32_t> prompt, const TokenModel& of);

/// A model gives scores of which nothing can be drawn: its weights are NaN or infinite.
class ScoresNotFinite : public Error {
 public:
  using Error::Error;
};

/// What a model is asked for scores with.
struct TokenPredictor {
  /// The scores of all places for the tokens at all places.
  std::function<std::vector<float>(std::span<const float> tokens)> whole;
  /// Those of the places from `first` on, for the tokens there. Null: there is an obstacle.
  std::function<std::vector<float>(std::span<const float> tokens, std::int64_t first)> piece = {};
};

/// The outputs of a model for a batch of a row, and at the places from one on (Model::predict_step,
/// Model::predict_piece, or the same inside of a call).
using PredictWhole = std::function<std::vector<std::vector<float>>(const BatchView& batch)>;
using PredictPiece =
    std::function<std::vector<std::vector<float>>(const BatchView& piece, std::int64_t place)>;
/// `piece` is null where there is an obstacle.
[[nodiscard]] TokenPredictor token_predictor(PredictWhole whole, PredictPiece piece);

/// Hands the tokens that follow `prompt` to `receive`, one by one. A token takes a prediction.
/// Throws `Error` as `check_prompt` does, for options out of range, and where the first scores
/// depend on what stands behind the prompt; `ScoresNotFinite` for scores that are NaN or infinite.
void generate_tokens(const TokenModel& of, const TokenPredictor& predictor,
                     std::vector<std::int32_t> prompt, const GenerationOptions& options,
                     const std::function<void(std::int32_t token)>& receive);

/// The same by `model`, on every rank: the scores are gathered on all. Collective. Throws `Error`
/// as `token_model_of` does, too.
void generate_tokens(Model& model, std::vector<std::int32_t> prompt,
                     const GenerationOptions& options,
                     const std::function<void(std::int32_t token)>& receive);

/// Which of the tokens behind a prompt of `prompt` tokens take predictions of all places, and why;
/// "" if none does. Collective.
[[nodiscard]] std::string slow_tokens(Model& model, std::int64_t prompt,
                                      const GenerationOptions& options);

}  // namespace meshwork
