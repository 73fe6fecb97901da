// Convolutions straight from their definition, for every shape: what is left, where cuDNN has no
// deterministic algorithm, of those with groups. In tf32 as in float32, which is more exact.
//
// Results gather, in double: an element of y its window, one of dx the windows that hold it, one of
// the kernel's gradient all positions of the batch, a block an element. Neighbouring threads are
// neighbouring filters or channels, so that reads are coalesced. Bound by arithmetic in double and
// by reads from cache: for correctness, not for speed, but for depthwise ones, which have few
// terms.
//
// Beside them kernels that move: volumes cut or padded to what the windows look at, and the
// transposition of the kernel, forth and back, for cuDNN, which wants what pads on both sides
// alike and kernels as (filters, planes, rows, columns, channels); windows as rows of a matrix and
// back, for products. All are a thread an element and bound by memory traffic.
#include "runtime/device/body_kernel.h"
#include "runtime/device/cuda/convolution_forms.h"
#include "runtime/device/cuda/image_index.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/launch.h"
#include "runtime/device/kernels/convolution.h"
#include "runtime/device/narrowing.h"
#include "runtime/device/window_places.h"

namespace meshwork::cuda {

namespace {

/// An operand of a convolution: its numbers as they enter the product.
struct Factors {
  const float* numbers;
  bool rounds;  // to bfloat16
  [[nodiscard]] MESHWORK_HOST_DEVICE double operator[](std::int64_t i) const {
    return static_cast<double>(rounds ? rounded_to_bfloat16(numbers[i]) : numbers[i]);
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE Factors operator+(std::int64_t distance) const {
    return {numbers + distance, rounds};
  }
};

struct Convolution {
  ConvolutionShape at;
  Factors x, kernel;
  float* y;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t channels = at.channels / at.groups, filters = at.filters / at.groups;
    const std::int64_t filter = i % at.filters, first_channel = filter / filters * channels;
    double sum = 0;
    for_places(at, output_size(at).place(i / at.filters),
               [&](std::int64_t input, std::int64_t place) {
                 const Factors pixel = x + input * at.channels + first_channel;
                 const Factors weights = kernel + place * channels * at.filters + filter;
                 for (std::int64_t c = 0; c < channels; ++c) {
                   sum += pixel[c] * weights[c * at.filters];
                 }
               });
    y[i] = static_cast<float>(sum);
  }
};

struct InputGradient {
  ConvolutionShape at;
  Factors dy, kernel;
  float* dx;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t channels = at.channels / at.groups, filters = at.filters / at.groups;
    const std::int64_t group = i % at.channels / channels, channel = i % at.channels % channels;
    double sum = 0;
    for_windows(at, input_size(at).place(i / at.channels),
                [&](const VolumePlace& output, std::int64_t place) {
                  const Factors gradient =
                      dy + output_size(at).number(output) * at.filters + group * filters;
                  const Factors weights =
                      kernel + (place * channels + channel) * at.filters + group * filters;
                  for (std::int64_t f = 0; f < filters; ++f) {
                    sum += gradient[f] * weights[f];
                  }
                });
    dx[i] = static_cast<float>(sum);
  }
};

/// A row is an element of the kernel, its columns are the positions of the output in all samples.
struct KernelGradient {
  using Fold = folds::Sum;
  ConvolutionShape at;
  Factors x, dy;
  float* dkernel;
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t columns(std::int64_t) const {
    return at.batch * output_size(at).count();
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE double term(std::int64_t element,
                                                 std::int64_t position) const {
    const std::int64_t channels = at.channels / at.groups, filters = at.filters / at.groups;
    const std::int64_t filter = element % at.filters, place_and_channel = element / at.filters;
    const std::int64_t channel = place_and_channel % channels, place = place_and_channel / channels;
    const VolumePlace input = input_of(at, output_size(at).place(position), place);
    if (!input_size(at).holds(input)) return 0;
    return x[input_size(at).number(input) * at.channels + filter / filters * channels + channel] *
           dy[position * at.filters + filter];
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t element, double sum) const {
    dkernel[element] = static_cast<float>(sum);
  }
};

/// to: the pixel that lies `shift.by` before it in from, or 0.
struct Shift {
  const float* from;
  float* to;
  VolumeShift shift;
  bool rounds;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    const VolumePlace of = shift.to.place(i / shift.channels);
    const VolumePlace source{of.sample, of.plane - shift.by.planes, of.row - shift.by.rows,
                             of.column - shift.by.columns};
    const float pixel = shift.from.holds(source)
                            ? from[shift.from.number(source) * shift.channels + i % shift.channels]
                            : 0.0f;
    to[i] = rounds ? rounded_to_bfloat16(pixel) : pixel;
  }
};

/// An element of the matrix is one channel at one place of one window.
struct Unfold {
  ConvolutionShape at;
  const float* x;
  float* matrix;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t width = window_size(at).count() * at.channels;
    const VolumePlace input =
        input_of(at, output_size(at).place(i / width), i % width / at.channels);
    matrix[i] = input_size(at).holds(input)
                    ? x[input_size(at).number(input) * at.channels + i % at.channels]
                    : 0.0f;
  }
};

struct Fold {
  ConvolutionShape at;
  const float* matrix;
  float* x;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    double sum = 0;
    for_windows(at, input_size(at).place(i / at.channels),
                [&](const VolumePlace& output, std::int64_t place) {
                  const std::int64_t of_matrix =
                      output_size(at).number(output) * window_size(at).count() + place;
                  sum += static_cast<double>(matrix[of_matrix * at.channels + i % at.channels]);
                });
    x[i] = static_cast<float>(sum);
  }
};

/// to (columns, rows) = transpose(from (rows, columns)).
struct Transpose {
  const float* from;
  float* to;
  std::int64_t rows, columns;
  bool rounds;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    const float number = from[i % rows * columns + i / rows];
    to[i] = rounds ? rounded_to_bfloat16(number) : number;
  }
};

struct Round {
  const float* from;
  float* to;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    to[i] = rounded_to_bfloat16(from[i]);
  }
};

/// Operand `index`, which is multiplied as `spec` says.
Factors factors(void* const* operands, int index, const auto& spec) {
  return {at(operands, index), spec.precision == Precision::bfloat16};
}

}  // namespace

KernelPointer compile_direct(const ConvolutionSpec& spec, const Context& context) {
  return make_kernel([=, launcher = context.launcher](void* const* operands) {
    for_elements(launcher, output_count(spec.at),
                 Convolution{spec.at, factors(operands, 0, spec), factors(operands, 1, spec),
                             at(operands, 2)});
  });
}

KernelPointer compile_direct(const ConvolutionInputGradientSpec& spec, const Context& context) {
  return make_kernel([=, launcher = context.launcher](void* const* operands) {
    for_elements(launcher, input_count(spec.at),
                 InputGradient{spec.at, factors(operands, 0, spec), factors(operands, 1, spec),
                               at(operands, 2)});
  });
}

KernelPointer compile_direct(const ConvolutionKernelGradientSpec& spec, const Context& context) {
  return make_kernel([=, launcher = context.launcher](void* const* operands) {
    reduce_rows(launcher, kernel_count(spec.at), spec.at.batch * output_size(spec.at).count(),
                KernelGradient{spec.at, factors(operands, 0, spec), factors(operands, 1, spec),
                               at(operands, 2)});
  });
}

void unfold(const Launcher& launcher, const ConvolutionShape& at, const float* x, float* matrix) {
  for_elements(launcher, output_count(at) / at.filters * kernel_count(at) / at.filters,
               Unfold{at, x, matrix});
}

void fold(const Launcher& launcher, const ConvolutionShape& at, const float* matrix, float* x) {
  for_elements(launcher, input_count(at), Fold{at, matrix, x});
}

void shift_volumes(const Launcher& launcher, const VolumeShift& shift, const float* from, float* to,
                   bool rounds) {
  for_elements(launcher, shift.to_count(), Shift{from, to, shift, rounds});
}

void transpose(const Launcher& launcher, std::int64_t rows, std::int64_t columns, const float* from,
               float* to, bool rounds) {
  for_elements(launcher, rows * columns, Transpose{from, to, rows, columns, rounds});
}

void round_numbers(const Launcher& launcher, std::int64_t count, const float* from, float* to) {
  for_elements(launcher, count, Round{from, to});
}

}  // namespace meshwork::cuda
