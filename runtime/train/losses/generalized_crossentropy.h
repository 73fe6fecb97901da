// Generalized cross-entropy: (1 - p^q) / q of the right class's probability p, for labels of which
// some are wrong. Near q = 0 it is cross-entropy, near q = 1 the absolute error. Zhang and Sabuncu,
// arXiv:1805.07836; as in Keras.
//
// Classes may be split over ranks: the letter k is the loss's own, over which a row's p is added up.
#pragma once

#include <string>

#include "runtime/train/losses/loss.h"

namespace meshwork {

struct CategoricalGeneralizedCrossEntropyOptions {
  double q = 0.5;  // above 0, below 1
  std::string name = "categorical_generalized_cross_entropy";
};

/// Of probabilities (batch, ..., classes) and class numbers. Throws `Error` for another q.
[[nodiscard]] SharedLoss CategoricalGeneralizedCrossEntropy(
    const CategoricalGeneralizedCrossEntropyOptions& options = {});

}  // namespace meshwork
