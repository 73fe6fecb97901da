// Maximum and average pooling, on images and volumes with channels last.
//
// A window is cut to what lies inside of the input; its places are then visited in order, all
// channels of one at a time. Maximum pooling notes which place won, a byte an element, so that the
// gradient reads bytes in place of the images. Gradients are added window by window, to rows that
// were just cleared where windows do not overlap, else a sample on one thread. Bound by memory
// traffic where images are large; of windows of two by two it is the work of each window that
// costs: 64x28x28x24 forward 0.69 ms, or 8.7 GB/s, its gradient 1.3 ms; averages 0.55 and 0.76
// (one Cascade Lake core at 2.5 GHz on a busy machine, fastest runs). Maxima are of sixteen
// channels at a time, a cache line: of eight, 4x64x64x64x32 by 2x2x2 took 18.2 ms in place of 9.4,
// and the images 0.53 in place of 0.37 (one Zen 4 core, likewise).
#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "runtime/device/cpu/loops.h"
#include "runtime/device/kernels/pooling.h"
#include "runtime/device/window_places.h"

namespace meshwork::cpu {

namespace {

/// The places of one position's window that are no padding.
struct PooledPlaces {
  WindowPlaces planes, rows, columns;
  [[nodiscard]] std::int64_t count() const {
    return planes.count() * rows.count() * columns.count();
  }
};

/// The number of a window's place, row-major.
std::int64_t number_of(const PoolingShape& at, std::int64_t q, std::int64_t r, std::int64_t s) {
  return (q * at.rows.window + r) * at.columns.window + s;
}

/// visit(offset of the place's first channel in a sample, place) in row-major order.
template <class Visit>
void for_places(const PoolingShape& at, const PooledPlaces& places, const Visit& visit) {
  for (std::int64_t q = places.planes.first; q < places.planes.last; ++q) {
    const std::int64_t plane = (places.planes.start + q * at.planes.dilation) * at.rows.input;
    for (std::int64_t r = places.rows.first; r < places.rows.last; ++r) {
      const std::int64_t row =
          (plane + places.rows.start + r * at.rows.dilation) * at.columns.input;
      for (std::int64_t s = places.columns.first; s < places.columns.last; ++s) {
        visit((row + places.columns.start + s * at.columns.dilation) * at.channels,
              number_of(at, q, r, s));
      }
    }
  }
}

std::int64_t sample_count(const PoolingShape& at) {
  return at.planes.input * at.rows.input * at.columns.input * at.channels;
}
/// Lines of the output of one sample: the rows of all its planes.
std::int64_t line_count(const PoolingShape& at) {
  return at.planes.output * at.rows.output;
}

/// body(sample, position, places) for each position of a line of the output, counted through all
/// samples: offsets of the sample in x and of the position in y.
template <class Body>
void for_line(const PoolingShape& at, std::int64_t line, const Body& body) {
  const std::int64_t sample = line / line_count(at) * sample_count(at);
  const WindowPlaces planes(at.planes, line % line_count(at) / at.rows.output);
  const WindowPlaces rows(at.rows, line % at.rows.output);
  for (std::int64_t column = 0; column < at.columns.output; ++column) {
    body(sample, (line * at.columns.output + column) * at.channels,
         PooledPlaces{planes, rows, WindowPlaces(at.columns, column)});
  }
}

/// The same for all lines, which threads share out.
template <class Body>
void for_positions(int threads, const PoolingShape& at, std::int64_t bytes, const Body& body) {
  for_rows(threads, at.batch * line_count(at), at.columns.output * at.channels * bytes,
           [&](std::int64_t line) { for_line(at, line, body); });
}

bool windows_overlap(const WindowDimension& at) {
  return at.bins != 0 || at.stride < at.dilation * (at.window - 1) + 1;
}

/// Where windows do not overlap: the inputs that only the window of `output` may look at, and those
/// that none does up to the next one.
Range inputs_of(const WindowDimension& at, std::int64_t output) {
  const auto begin = [&](std::int64_t o) {
    return std::clamp<std::int64_t>(o * at.stride - at.padding, 0, at.input);
  };
  return {output == 0 ? 0 : begin(output), output + 1 == at.output ? at.input : begin(output + 1)};
}

/// The same for gradients: dx is zero before its positions come. Lines are shared out if no two of
/// them write to the same row, and samples else.
template <class Body>
void for_gradients(int threads, const PoolingShape& at, float* dx, const Body& body) {
  const std::int64_t lines = line_count(at), row = at.columns.input * at.channels;
  const auto add_line = [&](std::int64_t line) {
    for_line(at, line, [&](std::int64_t sample, std::int64_t position, const PooledPlaces& places) {
      body(dx + sample, position, places);
    });
  };
  if (lines > 0 && !windows_overlap(at.planes) && !windows_overlap(at.rows)) {
    for_rows(threads, at.batch * lines, sample_count(at) / lines * 8, [&](std::int64_t line) {
      const Range planes = inputs_of(at.planes, line % lines / at.rows.output);
      const Range rows = inputs_of(at.rows, line % at.rows.output);
      float* sample = dx + line / lines * sample_count(at);
      for (std::int64_t plane = planes.begin; plane < planes.end; ++plane) {
        std::fill_n(sample + (plane * at.rows.input + rows.begin) * row, rows.length() * row, 0.0f);
      }
      add_line(line);
    });
    return;
  }
  for_rows(threads, at.batch, sample_count(at) * 8, [&](std::int64_t n) {
    std::fill_n(dx + n * sample_count(at), sample_count(at), 0.0f);
    for (std::int64_t line = 0; line < lines; ++line) add_line(n * lines + line);
  });
}

template <class T, int width>
using Lanes [[gnu::vector_size(width * sizeof(T))]] = T;

/// The maximum of `width` channels from `c` on over the places of one window, all in registers.
template <class Winner, bool winners, int width>
[[gnu::always_inline]] inline void maximum_of(const PoolingShape& at, const PooledPlaces& places,
                                              const float* x, float* y, Winner* w) {
  Lanes<float, width> best = Lanes<float, width>{} - std::numeric_limits<float>::infinity();
  // Where all are -infinity the first place wins.
  Lanes<std::int32_t, width> winner =
      Lanes<std::int32_t, width>{} +
      static_cast<std::int32_t>(
          number_of(at, places.planes.first, places.rows.first, places.columns.first));
  for_places(at, places, [&](std::int64_t offset, std::int64_t place) {
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
    for_positions(threads, at, 4 * window_places(at),
                  [=](std::int64_t sample, std::int64_t position, const PooledPlaces& places) {
                    const float* from = x + sample;
                    float* to = y + position;
                    Winner* won = winners ? w + position : nullptr;
                    std::int64_t c = 0;
                    for (; c + 16 <= at.channels; c += 16) {
                      maximum_of<Winner, winners, 16>(at, places, from + c, to + c,
                                                      winners ? won + c : nullptr);
                    }
                    for (; c + 8 <= at.channels; c += 8) {
                      maximum_of<Winner, winners, 8>(at, places, from + c, to + c,
                                                     winners ? won + c : nullptr);
                    }
                    for (; c < at.channels; ++c) {
                      maximum_of<Winner, winners, 1>(at, places, from + c, to + c,
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
        [=](float* sample, std::int64_t position, const PooledPlaces& places) {
          const Winner* winner = w + position;
          const float* gradient = dy + position;
          // Small windows place by place in vectors, large ones channel by channel.
          if (places.count() <= 16) {
            for_places(at, places, [&](std::int64_t offset, std::int64_t place) {
              float* to = sample + offset;
              const auto number = static_cast<Winner>(place);
#pragma omp simd
              for (std::int64_t c = 0; c < at.channels; ++c) {
                to[c] += winner[c] == number ? gradient[c] : 0.0f;
              }
            });
            return;
          }
          for (std::int64_t c = 0; c < at.channels; ++c) {
            const std::int64_t s = winner[c] % at.columns.window,
                               line = winner[c] / at.columns.window;
            const std::int64_t r = line % at.rows.window, q = line / at.rows.window;
            const std::int64_t plane = places.planes.start + q * at.planes.dilation;
            const std::int64_t row = places.rows.start + r * at.rows.dilation;
            const std::int64_t column = places.columns.start + s * at.columns.dilation;
            sample[((plane * at.rows.input + row) * at.columns.input + column) * at.channels + c] +=
                gradient[c];
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
    for_positions(threads, at, 4 * window_places(at),
                  [=](std::int64_t sample, std::int64_t position, const PooledPlaces& places) {
                    const std::int64_t count = places.count();
                    const float share = count > 0 ? 1.0f / static_cast<float>(count) : 0.0f;
                    constexpr std::int64_t tile = 64;
                    for (std::int64_t c = 0; c < at.channels; c += tile) {
                      const std::int64_t channels = std::min(tile, at.channels - c);
                      float sums[tile] = {};
                      for_places(at, places, [&](std::int64_t offset, std::int64_t) {
                        const float* from = x + sample + offset + c;
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
    for_gradients(threads, at, meshwork::at(operands, 1),
                  [=](float* sample, std::int64_t position, const PooledPlaces& places) {
                    const float* gradient = dy + position;
                    const float share = 1.0f / static_cast<float>(places.count());
                    for_places(at, places, [&](std::int64_t offset, std::int64_t) {
                      float* to = sample + offset;
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
