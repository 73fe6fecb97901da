// L1, L2 and L1L2: l1 * sum |w| + l2 * sum w^2, over the whole of a variable.
#pragma once

#include "runtime/graph/regularizer.h"

namespace meshwork {

[[nodiscard]] Regularizer L1(float l1 = 0.01f);
[[nodiscard]] Regularizer L2(float l2 = 0.01f);

struct L1L2Options {
  float l1 = 0;
  float l2 = 0;
};

[[nodiscard]] Regularizer L1L2(const L1L2Options& options);

}  // namespace meshwork
