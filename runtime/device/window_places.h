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
      : WindowPlaces(at, start_of(at, output), size_of(at, output)) {}
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t count() const { return last - first; }

 private:
  // The window has `window` places.
  MESHWORK_HOST_DEVICE WindowPlaces(const WindowDimension& at, std::int64_t of_start,
                                    std::int64_t window)
      : start(of_start),
        first(start >= 0 ? 0 : (-start + at.dilation - 1) / at.dilation),
        last(start >= at.input ? 0 : (at.input - start + at.dilation - 1) / at.dilation) {
    if (first > window) first = window;
    if (last > window) last = window;
    if (last < first) last = first;
  }
  MESHWORK_HOST_DEVICE static std::int64_t start_of(const WindowDimension& at,
                                                    std::int64_t output) {
    return at.bins == 0 ? output * at.stride - at.padding
                        : (at.first_bin + output) * at.length / at.bins - at.padding;
  }
  MESHWORK_HOST_DEVICE static std::int64_t size_of(const WindowDimension& at, std::int64_t output) {
    if (at.bins == 0) return at.window;
    const std::int64_t bin = at.first_bin + output;
    return ((bin + 1) * at.length + at.bins - 1) / at.bins - bin * at.length / at.bins;
  }
};

/// The input at place `place` of the window of `output`; -1 for padding.
[[nodiscard]] MESHWORK_HOST_DEVICE inline std::int64_t input_at(const WindowDimension& at,
                                                                std::int64_t output,
                                                                std::int64_t place) {
  const std::int64_t input = output * at.stride - at.padding + place * at.dilation;
  return input >= 0 && input < at.input ? input : -1;
}

/// The output whose window has its place `place` at `input`; -1 for none.
[[nodiscard]] MESHWORK_HOST_DEVICE inline std::int64_t output_at(const WindowDimension& at,
                                                                 std::int64_t input,
                                                                 std::int64_t place) {
  const std::int64_t start = input + at.padding - place * at.dilation;
  if (start < 0 || start % at.stride != 0) return -1;
  const std::int64_t output = start / at.stride;
  return output < at.output ? output : -1;
}

/// visit(output, place) for each output whose window has a place at `input`.
template <class Visit>
MESHWORK_HOST_DEVICE void for_windows_at(const WindowDimension& at, std::int64_t input,
                                         const Visit& visit) {
  if (at.bins == 0) {
    for (std::int64_t place = 0; place < at.window; ++place) {
      const std::int64_t output = output_at(at, input, place);
      if (output >= 0) visit(output, place);
    }
    return;
  }
  // Bin i has input j if i length / bins < j + 1 and (i + 1) length / bins > j.
  const std::int64_t whole = input + at.padding;
  const std::int64_t begin = whole * at.bins / at.length - at.first_bin;
  const std::int64_t end = ((whole + 1) * at.bins + at.length - 1) / at.length - at.first_bin;
  for (std::int64_t output = begin < 0 ? 0 : begin; output < end && output < at.output; ++output) {
    visit(output, whole - (at.first_bin + output) * at.length / at.bins);
  }
}

}  // namespace meshwork
