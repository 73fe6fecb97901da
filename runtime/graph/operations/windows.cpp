#include "runtime/graph/operations/windows.h"

#include <algorithm>

#include "collectives/error.h"

namespace meshwork {
namespace {

std::int64_t floor_divided(std::int64_t a, std::int64_t b) {
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}

std::int64_t ceiling_divided(std::int64_t a, std::int64_t b) {
  return -floor_divided(-a, b);
}

// [begin, end) cut to [0, length).
Range cut(std::int64_t begin, std::int64_t end, std::int64_t length) {
  const std::int64_t first = std::clamp<std::int64_t>(begin, 0, length);
  return {first, std::clamp<std::int64_t>(end, first, length)};
}

}  // namespace

std::string_view name_of(Padding padding) {
  switch (padding) {
    case Padding::valid:
      return "valid";
    case Padding::same:
      return "same";
    case Padding::causal:
      return "causal";
  }
  internal_error("a padding without a name");
}

std::int64_t SlidingWindow::most_places(std::int64_t length) const {
  return bins == 0 ? window : ceiling_divided(length, bins) + (length % bins == 0 ? 0 : 1);
}

std::int64_t SlidingWindow::outputs(std::int64_t length) const {
  if (bins != 0) return bins;
  return padding == Padding::valid ? floor_divided(length - extent(), stride) + 1
                                   : ceiling_divided(length, stride);
}

std::int64_t SlidingWindow::before(std::int64_t length) const {
  if (padding != Padding::same) {
    return padding == Padding::valid ? 0 : extent() - 1;
  }
  return std::max<std::int64_t>((outputs(length) - 1) * stride + extent() - length, 0) / 2;
}

Range SlidingWindow::inputs_of(Range output, std::int64_t length) const {
  if (bins != 0) {
    return {output.begin * length / bins, ceiling_divided(output.end * length, bins)};
  }
  const std::int64_t offset = before(length);
  return cut(output.begin * stride - offset, (output.end - 1) * stride - offset + extent(), length);
}

WindowDimension SlidingWindow::placed(Range input, Range output, std::int64_t length) const {
  if (bins != 0) {
    return {.input = input.length(),
            .output = output.length(),
            .window = most_places(length),
            .padding = input.begin,
            .bins = bins,
            .length = length,
            .first_bin = output.begin};
  }
  return {.input = input.length(),
          .output = output.length(),
          .window = window,
          .stride = stride,
          .dilation = dilation,
          .padding = before(length) + input.begin - output.begin * stride};
}

std::int64_t SlidingWindow::transposed_outputs(std::int64_t length) const {
  return length * stride +
         (padding == Padding::same ? 0 : std::max<std::int64_t>(extent() - stride, 0));
}

Range SlidingWindow::transposed_inputs_of(Range output, std::int64_t length) const {
  const std::int64_t offset = before(transposed_outputs(length));
  return cut(ceiling_divided(output.begin + offset - extent() + 1, stride),
             floor_divided(output.end - 1 + offset, stride) + 1, length);
}

PlacedWindows placed_windows(const std::vector<SlidingWindow>& windows, const Block& x,
                             const Block& y, const Shape& global_x) {
  const std::size_t last = windows.size();
  PlacedWindows at;
  at.batch = y[0].length();
  at.columns = windows[last - 1].placed(x[last], y[last], global_x[last]);
  if (last > 1) {
    at.rows = windows[last - 2].placed(x[last - 1], y[last - 1], global_x[last - 1]);
  }
  if (last > 2) {
    at.planes = windows[0].placed(x[1], y[1], global_x[1]);
  }
  return at;
}

std::string spatial_letters(std::size_t count) {
  return std::string("dhw").substr(3 - count);
}

std::string place_letters(std::size_t count) {
  return std::string("qrs").substr(3 - count);
}

void check_image(const Shape& shape, std::size_t spatial) {
  if (shape.size() != spatial + 2) {
    constexpr const char* expected[] = {
        "sequences of shape (batch, steps, channels)",
        "images of shape (batch, rows, columns, channels)",
        "volumes of shape (batch, planes, rows, columns, channels)"};
    fail("expected {}, found shape {}", expected[spatial - 1], to_string(shape));
  }
}

}  // namespace meshwork
