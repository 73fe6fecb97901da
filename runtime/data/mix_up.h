// MixUp: each sample is blended with another one of its batch, and its targets alike (Zhang et al.,
// "mixup: Beyond empirical risk minimization", ICLR 2018).
//
//     x = w x + (1 - w) x',  y = w y + (1 - w) y',  w of Beta(alpha, alpha), drawn for each sample
//
// as Keras's layer of this name does.
#pragma once

#include "runtime/data/mixing.h"

namespace meshwork {

struct MixUpOptions {
  double alpha = 0.2;
};

/// Throws `Error` for an alpha that is not above 0 and at most 1.
[[nodiscard]] SharedMixing MixUp(const MixUpOptions& options = {});

}  // namespace meshwork
