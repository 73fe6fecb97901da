// How far the rows of a matrix, or its columns, are from right angles: the penalty of Keras's
// OrthogonalRegularizer. With u_i = w_i / |w_i|, and p = n (n - 1) / 2 pairs of n,
//
//     penalty = factor / (2 p) * the sum of |u_i u_j| over i != j
//
// Each rank gathers the whole matrix and works out all of it, once a step.
#pragma once

#include "runtime/graph/step/context.h"

namespace meshwork {

/// What a penalty has left for its gradient: of each vector 1 / |w|, u, and u_i u_j, 0 for i = j.
struct Orthogonality {
  Operand inverse, units, products;
  std::int64_t vectors = 0;  // n
};

/// Books it of a variable with such a regularizer. Every rank does so for the same variables.
[[nodiscard]] Orthogonality book_orthogonality(StepContext& step, const ParameterSpan& span);
/// What the sum of |u_i u_j|, which is that of the magnitudes of the products, counts in the loss.
[[nodiscard]] double factor_of_orthogonality(const Variable& variable);
/// Books that this rank's block of the derivative is added to the variable's gradient.
void book_orthogonality_gradient(StepContext& step, const ParameterSpan& span,
                                 const Orthogonality& of);

}  // namespace meshwork
