// Reductions over a middle dimension.
//
// Global pooling: outer is the batch, middle rows * columns, inner the channels.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/device/kernels/page.h"

namespace meshwork {

/// y (outer, inner) = scale * sum over middle of x (outer, middle, inner); 0 for no middle.
/// Operands: x, y.
struct MiddleSumSpec {
  std::int64_t outer = 0, middle = 0, inner = 0;
  float scale = 1;
  [[nodiscard]] std::string text() const {
    return spec::sized("middle sum", {outer, middle, inner});
  }
  [[nodiscard]] KernelWork work() const { return spec::rows(outer * inner, middle + 1); }
};
/// y (outer, middle, inner) = scale * x (outer, inner), the gradient of the sum. Operands: x, y.
struct MiddleBroadcastSpec {
  std::int64_t outer = 0, middle = 0, inner = 0;
  float scale = 1;
  [[nodiscard]] std::string text() const {
    return spec::sized("middle broadcast", {outer, middle, inner});
  }
  [[nodiscard]] KernelWork work() const { return spec::rows(outer * inner, middle + 1); }
};
/// m (outer, inner) = maximum over middle of x, -infinity for no middle. NaN counts as the maximum.
/// Operands: x, m.
struct MiddleMaximumSpec {
  std::int64_t outer = 0, middle = 0, inner = 0;
  [[nodiscard]] std::string text() const {
    return spec::sized("middle maximum", {outer, middle, inner});
  }
  [[nodiscard]] KernelWork work() const { return spec::rows(outer * inner, middle + 1); }
};
/// t (outer, inner, float32) = how many elements of middle equal m. NaN equals NaN. Operands: x, m,
/// t.
struct MiddleTiesSpec {
  std::int64_t outer = 0, middle = 0, inner = 0;
  [[nodiscard]] std::string text() const {
    return spec::sized("middle ties", {outer, middle, inner});
  }
  [[nodiscard]] KernelWork work() const { return spec::rows(outer * inner, middle + 2); }
};
/// dx (outer, middle, inner) = dy / t where x equals m, else 0: the elements that are the maximum
/// share its gradient, as in Keras. NaN equals NaN. Operands: x, m, t, dy, dx.
struct MiddleMaximumGradientSpec {
  std::int64_t outer = 0, middle = 0, inner = 0;
  [[nodiscard]] std::string text() const {
    return spec::sized("middle maximum gradient", {outer, middle, inner});
  }
  [[nodiscard]] KernelWork work() const { return spec::rows(outer * inner, 2 * middle + 3); }
};

}  // namespace meshwork
