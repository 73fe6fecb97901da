// Orthogonal: a random matrix whose columns are orthogonal, or its rows if it is wider than high.
//
// A variable of (..., columns) is a matrix of so many columns, or its transpose if it is wider than
// high. Gram and Schmidt make the columns of a matrix of normal values orthogonal, twice over, which
// leaves them so to rounding. Every rank makes the whole, in height * width^2 steps.
#pragma once

#include "runtime/graph/initializer.h"

namespace meshwork {

struct OrthogonalOptions {
  double gain = 1;
};

/// For variables of two dimensions at least.
[[nodiscard]] Initializer Orthogonal(const OrthogonalOptions& options = {});

}  // namespace meshwork
