// Where an element of an image or a volume stands, of its offset, channels last.
#pragma once

#include <cstdint>

#include "runtime/device/host_device.h"
#include "runtime/device/window_places.h"

namespace meshwork::cuda {

struct ImageIndex {
  std::int64_t image, row, column, channel;
};

[[nodiscard]] MESHWORK_HOST_DEVICE inline ImageIndex image_index(std::int64_t offset,
                                                                 std::int64_t rows,
                                                                 std::int64_t columns,
                                                                 std::int64_t channels) {
  const std::int64_t pixel = offset / channels, line = pixel / columns;
  return {line / rows, line % rows, pixel % columns, offset % channels};
}

struct VolumePlace {
  std::int64_t sample, plane, row, column;
};

/// How large the volumes of a batch are, or windows over them.
struct VolumeSize {
  std::int64_t planes, rows, columns;

  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t count() const { return planes * rows * columns; }
  /// The places counted through all volumes, row-major.
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t number(const VolumePlace& at) const {
    return ((at.sample * planes + at.plane) * rows + at.row) * columns + at.column;
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE VolumePlace place(std::int64_t number) const {
    const std::int64_t line = number / columns, plane = line / rows;
    return {plane / planes, plane % planes, line % rows, number % columns};
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE bool holds(const VolumePlace& at) const {
    return at.plane >= 0 && at.plane < planes && at.row >= 0 && at.row < rows && at.column >= 0 &&
           at.column < columns;
  }
};

// Of a convolution or a pooling.

template <class Shape>
[[nodiscard]] MESHWORK_HOST_DEVICE VolumeSize input_size(const Shape& at) {
  return {at.planes.input, at.rows.input, at.columns.input};
}
template <class Shape>
[[nodiscard]] MESHWORK_HOST_DEVICE VolumeSize output_size(const Shape& at) {
  return {at.planes.output, at.rows.output, at.columns.output};
}
template <class Shape>
[[nodiscard]] MESHWORK_HOST_DEVICE VolumeSize window_size(const Shape& at) {
  return {at.planes.window, at.rows.window, at.columns.window};
}

/// The input at place number `place` of the window of `output`; outside the volume in padding.
template <class Shape>
[[nodiscard]] MESHWORK_HOST_DEVICE VolumePlace input_of(const Shape& at, const VolumePlace& output,
                                                        std::int64_t place) {
  const VolumePlace of = window_size(at).place(place);
  return {output.sample, input_at(at.planes, output.plane, of.plane),
          input_at(at.rows, output.row, of.row), input_at(at.columns, output.column, of.column)};
}

/// visit(input, place) for the places of the window of `output` that are no padding: the number of
/// the input among all and that of the place in the window, in order.
template <class Shape, class Visit>
MESHWORK_HOST_DEVICE void for_places(const Shape& at, const VolumePlace& output,
                                     const Visit& visit) {
  const WindowPlaces planes(at.planes, output.plane), rows(at.rows, output.row),
      columns(at.columns, output.column);
  for (std::int64_t q = planes.first; q < planes.last; ++q) {
    for (std::int64_t r = rows.first; r < rows.last; ++r) {
      for (std::int64_t s = columns.first; s < columns.last; ++s) {
        visit(input_size(at).number({output.sample, planes.start + q * at.planes.dilation,
                                     rows.start + r * at.rows.dilation,
                                     columns.start + s * at.columns.dilation}),
              window_size(at).number({0, q, r, s}));
      }
    }
  }
}

/// visit(output, place) for the windows that hold `input`, with the place that it has there.
template <class Shape, class Visit>
MESHWORK_HOST_DEVICE void for_windows(const Shape& at, const VolumePlace& input,
                                      const Visit& visit) {
  for_windows_at(at.planes, input.plane, [&](std::int64_t plane, std::int64_t q) {
    for_windows_at(at.rows, input.row, [&](std::int64_t row, std::int64_t r) {
      for_windows_at(at.columns, input.column, [&](std::int64_t column, std::int64_t s) {
        visit(VolumePlace{input.sample, plane, row, column}, window_size(at).number({0, q, r, s}));
      });
    });
  });
}

}  // namespace meshwork::cuda
