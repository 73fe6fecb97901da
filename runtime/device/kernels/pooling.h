// Pooling and its gradients.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "collectives/element_type.h"
#include "runtime/device/kernels/page.h"
#include "runtime/device/kernels/windows.h"

namespace meshwork {

/// What the kernels of one pooling share: x is (batch, input planes, rows and columns, channels), y
/// (batch, output planes, rows and columns, channels).
struct PoolingShape {
  std::int64_t batch = 0;
  WindowDimension planes, rows, columns;
  std::int64_t channels = 0;

  [[nodiscard]] std::string text(std::string_view name) const;
  [[nodiscard]] KernelWork work(bool winners) const;
  void check(const std::string& kernel) const;
};

/// How many places a window has.
[[nodiscard]] constexpr std::int64_t window_places(const PoolingShape& at) {
  return at.planes.window * at.rows.window * at.columns.window;
}

/// The element type in which maximum pooling writes its winners: uint8 for windows of up to 256
/// places, int32 beyond.
[[nodiscard]] constexpr ElementType winner_type(const PoolingShape& at) {
  return window_places(at) <= 256 ? ElementType::uint8 : ElementType::int32;
}

/// y = maximum over the window without its padding, -infinity if it is all padding. NaN counts as
/// the maximum. With `winners`, w (as y, of winner_type) = the window place, row-major, of the
/// first element that is the maximum. Operands: x, y, [w].
struct MaximumPoolingSpec {
  PoolingShape at;
  bool winners = false;
  [[nodiscard]] std::string text() const { return at.text("maximum pooling"); }
  [[nodiscard]] KernelWork work() const { return at.work(winners); }
  void check() const { at.check(text()); }
};
/// dx (as x) = sum of dy over the windows whose winner it is. Operands: w, dy, dx.
struct MaximumPoolingGradientSpec {
  PoolingShape at;
  [[nodiscard]] std::string text() const { return at.text("maximum pooling gradient"); }
  [[nodiscard]] KernelWork work() const { return at.work(true); }
  void check() const { at.check(text()); }
};

/// y = mean over the window without its padding, 0 if it is all padding. Operands: x, y.
struct AveragePoolingSpec {
  PoolingShape at;
  [[nodiscard]] std::string text() const { return at.text("average pooling"); }
  [[nodiscard]] KernelWork work() const { return at.work(false); }
  void check() const { at.check(text()); }
};
/// dx (as x) = sum over its windows of dy / (elements of the window that are no padding).
/// Operands: dy, dx.
struct AveragePoolingGradientSpec {
  PoolingShape at;
  [[nodiscard]] std::string text() const { return at.text("average pooling gradient"); }
  [[nodiscard]] KernelWork work() const { return at.work(false); }
  void check() const { at.check(text()); }
};

}  // namespace meshwork
