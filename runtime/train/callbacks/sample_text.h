// SampleText: what a model of next tokens writes behind a prompt, at the end of an epoch.
//
//     SampleText: {prompt: "The ", tokens: 200, temperature: 0.8}
//
// The text is that which `meshwork generate` gives by the weights of that moment (generation.h). The
// seed is the run's, the same in every epoch, so that only the weights differ. Keys and values of
// tokens are kept where the model can be run in pieces (generation.h).
#pragma once

#include <cstdint>
#include <string>

#include "runtime/train/callbacks/callback.h"

namespace meshwork {

struct SampleTextOptions {
  std::string prompt;  // to be given: text for a model of bytes, else numbers of tokens
  std::int64_t tokens = 200;
  double temperature = 1;
  std::int64_t top_k = 0;  // draw among the so many likeliest; 0: among all
  std::int64_t every_epochs = 1;
};

/// Throws `Error` for options out of range; training does for a model that gives no next tokens, and
/// for a prompt that is none of its.
[[nodiscard]] SharedCallback SampleText(const SampleTextOptions& options);

}  // namespace meshwork
