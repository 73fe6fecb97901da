// The forms of convolution on the CPU; convolution.cpp says when which is taken.
#pragma once

#include <cstdint>

#include "runtime/device/cpu/compile.h"

namespace meshwork::cpu {

/// How a primitive wants images: as they lie in memory, or blocked.
enum class ImageFormat : std::uint8_t { channels_last, blocked };

/// oneDNN's primitive; null where it has nothing better than the unfolded form, and where it wants
/// blocked images to be as they lie. Without activation. In bfloat16 only where the processor has
/// instructions for it.
/// Throws dnnl::error, with dnnl_unimplemented where it has nothing at all.
KernelPointer compile_native(const ConvolutionSpec& spec, ImageFormat format);
KernelPointer compile_native(const ConvolutionInputGradientSpec& spec, ImageFormat format);
KernelPointer compile_native(const ConvolutionKernelGradientSpec& spec, ImageFormat format);

/// Windows as rows of a matrix, for any shape that has terms. Without bias and activation, and in
/// float32.
KernelPointer compile_unfolded(const ConvolutionSpec& spec, const Context& context);
KernelPointer compile_unfolded(const ConvolutionInputGradientSpec& spec, const Context& context);
KernelPointer compile_unfolded(const ConvolutionKernelGradientSpec& spec, const Context& context);

// Elements of the operands.
[[nodiscard]] inline std::int64_t input_count(const ConvolutionShape& at) {
  return at.batch * at.rows.input * at.columns.input * at.channels;
}
[[nodiscard]] inline std::int64_t output_count(const ConvolutionShape& at) {
  return at.batch * at.rows.output * at.columns.output * at.filters;
}
[[nodiscard]] inline std::int64_t kernel_count(const ConvolutionShape& at) {
  return at.rows.window * at.columns.window * at.channels / at.groups * at.filters;
}

}  // namespace meshwork::cpu
