// Losses of how little predictions and targets overlap (keras.io/api/losses/probabilistic_losses),
// for segmentation.
//
// Sums are over the dimensions `axis`, which are neighbours; epsilon is 1e-7:
//   Dice = 1 - 2 sum(t p) / (sum(t) + sum(p) + epsilon)
//   Tversky = 1 - sum(t p) / (sum(t p) + alpha sum(t (1 - p)) + beta sum((1 - t) p) + epsilon)
// The loss is their mean over the other dimensions. Without `axis`, sums are over all dimensions, the
// batch too. Then a batch has one value, and its samples have no weights. Salehi et al.,
// arXiv:1706.05721.
//
// Letters that are summed are the operation's own: ranks reduce three sums a value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/train/losses/loss.h"

namespace meshwork {

struct DiceOptions {
  std::optional<std::vector<std::int64_t>> axis;  // as in Keras: 0 is the batch, -1 the last
  std::string name = "dice";
};
struct TverskyOptions {
  double alpha = 0.5;
  double beta = 0.5;
  std::optional<std::vector<std::int64_t>> axis;
  std::string name = "tversky";
};

/// Both throw `Error` for options out of range; their operations do for dimensions that the
/// predictions lack or that are no neighbours.
[[nodiscard]] SharedLoss Dice(const DiceOptions& options = {});
[[nodiscard]] SharedLoss Tversky(const TverskyOptions& options = {});

}  // namespace meshwork
