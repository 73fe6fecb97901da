// Windows that slide over volumes, images and sequences: of convolutions and of pooling.
//
// Volumes are (batch, planes, rows, columns, channels). Images are volumes of one plane, sequences
// images of one row: what samples lack is an *absent* dimension. Shapes are local: where samples
// are split, the operation has brought the rank all input that the windows of its output look at,
// and `padding` says how the input that it holds lies against them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace meshwork {

/// One spatial dimension over which windows slide. Place k of the window of output o lies at input
///   o * stride - padding + k * dilation,   0 <= k < window;
/// what is outside [0, input) is padding. What pads behind the input follows from the lengths. A
/// negative `padding` means that the first -padding inputs are not looked at, and the last ones may
/// be none's too. A window may lie in padding altogether.
///
/// Or, of pooling, where `bins` is not 0: `length` inputs lie in so many bins, and the window of
/// output o is bin first_bin + o. Bin i is [floor(i length / bins), ceil((i + 1) length / bins)),
/// less `padding`; `window` is no less than the longest one.
struct WindowDimension {
  std::int64_t input = 1, output = 1;
  std::int64_t window = 1, stride = 1, dilation = 1;
  std::int64_t padding = 0;
  std::int64_t bins = 0, length = 0, first_bin = 0;

  /// One element, looked at as it is.
  [[nodiscard]] bool is_absent() const { return *this == WindowDimension{}; }
  bool operator==(const WindowDimension&) const = default;
};

/// The dimensions over which the windows of `at`, a convolution or a pooling, slide: rows and
/// columns, and planes before them unless those are absent.
template <class Shape>
[[nodiscard]] std::vector<WindowDimension> dimensions_of(const Shape& at) {
  if (at.planes.is_absent()) return {at.rows, at.columns};
  return {at.planes, at.rows, at.columns};
}

namespace spec {

using Windows = std::span<const WindowDimension>;

/// "28x28": one of the lengths of each dimension.
[[nodiscard]] std::string lengths(Windows windows, std::int64_t WindowDimension::*length);
/// " by 6x6 stride 2x2 dilation 1x2": how windows slide.
[[nodiscard]] std::string windows(Windows windows);
/// Throws `Error` for lengths and strides that none has.
void check_windows(Windows windows, const std::string& kernel);

}  // namespace spec

}  // namespace meshwork
