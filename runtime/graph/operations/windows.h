// Windows that slide over one dimension of an image: convolutions and pooling, of any number of
// spatial dimensions up to three.
//
// Place k of the window of output o lies at input  o * stride - before + k * dilation.  What lies
// outside the input is padding. Keras's padding: "valid" has none; "same" gives ceil(length /
// stride) outputs and pads max((outputs - 1) * stride + extent - length, 0) elements, floor(half)
// before and the odd one behind (tensorflow.org/api_docs/python/tf/nn, notes on padding); "causal"
// gives as many and pads extent - 1 elements, all of them before, so that no output looks ahead.
// All follow from the *global* length, so that a part of an image is never padded at a border with
// another rank: `placed` turns global ranges into the local numbers of a kernel.
//
// Bins, of adaptive pooling, are windows too: a given number of them, over the whole input, each
// as long as the input's length wants it. The window of output o of `bins` is
//   [floor(o * length / bins), ceil((o + 1) * length / bins)).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/device/kernels/windows.h"
#include "runtime/shape/block.h"
#include "runtime/shape/partition.h"

namespace meshwork {

enum class Padding : std::uint8_t { valid, same, causal };

/// "valid", "same", "causal".
[[nodiscard]] std::string_view name_of(Padding padding);

/// How a window slides over one dimension.
struct SlidingWindow {
  std::int64_t window = 1, stride = 1, dilation = 1;
  Padding padding = Padding::valid;
  std::int64_t bins = 0;  // if not 0: how many there are, and nothing slides

  /// From the first place of a window to the last, both included.
  [[nodiscard]] std::int64_t extent() const { return dilation * (window - 1) + 1; }

  /// The most places that a window has on an input of `length`.
  [[nodiscard]] std::int64_t most_places(std::int64_t length) const;
  /// Outputs over an input of `length`; not positive if no window fits.
  [[nodiscard]] std::int64_t outputs(std::int64_t length) const;
  /// Padding before an input of `length`.
  [[nodiscard]] std::int64_t before(std::int64_t length) const;
  /// Which of `length` inputs the windows of outputs `output` look at: one range with all of them.
  [[nodiscard]] Range inputs_of(Range output, std::int64_t length) const;
  /// The windows of outputs `output` of an input of `length`, over its part `input`, for a kernel.
  [[nodiscard]] WindowDimension placed(Range input, Range output, std::int64_t length) const;

  // The same windows looked through from the other side, as a transposed convolution does: `length`
  // is that of what the windows write to each other from.

  /// Length of the image onto which the windows of `length` elements are laid.
  [[nodiscard]] std::int64_t transposed_outputs(std::int64_t length) const;
  /// Which of `length` elements lay their windows onto `output`: one range with all of them.
  [[nodiscard]] Range transposed_inputs_of(Range output, std::int64_t length) const;
};

/// Windows over the dimensions of volumes, as kernels have them: those that images and sequences
/// lack are absent.
struct PlacedWindows {
  std::int64_t batch = 0;
  WindowDimension planes, rows, columns;
};
/// One to three `windows` that give block `y` of the output from block `x` of images of shape
/// `global_x`.
[[nodiscard]] PlacedWindows placed_windows(const std::vector<SlidingWindow>& windows,
                                           const Block& x, const Block& y, const Shape& global_x);

/// Letters of the spatial dimensions of an image with `count` of them: "w", "hw" or "dhw".
[[nodiscard]] std::string spatial_letters(std::size_t count);

/// Letters of the places of its window: "s", "rs" or "qrs".
[[nodiscard]] std::string place_letters(std::size_t count);

/// Throws `Error` unless `shape` is that of a batch of images with `spatial` dimensions between
/// batch and channels, at most 3: "expected images of shape (batch, rows, columns, channels), found ...".
void check_image(const Shape& shape, std::size_t spatial);

}  // namespace meshwork
