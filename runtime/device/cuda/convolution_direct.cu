// Convolutions straight from their definition, for every shape: what is left, where cuDNN has no
// deterministic algorithm, of those with groups. In tf32 as in float32, which is more exact.
//
// Results gather, in double: an element of y its window, one of dx the windows that hold it, one of
// the kernel's gradient all positions of the batch, a block an element. Neighbouring threads are
// neighbouring filters or channels, so that reads are coalesced. Bound by arithmetic in double and
// by reads from cache: for correctness, not for speed, but for depthwise ones, which have few
// terms.
//
// Beside them kernels that move: images cut or padded to what the windows look at, and the
// transposition of the kernel, forth and back, for cuDNN, which wants what pads on both sides alike
// and kernels as (filters, rows, columns, channels); windows as rows of a matrix and back, for
// products. All are a thread an element and bound by memory traffic.
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
    const ImageIndex of = image_index(i, at.rows.output, at.columns.output, at.filters);
    const std::int64_t channels = at.channels / at.groups, filters = at.filters / at.groups;
    const std::int64_t first_channel = of.channel / filters * channels;
    const WindowPlaces rows(at.rows, of.row), columns(at.columns, of.column);
    double sum = 0;
    for (std::int64_t r = rows.first; r < rows.last; ++r) {
      const std::int64_t line =
          (of.image * at.rows.input + rows.start + r * at.rows.dilation) * at.columns.input;
      for (std::int64_t s = columns.first; s < columns.last; ++s) {
        const Factors pixel =
            x + (line + columns.start + s * at.columns.dilation) * at.channels + first_channel;
        const Factors weights =
            kernel + (r * at.columns.window + s) * channels * at.filters + of.channel;
        for (std::int64_t c = 0; c < channels; ++c) {
          sum += pixel[c] * weights[c * at.filters];
        }
      }
    }
    y[i] = static_cast<float>(sum);
  }
};

struct InputGradient {
  ConvolutionShape at;
  Factors dy, kernel;
  float* dx;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    const ImageIndex of = image_index(i, at.rows.input, at.columns.input, at.channels);
    const std::int64_t channels = at.channels / at.groups, filters = at.filters / at.groups;
    const std::int64_t group = of.channel / channels, channel = of.channel % channels;
    double sum = 0;
    for (std::int64_t r = 0; r < at.rows.window; ++r) {
      const std::int64_t row = output_at(at.rows, of.row, r);
      if (row < 0) continue;
      for (std::int64_t s = 0; s < at.columns.window; ++s) {
        const std::int64_t column = output_at(at.columns, of.column, s);
        if (column < 0) continue;
        const Factors gradient =
            dy + ((of.image * at.rows.output + row) * at.columns.output + column) * at.filters +
            group * filters;
        const Factors weights = kernel +
                                ((r * at.columns.window + s) * channels + channel) * at.filters +
                                group * filters;
        for (std::int64_t f = 0; f < filters; ++f) {
          sum += gradient[f] * weights[f];
        }
      }
    }
    dx[i] = static_cast<float>(sum);
  }
};

/// A row is an element of the kernel, its columns are the positions of the output in all images.
struct KernelGradient {
  using Fold = folds::Sum;
  ConvolutionShape at;
  Factors x, dy;
  float* dkernel;
  [[nodiscard]] MESHWORK_HOST_DEVICE std::int64_t columns(std::int64_t) const {
    return at.batch * at.rows.output * at.columns.output;
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE double term(std::int64_t element,
                                                 std::int64_t position) const {
    const std::int64_t channels = at.channels / at.groups, filters = at.filters / at.groups;
    const std::int64_t filter = element % at.filters, place_and_channel = element / at.filters;
    const std::int64_t channel = place_and_channel % channels, place = place_and_channel / channels;
    const ImageIndex of = image_index(position, at.rows.output, at.columns.output, 1);
    const std::int64_t row =
        of.row * at.rows.stride - at.rows.padding + place / at.columns.window * at.rows.dilation;
    const std::int64_t column = of.column * at.columns.stride - at.columns.padding +
                                place % at.columns.window * at.columns.dilation;
    if (row < 0 || row >= at.rows.input || column < 0 || column >= at.columns.input) return 0;
    const std::int64_t pixel = (of.image * at.rows.input + row) * at.columns.input + column;
    return x[pixel * at.channels + filter / filters * channels + channel] *
           dy[position * at.filters + filter];
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t element, double sum) const {
    dkernel[element] = static_cast<float>(sum);
  }
};

/// to (batch, to.rows, to.columns, channels): the pixel that lies `row`, `column` before it in
/// from, or 0.
struct Shift {
  const float* from;
  float* to;
  ImageShift shift;
  bool rounds;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    const ImageIndex of = image_index(i, shift.to_rows, shift.to_columns, shift.channels);
    const std::int64_t row = of.row - shift.row, column = of.column - shift.column;
    const bool inside =
        row >= 0 && row < shift.from_rows && column >= 0 && column < shift.from_columns;
    const float pixel =
        inside ? from[((of.image * shift.from_rows + row) * shift.from_columns + column) *
                          shift.channels +
                      of.channel]
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
    const std::int64_t places = at.rows.window * at.columns.window, width = places * at.channels;
    const ImageIndex of = image_index(i / width, at.rows.output, at.columns.output, 1);
    const std::int64_t place = i % width / at.channels, channel = i % at.channels;
    const std::int64_t row =
        of.row * at.rows.stride - at.rows.padding + place / at.columns.window * at.rows.dilation;
    const std::int64_t column = of.column * at.columns.stride - at.columns.padding +
                                place % at.columns.window * at.columns.dilation;
    const bool inside = row >= 0 && row < at.rows.input && column >= 0 && column < at.columns.input;
    const std::int64_t pixel = (of.image * at.rows.input + row) * at.columns.input + column;
    matrix[i] = inside ? x[pixel * at.channels + channel] : 0.0f;
  }
};

struct Fold {
  ConvolutionShape at;
  const float* matrix;
  float* x;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    const ImageIndex of = image_index(i, at.rows.input, at.columns.input, at.channels);
    double sum = 0;
    for (std::int64_t r = 0; r < at.rows.window; ++r) {
      const std::int64_t row = output_at(at.rows, of.row, r);
      if (row < 0) continue;
      for (std::int64_t s = 0; s < at.columns.window; ++s) {
        const std::int64_t column = output_at(at.columns, of.column, s);
        if (column < 0) continue;
        const std::int64_t position =
            (of.image * at.rows.output + row) * at.columns.output + column;
        const std::int64_t place =
            position * at.rows.window * at.columns.window + r * at.columns.window + s;
        sum += static_cast<double>(matrix[place * at.channels + of.channel]);
      }
    }
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
    reduce_rows(launcher, kernel_count(spec.at),
                spec.at.batch * spec.at.rows.output * spec.at.columns.output,
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

void shift_images(const Launcher& launcher, const ImageShift& shift, const float* from, float* to,
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
