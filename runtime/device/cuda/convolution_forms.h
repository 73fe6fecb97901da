// What cuDNN's form of a convolution needs of others: operands brought into its shape.
#pragma once

#include <cstdint>

#include "runtime/device/convolution_counts.h"
#include "runtime/device/cuda/image_index.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/kernels/convolution.h"

namespace meshwork::cuda {

/// Volumes of one size as part of, or with zeros around, volumes of another: what stands at a place
/// of `from` stands `by` further in `to`.
struct VolumeShift {
  std::int64_t batch, channels;
  VolumeSize from, to, by;

  [[nodiscard]] std::int64_t to_count() const { return batch * to.count() * channels; }
  [[nodiscard]] VolumeShift back() const {
    return {batch, channels, to, from, {-by.planes, -by.rows, -by.columns}};
  }
};

/// How many pixels the windows of one dimension span, padding included.
[[nodiscard]] inline std::int64_t span_of(const WindowDimension& at) {
  return (at.output - 1) * at.stride + (at.window - 1) * at.dilation + 1;
}

/// How cuDNN sees one dimension: `padding` zeros on both sides of `input` pixels, which are those
/// of the image, or of a copy that holds exactly what the windows span.
struct PaddedDimension {
  std::int64_t input, padding;
  bool copied;
};

/// The image itself where the same padding on both sides gives the output's length by cuDNN's
/// formula, floor((input + 2 padding - reach) / stride) + 1 with reach = dilation (window - 1) + 1.
[[nodiscard]] inline PaddedDimension padded(const WindowDimension& at) {
  const std::int64_t reach = (at.window - 1) * at.dilation + 1;
  const std::int64_t room = at.input + 2 * at.padding - reach;
  const bool symmetric =
      at.padding >= 0 && at.padding < reach && room >= 0 && room / at.stride + 1 == at.output;
  if (symmetric) return {at.input, at.padding, false};
  return {span_of(at), 0, true};
}

// convolution_unfolded.cpp: without groups, of shapes that have terms, without bias and activation
KernelPointer compile_unfolded(const ConvolutionSpec& spec, const Context& context);
KernelPointer compile_unfolded(const ConvolutionInputGradientSpec& spec, const Context& context);
KernelPointer compile_unfolded(const ConvolutionKernelGradientSpec& spec, const Context& context);

// convolution_direct.cu: for any shape that has terms, without bias and activation
KernelPointer compile_direct(const ConvolutionSpec& spec, const Context& context);
KernelPointer compile_direct(const ConvolutionInputGradientSpec& spec, const Context& context);
KernelPointer compile_direct(const ConvolutionKernelGradientSpec& spec, const Context& context);

/// matrix (positions of the output, places of the window * channels) = the windows of x, zeros
/// where they lie in padding. Without groups.
void unfold(const Launcher& launcher, const ConvolutionShape& at, const float* x, float* matrix);
/// x = the sums of the matrix's elements over the windows that hold a pixel. Without groups.
void fold(const Launcher& launcher, const ConvolutionShape& at, const float* matrix, float* x);
// With `rounds`, what is written is rounded to bfloat16.

/// to = from, shifted; zeros where `from` has no pixel.
void shift_volumes(const Launcher& launcher, const VolumeShift& shift, const float* from, float* to,
                   bool rounds);
/// to (columns, rows) = transpose(from (rows, columns)).
void transpose(const Launcher& launcher, std::int64_t rows, std::int64_t columns, const float* from,
               float* to, bool rounds);
/// to = from, rounded to bfloat16.
void round_numbers(const Launcher& launcher, std::int64_t count, const float* from, float* to);

}  // namespace meshwork::cuda
