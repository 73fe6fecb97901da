// How well the next token is predicted, from the mean cross-entropy c over all tokens that were
// seen.
//
// Perplexity (keras_hub.metrics.Perplexity) is exp(c): among how many equally likely tokens a model
// seems to choose. BitsPerByte is c / log(2), the bits that a byte takes in the best code by the
// model's predictions; the name holds where tokens are bytes. Predictions (batch, ..., tokens) are
// probabilities, or logits; targets are token numbers.
#pragma once

#include <string>

#include "runtime/train/metrics/metric.h"

namespace meshwork {

struct PerplexityOptions {
  static constexpr const char* about = "exp of the mean cross-entropy, for token numbers";
  bool from_logits = false;
  std::string name = "perplexity";
};
struct BitsPerByteOptions {
  static constexpr const char* about = "mean cross-entropy in bits, for bytes as tokens";
  bool from_logits = false;
  std::string name = "bits_per_byte";
};

[[nodiscard]] SharedMetric Perplexity(const PerplexityOptions& options = {});
[[nodiscard]] SharedMetric BitsPerByte(const BitsPerByteOptions& options = {});

}  // namespace meshwork
