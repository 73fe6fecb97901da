// Convolutions and pooling in the plainest loops, in double precision: the truth for the operations
// and layers over images. Images are (batch, rows, columns, channels).
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

#include "tests/support/tensor.h"

namespace meshwork::test {

/// One spatial dimension: what Keras calls kernel or pool size, strides, dilation and padding.
struct Along {
  std::int64_t window = 1, stride = 1, dilation = 1;
  bool same = false;

  [[nodiscard]] std::int64_t extent() const { return (window - 1) * dilation + 1; }
  [[nodiscard]] std::int64_t outputs(std::int64_t length) const {
    return same ? (length + stride - 1) / stride : (length - extent()) / stride + 1;
  }
  // "same": total = max((outputs - 1) * stride + extent - length, 0), floor(total / 2) before.
  [[nodiscard]] std::int64_t before(std::int64_t length) const {
    const std::int64_t total = (outputs(length) - 1) * stride + extent() - length;
    return same ? std::max<std::int64_t>(total, 0) / 2 : 0;
  }
};

/// Calls visit(output row, output column, window row, window column, input row, input column) for
/// every place of every window that lies in the image.
inline void for_each_place(
    const Along& down, const Along& across, std::int64_t rows, std::int64_t columns,
    const std::function<void(std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                             std::int64_t)>& visit) {
  for (std::int64_t o = 0; o < down.outputs(rows); ++o) {
    for (std::int64_t p = 0; p < across.outputs(columns); ++p) {
      for (std::int64_t r = 0; r < down.window; ++r) {
        for (std::int64_t s = 0; s < across.window; ++s) {
          const std::int64_t h = o * down.stride - down.before(rows) + r * down.dilation;
          const std::int64_t w = p * across.stride - across.before(columns) + s * across.dilation;
          if (h >= 0 && h < rows && w >= 0 && w < columns) {
            visit(o, p, r, s, h, w);
          }
        }
      }
    }
  }
}

/// The place of an element in a tensor of four dimensions.
inline std::size_t place(const Shape& shape, std::int64_t a, std::int64_t b, std::int64_t c,
                         std::int64_t d) {
  return static_cast<std::size_t>(((a * shape[1] + b) * shape[2] + c) * shape[3] + d);
}

/// x (batch, rows, columns, channels) convolved with kernel (window rows, window columns, channels
/// / groups, filters).
inline Tensor convolved(const Tensor& x, const Tensor& kernel, const Along& down,
                        const Along& across, std::int64_t groups = 1) {
  const std::int64_t channels = x.shape[3] / groups;
  const std::int64_t filters = kernel.shape[3];
  Tensor y({x.shape[0], down.outputs(x.shape[1]), across.outputs(x.shape[2]), filters});
  for_each_place(down, across, x.shape[1], x.shape[2],
                 [&](auto o, auto p, auto r, auto s, auto h, auto w) {
                   for (std::int64_t n = 0; n < x.shape[0]; ++n) {
                     for (std::int64_t f = 0; f < filters; ++f) {
                       const std::int64_t first = f / (filters / groups) * channels;
                       for (std::int64_t c = 0; c < channels; ++c) {
                         y.values[place(y.shape, n, o, p, f)] +=
                             x.values[place(x.shape, n, h, w, first + c)] *
                             kernel.values[place(kernel.shape, r, s, c, f)];
                       }
                     }
                   }
                 });
  return y;
}

/// x (batch, rows, columns, channels) laid with kernel (window rows, window columns, filters,
/// channels) onto an image of `rows` x `columns`, as the gradient of a convolution of that image
/// is.
inline Tensor transposed_convolved(const Tensor& x, const Tensor& kernel, const Along& down,
                                   const Along& across, std::int64_t rows, std::int64_t columns) {
  Tensor y({x.shape[0], rows, columns, kernel.shape[2]});
  for_each_place(down, across, rows, columns, [&](auto o, auto p, auto r, auto s, auto h, auto w) {
    for (std::int64_t n = 0; n < x.shape[0]; ++n) {
      for (std::int64_t f = 0; f < kernel.shape[2]; ++f) {
        for (std::int64_t c = 0; c < x.shape[3]; ++c) {
          y.values[place(y.shape, n, h, w, f)] +=
              x.values[place(x.shape, n, o, p, c)] * kernel.values[place(kernel.shape, r, s, f, c)];
        }
      }
    }
  });
  return y;
}

/// The maximum or the mean of each window, of the elements that are no padding.
inline Tensor pooled(const Tensor& x, const Along& down, const Along& across, bool maximum) {
  Tensor y({x.shape[0], down.outputs(x.shape[1]), across.outputs(x.shape[2]), x.shape[3]});
  Tensor count(y.shape);
  for_each_place(down, across, x.shape[1], x.shape[2],
                 [&](auto o, auto p, auto, auto, auto h, auto w) {
                   for (std::int64_t n = 0; n < x.shape[0]; ++n) {
                     for (std::int64_t c = 0; c < x.shape[3]; ++c) {
                       const std::size_t at = place(y.shape, n, o, p, c);
                       const double value = x.values[place(x.shape, n, h, w, c)];
                       y.values[at] = !maximum                ? y.values[at] + value
                                      : count.values[at] == 0 ? value
                                                              : std::max(y.values[at], value);
                       count.values[at] += 1;
                     }
                   }
                 });
  for (std::size_t at = 0; !maximum && at < y.values.size(); ++at) {
    y.values[at] /= count.values[at];
  }
  return y;
}

}  // namespace meshwork::test
