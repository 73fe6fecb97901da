// The places of one window that lie inside of the input; the rest of the window is padding.
#pragma once

#include <cstdint>

#include "runtime/device/host_device.h"
#include "runtime/device/kernels/windows.h"

namespace meshwork {

/// Of the window of one output: places [first, last), place k at input `start` + k * dilation.
struct WindowPlaces {
  std::int64_t start, first, last;

  MESHWORK_HOST_DEVICE WindowPlaces(const WindowDimension& at, std::int64_t output)
      : start(output * at.stride - at.padding),
        first(start >= 0 ? 0 : (-start + at.dilation - 1) / at.dilation),
        last(start >= at.input ? 0 : (at.input - start + at.dilation - 1) / at.dilation) {
    if (first > at.window) first = at.window;
    if (last > at.window) last = at.window;
    if (last < first) last = first;
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t count() const { return last - first; }
};

/// The output whose window has its place `place` at `input`; -1 for none.
[[nodiscard]] MESHWORK_HOST_DEVICE inline std::int64_t output_at(const WindowDimension& at,
                                                                 std::int64_t input,
                                                                 std::int64_t place) {
  const std::int64_t start = input + at.padding - place * at.dilation;
  if (start < 0 || start % at.stride != 0) return -1;
  const std::int64_t output = start / at.stride;
  return output < at.output ? output : -1;
}

}  // namespace meshwork
