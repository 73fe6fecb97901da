// Penalties on values, which join the loss.
#pragma once

namespace meshwork {

/// l1 * sum |w| + l2 * sum w^2, over the whole of a variable, or of what a sample gives; and of a
/// matrix how far its rows, or its columns, are from right angles (step/orthogonality.h).
struct Regularizer {
  float l1 = 0;
  float l2 = 0;
  float orthogonal = 0;
  bool of_rows = true;
  [[nodiscard]] bool active() const { return l1 != 0 || l2 != 0 || orthogonal != 0; }
  bool operator==(const Regularizer&) const = default;
};

}  // namespace meshwork
