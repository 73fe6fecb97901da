// Reductions over a middle dimension, and what they reduce to spread over it.
//
// Global pooling: outer is the batch, middle rows * columns, inner the channels.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/device/kernels/page.h"

namespace meshwork {

struct MiddleExtents {
  std::int64_t outer = 0, middle = 0, inner = 0;
  [[nodiscard]] std::string text(std::string_view name) const {
    return spec::sized(name, {outer, middle, inner});
  }
  /// Of what passes so often over all elements, and over the results.
  [[nodiscard]] KernelWork work(int of_elements, int of_results) const {
    return spec::rows(outer * inner, of_elements * middle + of_results);
  }
};

/// y (outer, inner) = scale * sum over middle of x (outer, middle, inner); 0 for no middle.
/// Operands: x, y.
struct MiddleSumSpec {
  MiddleExtents at;
  float scale = 1;
  [[nodiscard]] std::string text() const { return at.text("middle sum"); }
  [[nodiscard]] KernelWork work() const { return at.work(1, 1); }
};
/// s (outer, inner; float64) = the sum over middle of the squares of x. Operands: x, s.
struct MiddleSquaresSpec {
  MiddleExtents at;
  [[nodiscard]] std::string text() const { return at.text("middle squares"); }
  [[nodiscard]] KernelWork work() const { return at.work(1, 2); }
};
/// y (outer, middle, inner) = scale * x (outer, inner), the gradient of the sum. Operands: x, y.
struct MiddleBroadcastSpec {
  MiddleExtents at;
  float scale = 1;
  [[nodiscard]] std::string text() const { return at.text("middle broadcast"); }
  [[nodiscard]] KernelWork work() const { return at.work(1, 1); }
};
/// y (outer, middle, inner) = x * factor (outer, inner). Operands: x, factor, y.
struct MiddleScaleSpec {
  MiddleExtents at;
  [[nodiscard]] std::string text() const { return at.text("middle scale"); }
  [[nodiscard]] KernelWork work() const { return at.work(2, 1); }
  [[nodiscard]] InPlace in_place() const { return {{0}}; }
};
/// m (outer, inner) = maximum over middle of x, -infinity for no middle. NaN counts as the maximum.
/// Operands: x, m.
struct MiddleMaximumSpec {
  MiddleExtents at;
  [[nodiscard]] std::string text() const { return at.text("middle maximum"); }
  [[nodiscard]] KernelWork work() const { return at.work(1, 1); }
};
/// t (outer, inner, float32) = how many elements of middle equal m. NaN equals NaN. Operands: x, m,
/// t.
struct MiddleTiesSpec {
  MiddleExtents at;
  [[nodiscard]] std::string text() const { return at.text("middle ties"); }
  [[nodiscard]] KernelWork work() const { return at.work(1, 2); }
};
/// dx (outer, middle, inner) = dy / t where x equals m, else 0: the elements that are the maximum
/// share its gradient, as in Keras. NaN equals NaN. Operands: x, m, t, dy, dx.
struct MiddleMaximumGradientSpec {
  MiddleExtents at;
  [[nodiscard]] std::string text() const { return at.text("middle maximum gradient"); }
  [[nodiscard]] KernelWork work() const { return at.work(2, 3); }
};

}  // namespace meshwork
