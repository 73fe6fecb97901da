// Convolutions and their gradients.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/device/kernels/page.h"
#include "runtime/device/kernels/windows.h"

namespace meshwork {

/// What the kernels of one convolution share. `channels` are those of the input, `filters` those of
/// the output; filter f of group g = f / (filters / groups) sees the channels of group g alone, so
/// both must divide by `groups`. Depthwise: groups = channels, filters = channels * multiplier, in
/// the order of Keras's depthwise kernel.
struct ConvolutionShape {
  std::int64_t batch = 0;
  WindowDimension planes, rows, columns;
  std::int64_t channels = 0, filters = 0;
  std::int64_t groups = 1;

  [[nodiscard]] std::string text(std::string_view name, Precision precision) const;
  /// Of the convolution and both gradients: all three multiply the same pairs.
  [[nodiscard]] KernelWork work(Precision precision) const;
  void check(const std::string& kernel) const;
  [[nodiscard]] std::string details() const;
};

/// y (batch, output planes, rows and columns, filters) = activation(bias (filters) + sum over
/// window places and channels of x (batch, input planes, rows and columns, channels) * kernel
/// (window planes, rows and columns, channels / groups, filters)), a cross-correlation with zeros
/// as padding. Activation: linear, relu. Operands: x, kernel, [bias], y. No channels give the bias
/// alone.
struct ConvolutionSpec {
  ConvolutionShape at;
  bool bias = false;
  Activation activation = Activation::linear;
  Precision precision = Precision::float32;
  [[nodiscard]] std::string text() const;
  [[nodiscard]] KernelWork work() const { return at.work(precision); }
  void check() const;
  [[nodiscard]] std::string details() const { return at.details(); }
  [[nodiscard]] std::vector<std::int64_t> operand_counts() const;
};

/// dx (as x) = the gradient of the convolution by its input: each dy (as y) times the kernel, added
/// where its window lies; 0 where no window does. It is also a transposed convolution's result (as
/// x) from its input (as y), with Keras's Conv3DTranspose kernel (window planes, rows and columns,
/// filters of the result, channels of the input). Operands: dy, kernel, dx.
struct ConvolutionInputGradientSpec {
  ConvolutionShape at;
  Precision precision = Precision::float32;
  [[nodiscard]] std::string text() const {
    return at.text("convolution input gradient", precision);
  }
  [[nodiscard]] KernelWork work() const { return at.work(precision); }
  void check() const { at.check(text()); }
  [[nodiscard]] std::string details() const { return at.details(); }
  [[nodiscard]] std::vector<std::int64_t> operand_counts() const;
};

/// dkernel (as kernel) = the gradient of the convolution by its kernel: written, over this rank's
/// batch and output. The bias's is ColumnSumSpec. Operands: x, dy, dkernel.
struct ConvolutionKernelGradientSpec {
  ConvolutionShape at;
  Precision precision = Precision::float32;
  [[nodiscard]] std::string text() const {
    return at.text("convolution kernel gradient", precision);
  }
  [[nodiscard]] KernelWork work() const { return at.work(precision); }
  void check() const { at.check(text()); }
  [[nodiscard]] std::string details() const { return at.details(); }
  [[nodiscard]] std::vector<std::int64_t> operand_counts() const;
};

/// Operands without a workspace.
[[nodiscard]] constexpr int operand_count(const ConvolutionSpec& spec) {
  return spec.bias ? 4 : 3;
}
[[nodiscard]] constexpr int operand_count(const ConvolutionInputGradientSpec& /*spec*/) {
  return 3;
}
[[nodiscard]] constexpr int operand_count(const ConvolutionKernelGradientSpec& /*spec*/) {
  return 3;
}

}  // namespace meshwork
