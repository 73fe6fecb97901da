// Element by element: activations, sums, conversions, dropout.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "collectives/element_type.h"
#include "runtime/device/kernels/page.h"
#include "runtime/shape/block.h"

namespace meshwork {

/// y = activation(x), elementwise (not softmax); alpha is that of elu.
/// Operands: x, y.
struct ActivationSpec {
  Activation activation = Activation::linear;
  std::int64_t count = 0;
  float alpha = 1;
  [[nodiscard]] std::string text() const;
  [[nodiscard]] KernelWork work() const { return spec::passes(2, count); }
  [[nodiscard]] InPlace in_place() const { return {{0}}; }
  void check() const { spec::require_elementwise(activation, "activation"); }
};

/// dx = dy / divisor * activation'(x), told from `value`: y if the activation is
/// differentiable_from_output, else x. Operands: value, dy, dx.
struct ActivationGradientSpec {
  Activation activation = Activation::linear;
  std::int64_t count = 0;
  float divisor = 1;
  float alpha = 1;
  [[nodiscard]] std::string text() const;
  [[nodiscard]] KernelWork work() const { return spec::passes(3, count); }
  [[nodiscard]] InPlace in_place() const { return {{1}}; }
  void check() const;
};

/// relu in Keras's general form, with threshold, limit and slope not below 0; NaN stays NaN:
///   y = slope * (x - threshold) where x <= threshold, limit where x >= limit, else x.
struct Rectifier {
  float slope = 0, threshold = 0;
  float limit = std::numeric_limits<float>::infinity();
};
/// y = rectifier(x). Operands: x, y.
struct RectifySpec {
  Rectifier rectifier;
  std::int64_t count = 0;
  [[nodiscard]] std::string text() const { return spec::sized("rectify", {count}); }
  [[nodiscard]] KernelWork work() const { return spec::passes(2, count); }
  [[nodiscard]] InPlace in_place() const { return {{0}}; }
};
/// dx = dy * slope where x <= threshold, 0 where x >= limit, else dy.
/// Operands: x, dy, dx.
struct RectifyGradientSpec {
  Rectifier rectifier;
  std::int64_t count = 0;
  [[nodiscard]] std::string text() const { return spec::sized("rectify gradient", {count}); }
  [[nodiscard]] KernelWork work() const { return spec::passes(3, count); }
  [[nodiscard]] InPlace in_place() const { return {{1}}; }
};

/// y = x * scale + offset. Operands: x, y.
struct AffineSpec {
  std::int64_t count = 0;
  float scale = 1, offset = 0;
  [[nodiscard]] std::string text() const { return spec::sized("affine", {count}); }
  [[nodiscard]] KernelWork work() const { return spec::passes(2, count); }
  [[nodiscard]] InPlace in_place() const { return {{0}}; }
};

/// y = x converted from `from` to `to`: to float32, then as AffineSpec; or to int32, cut towards 0,
/// where what int32 does not have becomes its lowest number, and scale and offset are 1 and 0.
/// Operands: x, y.
struct ConvertSpec {
  std::int64_t count = 0;
  ElementType from = ElementType::uint8;
  float scale = 1, offset = 0;
  ElementType to = ElementType::float32;
  [[nodiscard]] std::string text() const;
  [[nodiscard]] KernelWork work() const;
  void check() const;
};

/// y (bfloat16, two bytes an element) = x rounded to nearest, ties to even; NaN stays NaN.
/// Operands: x, y.
struct NarrowSpec {
  std::int64_t count = 0;
  [[nodiscard]] std::string text() const { return spec::sized("narrow", {count}); }
  [[nodiscard]] KernelWork work() const {
    return {0, (spec::f32 + spec::bf16) * static_cast<double>(count)};
  }
};

/// y = sum of `inputs` tensors; the first may be y itself. Operands: x_0 ... x_{inputs-1}, y.
struct SumSpec {
  std::int64_t count = 0;
  int inputs = 2;
  [[nodiscard]] std::string text() const;
  [[nodiscard]] KernelWork work() const { return spec::passes(inputs + 1, count); }
  [[nodiscard]] InPlace in_place() const { return inputs == 1 ? InPlace{{0}} : InPlace{{0, 1}}; }
  void check() const { spec::require(inputs >= 1, text(), "has no tensor"); }
};

/// Dropout as Keras: element i of the *global* tensor of shape `global` is kept if its Philox word
/// (key, i, step) is >= rate * 2^32, and then divided by 1 - rate; rate 1 gives zeros. x and y are
/// the `block` of it. The gradient is the same kernel on dy. Operands: x,
/// StepScalars, y.
struct DropoutSpec {
  float rate = 0;
  std::uint64_t key = 0;
  Shape global;
  Block block;
  [[nodiscard]] std::string text() const;
  [[nodiscard]] KernelWork work() const { return spec::passes(2, element_count(shape_of(block))); }
  [[nodiscard]] InPlace in_place() const { return {{0}}; }
  void check() const;
};

/// x = 0 in `bytes` bytes. Operands: x.
struct ZeroSpec {
  std::int64_t bytes = 0;
  [[nodiscard]] std::string text() const;
  [[nodiscard]] KernelWork work() const { return {0, static_cast<double>(bytes)}; }
};

}  // namespace meshwork
