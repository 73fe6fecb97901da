// Cosine similarity: -(p t) / (|p| |t|) of the last dimension as vectors, no length less than 1e-7;
// then the mean over rows (keras.io/api/losses/regression_losses). -1 is equal directions.
#pragma once

#include <string>

#include "runtime/train/losses/loss.h"

namespace meshwork {

struct CosineSimilarityOptions {
  static constexpr const char* about = "minus the cosine between prediction and target";
  std::string name = "cosine_similarity";
};

[[nodiscard]] SharedLoss CosineSimilarity(const CosineSimilarityOptions& options = {});

}  // namespace meshwork
