// OrthogonalRegularizer: how far the rows of a matrix, or its columns, are from right angles. With
// u_i = w_i / |w_i|, and p = n (n - 1) / 2 pairs of n,
//
//     penalty = factor / (2 p) * the sum of |u_i u_j| over i != j
//
// Each rank gathers the whole matrix and works out all of it, once a step.
#pragma once

#include "runtime/graph/regularizer.h"

namespace meshwork {

struct OrthogonalRegularizerOptions {
  float factor = 0.01f;
  bool of_rows = true;  // or of columns
};

/// For variables of two dimensions.
[[nodiscard]] Regularizer OrthogonalRegularizer(const OrthogonalRegularizerOptions& options = {});

}  // namespace meshwork
