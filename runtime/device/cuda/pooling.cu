// Maximum and average pooling, on images and volumes with channels last.
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
  return at.batch * input_size(at).count() * at.channels;
}
[[nodiscard]] std::int64_t output_count(const PoolingShape& at) {
  return at.batch * output_size(at).count() * at.channels;
}

/// How many elements the window of `output` has that are no padding.
[[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t count_at(const PoolingShape& at,
                                                         const VolumePlace& output) {
  return WindowPlaces(at.planes, output.plane).count() * WindowPlaces(at.rows, output.row).count() *
         WindowPlaces(at.columns, output.column).count();
}

template <class Winner>
struct Maximum {
  PoolingShape at;
  const float* x;
  float* y;
  Winner* w;  // null if nobody asks
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    float best = -std::numeric_limits<float>::infinity();
    // Where all are -infinity the first place wins.
    std::int64_t winner = -1;
    for_places(at, output_size(at).place(i / at.channels),
               [&](std::int64_t input, std::int64_t place) {
                 const float value = x[input * at.channels + i % at.channels];
                 // The first NaN is taken, and stays.
                 if (winner < 0 || value > best || (is_nan(value) && !is_nan(best))) {
                   best = value;
                   winner = place;
                 }
               });
    y[i] = best;
    if (w != nullptr) w[i] = static_cast<Winner>(winner < 0 ? 0 : winner);
  }
};

template <class Winner>
struct MaximumGradient {
  PoolingShape at;
  const Winner* w;
  const float* dy;
  float* dx;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    float sum = 0;
    for_windows(
        at, input_size(at).place(i / at.channels), [&](const VolumePlace& of, std::int64_t place) {
          const std::int64_t output = output_size(at).number(of) * at.channels + i % at.channels;
          sum += static_cast<std::int64_t>(w[output]) == place ? dy[output] : 0.0f;
        });
    dx[i] = sum;
  }
};

struct Average {
  PoolingShape at;
  const float* x;
  float* y;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    const VolumePlace output = output_size(at).place(i / at.channels);
    const std::int64_t count = count_at(at, output);
    float sum = 0;
    for_places(at, output, [&](std::int64_t input, std::int64_t) {
      sum += x[input * at.channels + i % at.channels];
    });
    y[i] = count > 0 ? sum / static_cast<float>(count) : 0.0f;
  }
};

struct AverageGradient {
  PoolingShape at;
  const float* dy;
  float* dx;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    float sum = 0;
    for_windows(at, input_size(at).place(i / at.channels),
                [&](const VolumePlace& of, std::int64_t) {
                  sum += dy[output_size(at).number(of) * at.channels + i % at.channels] /
                         static_cast<float>(count_at(at, of));
                });
    dx[i] = sum;
  }
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
