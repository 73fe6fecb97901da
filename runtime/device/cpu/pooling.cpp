// Maximum and average pooling, on images with channels last.
//
// A window is cut to what lies inside of the input; its places are then visited in order, all
// channels of one at a time. Maximum pooling notes which place won, a byte an element, so that the
// gradient reads bytes in place of the images. Gradients are added window by window, an image on
// one thread. Bound by memory traffic where images are large; of windows of two by two it is the
// work of each window that costs: 64x28x28x24 forward 0.69 ms, or 8.7 GB/s, its gradient 1.3 ms;
// averages 0.55 and 0.76 (one Cascade Lake core at 2.5 GHz on a busy machine, fastest runs).
#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "runtime/device/cpu/loops.h"
#include "runtime/device/kernels/pooling.h"
#include "runtime/device/window_places.h"

namespace meshwork::cpu {

namespace {

using Places = WindowPlaces;

/// visit(offset of the place's first channel in an image, place) in row-major order.
template <class Visit>
void for_places(const PoolingShape& at, const Places& rows, const Places& columns,
                const Visit& visit) {
  for (std::int64_t r = rows.first; r < rows.last; ++r) {
    const std::int64_t row = (rows.start + r * at.rows.dilation) * at.columns.input;
    for (std::int64_t s = columns.first; s < columns.last; ++s) {
      visit((row + columns.start + s * at.columns.dilation) * at.channels,
            r * at.columns.window + s);
    }
  }
}

std::int64_t image_count(const PoolingShape& at) {
  return at.rows.input * at.columns.input * at.channels;
}

/// body(offset of the image in x, offset of the position in y, its places) for each position of the
/// output, rows of it shared out among threads.
template <class Body>
void for_positions(int threads, const PoolingShape& at, std::int64_t bytes, const Body& body) {
  for_rows(threads, at.batch * at.rows.output, at.columns.output * at.channels * bytes,
           [&](std::int64_t row) {
             const std::int64_t image = row / at.rows.output * image_count(at);
             const Places rows(at.rows, row % at.rows.output);
             for (std::int64_t column = 0; column < at.columns.output; ++column) {
               body(image, (row * at.columns.output + column) * at.channels, rows,
                    Places(at.columns, column));
             }
           });
}

/// The same for gradients: images shared out, dx of an image zero before its positions come.
template <class Body>
void for_gradients(int threads, const PoolingShape& at, float* dx, const Body& body) {
  for_rows(threads, at.batch, image_count(at) * 8, [&](std::int64_t n) {
    float* image = dx + n * image_count(at);
    std::fill_n(image, image_count(at), 0.0f);
    for (std::int64_t row = 0; row < at.rows.output; ++row) {
      const Places rows(at.rows, row);
      for (std::int64_t column = 0; column < at.columns.output; ++column) {
        body(image, ((n * at.rows.output + row) * at.columns.output + column) * at.channels, rows,
             Places(at.columns, column));
      }
    }
  });
}

template <class T, int width>
using Lanes [[gnu::vector_size(width * sizeof(T))]] = T;

/// The maximum of `width` channels from `c` on over the places of one window, all in registers.
template <class Winner, bool winners, int width>
[[gnu::always_inline]] inline void maximum_of(const PoolingShape& at, const Places& rows,
                                              const Places& columns, const float* x, float* y,
                                              Winner* w) {
  Lanes<float, width> best = Lanes<float, width>{} - std::numeric_limits<float>::infinity();
  // Where all are -infinity the first place wins.
  Lanes<std::int32_t, width> winner =
      Lanes<std::int32_t, width>{} +
      static_cast<std::int32_t>(rows.first * at.columns.window + columns.first);
  for_places(at, rows, columns, [&](std::int64_t offset, std::int64_t place) {
    Lanes<float, width> value;
    std::memcpy(&value, x + offset, sizeof(value));
    // The first NaN is taken, and stays, as nothing is greater than it.
    const auto better = (value > best) | ((value != value) & (best == best));
    best = better ? value : best;
    if constexpr (winners) {
      winner = better ? Lanes<std::int32_t, width>{} + static_cast<std::int32_t>(place) : winner;
    }
  });
  std::memcpy(y, &best, sizeof(best));
  if constexpr (winners) {
    const auto narrow = __builtin_convertvector(winner, Lanes<Winner, width>);
    std::memcpy(w, &narrow, sizeof(narrow));
  }
}

template <class Winner, bool winners>
KernelPointer maximum(const PoolingShape& at, const Context& context) {
  return make_kernel([=, threads = context.threads](void* const* operands) {
    const float* x = meshwork::at(operands, 0);
    float* y = meshwork::at(operands, 1);
    Winner* w = winners ? meshwork::at<Winner>(operands, 2) : nullptr;
    for_positions(
        threads, at, 4 * at.rows.window * at.columns.window,
        [=](std::int64_t image, std::int64_t position, const Places& rows, const Places& columns) {
          const float* from = x + image;
          float* to = y + position;
          Winner* won = winners ? w + position : nullptr;
          std::int64_t c = 0;
          for (; c + 8 <= at.channels; c += 8) {
            maximum_of<Winner, winners, 8>(at, rows, columns, from + c, to + c,
                                           winners ? won + c : nullptr);
          }
          for (; c < at.channels; ++c) {
            maximum_of<Winner, winners, 1>(at, rows, columns, from + c, to + c,
                                           winners ? won + c : nullptr);
          }
        });
  });
}

template <class Winner>
KernelPointer maximum_gradient(const PoolingShape& at, const Context& context) {
  return make_kernel([=, threads = context.threads](void* const* operands) {
    const Winner* w = meshwork::at<const Winner>(operands, 0);
    const float* dy = meshwork::at(operands, 1);
    for_gradients(
        threads, at, meshwork::at(operands, 2),
        [=](float* image, std::int64_t position, const Places& rows, const Places& columns) {
          const Winner* winner = w + position;
          const float* gradient = dy + position;
          // Small windows place by place in vectors, large ones channel by channel.
          if (rows.count() * columns.count() <= 16) {
            for_places(at, rows, columns, [&](std::int64_t offset, std::int64_t place) {
              float* to = image + offset;
              const auto number = static_cast<Winner>(place);
#pragma omp simd
              for (std::int64_t c = 0; c < at.channels; ++c) {
                to[c] += winner[c] == number ? gradient[c] : 0.0f;
              }
            });
            return;
          }
          for (std::int64_t c = 0; c < at.channels; ++c) {
            const std::int64_t r = winner[c] / at.columns.window, s = winner[c] % at.columns.window;
            image[((rows.start + r * at.rows.dilation) * at.columns.input + columns.start +
                   s * at.columns.dilation) *
                      at.channels +
                  c] += gradient[c];
          }
        });
  });
}

KernelPointer compile(const MaximumPoolingSpec& spec, const Context& context) {
  if (!spec.winners) return maximum<std::int32_t, false>(spec.at, context);
  return winner_type(spec.at) == ElementType::uint8 ? maximum<std::uint8_t, true>(spec.at, context)
                                                    : maximum<std::int32_t, true>(spec.at, context);
}

KernelPointer compile(const MaximumPoolingGradientSpec& spec, const Context& context) {
  return winner_type(spec.at) == ElementType::uint8
             ? maximum_gradient<std::uint8_t>(spec.at, context)
             : maximum_gradient<std::int32_t>(spec.at, context);
}

KernelPointer compile(const AveragePoolingSpec& spec, const Context& context) {
  const PoolingShape at = spec.at;
  return make_kernel([=, threads = context.threads](void* const* operands) {
    const float* x = meshwork::at(operands, 0);
    float* y = meshwork::at(operands, 1);
    for_positions(
        threads, at, 4 * at.rows.window * at.columns.window,
        [=](std::int64_t image, std::int64_t position, const Places& rows, const Places& columns) {
          const std::int64_t count = rows.count() * columns.count();
          const float share = count > 0 ? 1.0f / static_cast<float>(count) : 0.0f;
          constexpr std::int64_t tile = 64;
          for (std::int64_t c = 0; c < at.channels; c += tile) {
            const std::int64_t channels = std::min(tile, at.channels - c);
            float sums[tile] = {};
            for_places(at, rows, columns, [&](std::int64_t offset, std::int64_t) {
              const float* from = x + image + offset + c;
#pragma omp simd
              for (std::int64_t j = 0; j < channels; ++j) sums[j] += from[j];
            });
            float* to = y + position + c;
            for (std::int64_t j = 0; j < channels; ++j) to[j] = sums[j] * share;
          }
        });
  });
}

KernelPointer compile(const AveragePoolingGradientSpec& spec, const Context& context) {
  const PoolingShape at = spec.at;
  return make_kernel([=, threads = context.threads](void* const* operands) {
    const float* dy = meshwork::at(operands, 0);
    for_gradients(
        threads, at, meshwork::at(operands, 1),
        [=](float* image, std::int64_t position, const Places& rows, const Places& columns) {
          const float* gradient = dy + position;
          const float share = 1.0f / static_cast<float>(rows.count() * columns.count());
          for_places(at, rows, columns, [&](std::int64_t offset, std::int64_t) {
            float* to = image + offset;
#pragma omp simd
            for (std::int64_t c = 0; c < at.channels; ++c) to[c] += gradient[c] * share;
          });
        });
  });
}

}  // namespace

void add_pooling(Kernels& kernels) {
  kernels.add<MaximumPoolingSpec, MaximumPoolingGradientSpec, AveragePoolingSpec,
              AveragePoolingGradientSpec>(
      [](const auto& spec, const Context& context) { return compile(spec, context); });
}

}  // namespace meshwork::cpu
