// The forms of convolution on the CPU; convolution.cpp says when which is taken.
#pragma once

#include <cstdint>

#include "runtime/device/convolution_counts.h"
#include "runtime/device/cpu/kernels.h"
#include "runtime/device/kernels/convolution.h"

namespace meshwork::cpu {

/// How a primitive wants images: as they lie in memory, or blocked.
enum class ImageFormat : std::uint8_t { channels_last, blocked };

/// oneDNN's primitive; null where it has nothing better than the unfolded form, and where it wants
/// blocked images to be as they lie. Without activation. In bfloat16 only for processors that use
/// instructions for it (bfloat16_instructions.h).
/// Throws dnnl::error, with dnnl_unimplemented where it has nothing at all.
KernelPointer compile_native(const ConvolutionSpec& spec, ImageFormat format);
KernelPointer compile_native(const ConvolutionInputGradientSpec& spec, ImageFormat format);
KernelPointer compile_native(const ConvolutionKernelGradientSpec& spec, ImageFormat format);

/// Windows as rows of a matrix, for any shape that has terms. Without bias and activation, and in
/// float32.
KernelPointer compile_unfolded(const ConvolutionSpec& spec, const Context& context);
KernelPointer compile_unfolded(const ConvolutionInputGradientSpec& spec, const Context& context);
KernelPointer compile_unfolded(const ConvolutionKernelGradientSpec& spec, const Context& context);

}  // namespace meshwork::cpu
