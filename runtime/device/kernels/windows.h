// Windows that slide over images: of convolutions and of pooling.
//
// Images are (batch, rows, columns, channels). One row makes them sequences: Conv1D is Conv2D with
// windows of one row. Shapes are local: where images are split by rows or columns, the operation
// has brought the rank all input that the windows of its output look at, and `padding` says how the
// input that it holds lies against them.
#pragma once

#include <cstdint>
#include <string>

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
};

namespace spec {

/// " by 6x6 stride 2x2 dilation 1x2": how windows slide over rows and columns.
[[nodiscard]] std::string windows(const WindowDimension& rows, const WindowDimension& columns);
/// Throws `Error` for lengths and strides that none has.
void check_windows(const WindowDimension& rows, const WindowDimension& columns,
                   const std::string& kernel);

}  // namespace spec

}  // namespace meshwork
