// Penalties on values, which join the loss.
#pragma once

namespace meshwork {

/// l1 * sum |w| + l2 * sum w^2, over the whole of a variable, or of what a sample gives.
struct Regularizer {
  float l1 = 0;
  float l2 = 0;
  [[nodiscard]] bool active() const { return l1 != 0 || l2 != 0; }
  bool operator==(const Regularizer&) const = default;
};

}  // namespace meshwork
