// Maximum and average pooling, on images with channels last.
//
// A thread an element of the result. Gradients gather: an element of dx adds up, in the order of
// the window's places, the windows that hold it, so that nothing is added by two threads.
// Neighbouring threads are neighbouring channels. Bound by memory traffic; windows that overlap are
// read from cache.
#include <limits>

#include "runtime/device/body_kernel.h"
#include "runtime/device/cuda/functions.h"
#include "runtime/device/cuda/image_index.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/launch.h"
#include "runtime/device/kernels/pooling.h"
#include "runtime/device/window_places.h"

namespace meshwork::cuda {

namespace {

[[nodiscard]] std::int64_t input_count(const PoolingShape& at) {
  return at.batch * at.rows.input * at.columns.input * at.channels;
}
[[nodiscard]] std::int64_t output_count(const PoolingShape& at) {
  return at.batch * at.rows.output * at.columns.output * at.channels;
}

/// Offset of channel 0 of the input (row, column) of an image.
[[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t input_offset(const PoolingShape& at,
                                                             std::int64_t image, std::int64_t row,
                                                             std::int64_t column) {
  return ((image * at.rows.input + row) * at.columns.input + column) * at.channels;
}
[[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t output_offset(const PoolingShape& at,
                                                              std::int64_t image, std::int64_t row,
                                                              std::int64_t column) {
  return ((image * at.rows.output + row) * at.columns.output + column) * at.channels;
}

template <class Winner>
struct Maximum {
  PoolingShape at;
  const float* x;
  float* y;
  Winner* w;  // null if nobody asks
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    const ImageIndex index = image_index(i, at.rows.output, at.columns.output, at.channels);
    const WindowPlaces rows(at.rows, index.row), columns(at.columns, index.column);
    float best = -std::numeric_limits<float>::infinity();
    // Where all are -infinity the first place wins.
    std::int64_t winner = rows.first * at.columns.window + columns.first;
    for (std::int64_t r = rows.first; r < rows.last; ++r) {
      for (std::int64_t s = columns.first; s < columns.last; ++s) {
        const float value = x[input_offset(at, index.image, rows.start + r * at.rows.dilation,
                                           columns.start + s * at.columns.dilation) +
                              index.channel];
        // The first NaN is taken, and stays.
        if (value > best || (is_nan(value) && !is_nan(best))) {
          best = value;
          winner = r * at.columns.window + s;
        }
      }
    }
    y[i] = best;
    if (w != nullptr) w[i] = static_cast<Winner>(winner);
  }
};

/// sum of gradient(output offset, place) over the windows that hold element `i` of dx.
template <class Gradient>
[[nodiscard]] MESHWORK_HOST_DEVICE float gathered(const PoolingShape& at, std::int64_t i,
                                                  const Gradient& gradient) {
  const ImageIndex index = image_index(i, at.rows.input, at.columns.input, at.channels);
  float sum = 0;
  for_windows_at(at.rows, index.row, [&](std::int64_t row, std::int64_t r) {
    for_windows_at(at.columns, index.column, [&](std::int64_t column, std::int64_t s) {
      sum += gradient.of(row, column, output_offset(at, index.image, row, column) + index.channel,
                         r * at.columns.window + s);
    });
  });
  return sum;
}

template <class Winner>
struct MaximumGradient {
  PoolingShape at;
  const Winner* w;
  const float* dy;
  float* dx;
  [[nodiscard]] MESHWORK_HOST_DEVICE float of(std::int64_t, std::int64_t, std::int64_t output,
                                              std::int64_t place) const {
    return static_cast<std::int64_t>(w[output]) == place ? dy[output] : 0.0f;
  }
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const { dx[i] = gathered(at, i, *this); }
};

struct Average {
  PoolingShape at;
  const float* x;
  float* y;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    const ImageIndex index = image_index(i, at.rows.output, at.columns.output, at.channels);
    const WindowPlaces rows(at.rows, index.row), columns(at.columns, index.column);
    const std::int64_t count = rows.count() * columns.count();
    float sum = 0;
    for (std::int64_t r = rows.first; r < rows.last; ++r) {
      for (std::int64_t s = columns.first; s < columns.last; ++s) {
        sum += x[input_offset(at, index.image, rows.start + r * at.rows.dilation,
                              columns.start + s * at.columns.dilation) +
                 index.channel];
      }
    }
    y[i] = count > 0 ? sum / static_cast<float>(count) : 0.0f;
  }
};

struct AverageGradient {
  PoolingShape at;
  const float* dy;
  float* dx;
  [[nodiscard]] MESHWORK_HOST_DEVICE float of(std::int64_t row, std::int64_t column,
                                              std::int64_t output, std::int64_t) const {
    const WindowPlaces rows(at.rows, row), columns(at.columns, column);
    return dy[output] / static_cast<float>(rows.count() * columns.count());
  }
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const { dx[i] = gathered(at, i, *this); }
};

template <class Winner>
KernelPointer maximum(const MaximumPoolingSpec& spec, const Context& context) {
  return make_kernel([=, launcher = context.launcher](void* const* operands) {
    for_elements(launcher, output_count(spec.at),
                 Maximum<Winner>{spec.at, at(operands, 0), at(operands, 1),
                                 spec.winners ? at<Winner>(operands, 2) : nullptr});
  });
}

template <class Winner>
KernelPointer maximum_gradient(const PoolingShape& shape, const Context& context) {
  return make_kernel([=, launcher = context.launcher](void* const* operands) {
    for_elements(launcher, input_count(shape),
                 MaximumGradient<Winner>{shape, at<const Winner>(operands, 0), at(operands, 1),
                                         at(operands, 2)});
  });
}

KernelPointer compile(const MaximumPoolingSpec& spec, const Context& context) {
  return winner_type(spec.at) == ElementType::uint8 ? maximum<std::uint8_t>(spec, context)
                                                    : maximum<std::int32_t>(spec, context);
}

KernelPointer compile(const MaximumPoolingGradientSpec& spec, const Context& context) {
  return winner_type(spec.at) == ElementType::uint8
             ? maximum_gradient<std::uint8_t>(spec.at, context)
             : maximum_gradient<std::int32_t>(spec.at, context);
}

KernelPointer compile(const AveragePoolingSpec& spec, const Context& context) {
  return make_kernel([=, launcher = context.launcher](void* const* operands) {
    for_elements(launcher, output_count(spec.at),
                 Average{spec.at, at(operands, 0), at(operands, 1)});
  });
}

KernelPointer compile(const AveragePoolingGradientSpec& spec, const Context& context) {
  return make_kernel([=, launcher = context.launcher](void* const* operands) {
    for_elements(launcher, input_count(spec.at),
                 AverageGradient{spec.at, at(operands, 0), at(operands, 1)});
  });
}

}  // namespace

void add_pooling(Kernels& kernels) {
  kernels.add<MaximumPoolingSpec, MaximumPoolingGradientSpec, AveragePoolingSpec,
              AveragePoolingGradientSpec>(
      [](const auto& spec, const Context& context) { return compile(spec, context); });
}

}  // namespace meshwork::cuda
