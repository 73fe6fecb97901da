// Functions of the elements of two tensors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/device/kernels/page.h"

namespace meshwork {

/// Of equal elements the maximum and the minimum are the first tensor's; NaN is either.
enum class PairFunction : std::uint8_t { product, difference, maximum, minimum };
[[nodiscard]] std::string_view name_of(PairFunction function);

/// y = function(a, b). Operands: a, b, y.
struct PairSpec {
  PairFunction function = PairFunction::product;
  std::int64_t count = 0;
  [[nodiscard]] std::string text() const { return spec::sized(name_of(function), {count}); }
  [[nodiscard]] KernelWork work() const { return spec::passes(3, count); }
  [[nodiscard]] InPlace in_place() const { return {{0, 1}}; }
};
/// dx = dy where the maximum or the minimum is a (`first`) or b, else 0.
/// Operands: a, b, dy, dx.
struct PairGradientSpec {
  PairFunction function = PairFunction::maximum;
  bool first = true;
  std::int64_t count = 0;
  [[nodiscard]] std::string text() const;
  [[nodiscard]] KernelWork work() const { return spec::passes(4, count); }
  [[nodiscard]] InPlace in_place() const { return {{2}}; }
  void check() const;
};

/// y = x * factor, with a factor a column. Operands: x, factor, y.
struct ColumnScaleSpec {
  std::int64_t rows = 0, columns = 0;
  [[nodiscard]] std::string text() const { return spec::sized("column scale", {rows, columns}); }
  [[nodiscard]] KernelWork work() const { return spec::passes(2, rows * columns); }
  [[nodiscard]] InPlace in_place() const { return {{0}}; }
};
/// y = x where x > 0, else slope * x, with a slope a column. Operands: x, slope, y.
struct SlopeSpec {
  std::int64_t rows = 0, columns = 0;
  [[nodiscard]] std::string text() const { return spec::sized("slope", {rows, columns}); }
  [[nodiscard]] KernelWork work() const { return spec::passes(2, rows * columns); }
  [[nodiscard]] InPlace in_place() const { return {{0}}; }
};
/// dx = dy where x > 0, else slope * dy. Operands: x, slope, dy, dx.
struct SlopeGradientSpec {
  std::int64_t rows = 0, columns = 0;
  [[nodiscard]] std::string text() const { return spec::sized("slope gradient", {rows, columns}); }
  [[nodiscard]] KernelWork work() const { return spec::passes(3, rows * columns); }
  [[nodiscard]] InPlace in_place() const { return {{2}}; }
};
/// t = 0 where x > 0, else x * dy: what an element adds to the gradient of its slope.
/// Operands: x, dy, t.
struct SlopeTermSpec {
  std::int64_t count = 0;
  [[nodiscard]] std::string text() const { return spec::sized("slope term", {count}); }
  [[nodiscard]] KernelWork work() const { return spec::passes(3, count); }
};

}  // namespace meshwork
