// A convolution as cuDNN is told of it: its descriptors, and what the workspace holds for them.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>

#include "collectives/error.h"
#include "runtime/device/cuda/check.h"
#include "runtime/device/cuda/convolution_forms.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/libraries.h"
#include "runtime/device/cuda/workspace.h"
#include "runtime/device/kernels/convolution.h"

namespace meshwork::cuda {

/// cuDNN's description of one convolution, with the operands as it wants them.
struct Description {
  Description(const ConvolutionShape& shape, Precision precision, const Context& context)
      : at(shape),
        rows(padded(shape.rows)),
        columns(padded(shape.columns)),
        math(precision == Precision::float32 ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH),
        rounds(precision == Precision::bfloat16) {
    const std::string& name = *context.launcher.name;
    const auto number = [](std::int64_t value) { return static_cast<int>(value); };
    check_cudnn(cudnnCreateTensorDescriptor(x.out()), "cudnnCreateTensorDescriptor", name);
    check_cudnn(cudnnCreateTensorDescriptor(y.out()), "cudnnCreateTensorDescriptor", name);
    check_cudnn(cudnnCreateFilterDescriptor(kernel.out()), "cudnnCreateFilterDescriptor", name);
    check_cudnn(cudnnCreateConvolutionDescriptor(convolution.out()),
                "cudnnCreateConvolutionDescriptor", name);
    check_cudnn(cudnnSetTensor4dDescriptor(x.native(), CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT,
                                           number(at.batch), number(at.channels),
                                           number(rows.input), number(columns.input)),
                "cudnnSetTensor4dDescriptor", name);
    check_cudnn(cudnnSetTensor4dDescriptor(y.native(), CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT,
                                           number(at.batch), number(at.filters),
                                           number(at.rows.output), number(at.columns.output)),
                "cudnnSetTensor4dDescriptor", name);
    check_cudnn(cudnnSetFilter4dDescriptor(kernel.native(), CUDNN_DATA_FLOAT, CUDNN_TENSOR_NHWC,
                                           number(at.filters), number(at.channels / at.groups),
                                           number(at.rows.window), number(at.columns.window)),
                "cudnnSetFilter4dDescriptor", name);
    check_cudnn(cudnnSetConvolution2dDescriptor(
                    convolution.native(), number(rows.padding), number(columns.padding),
                    number(at.rows.stride), number(at.columns.stride), number(at.rows.dilation),
                    number(at.columns.dilation), CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
                "cudnnSetConvolution2dDescriptor", name);
    check_cudnn(cudnnSetConvolutionGroupCount(convolution.native(), number(at.groups)),
                "cudnnSetConvolutionGroupCount", name);
    check_cudnn(cudnnSetConvolutionMathType(convolution.native(), math),
                "cudnnSetConvolutionMathType", name);
    std::array<int, 4> output{};
    check_cudnn(
        cudnnGetConvolution2dForwardOutputDim(convolution.native(), x.native(), kernel.native(),
                                              &output[0], &output[1], &output[2], &output[3]),
        "cudnnGetConvolution2dForwardOutputDim", name);
    if (output != std::array{number(at.batch), number(at.filters), number(at.rows.output),
                             number(at.columns.output)}) {
      internal_error(
          fmt::format("{}: cuDNN makes {}x{} of the padded images", name, output[2], output[3]));
    }
  }

  /// Whether cuDNN's x is not that of the program because of what the windows span.
  [[nodiscard]] bool cuts() const { return rows.copied || columns.copied; }
  /// From the images to their copy.
  [[nodiscard]] ImageShift shift() const {
    return {at.batch,
            at.channels,
            at.rows.input,
            at.columns.input,
            rows.input,
            columns.input,
            rows.copied ? at.rows.padding : 0,
            columns.copied ? at.columns.padding : 0};
  }
  // The workspace: the kernel as cuDNN wants it, a copy of x if it is one, of dy if it is one, and
  // cuDNN's own.
  [[nodiscard]] std::int64_t x_bytes() const {
    return cuts() || rounds ? rounded_up(shift().to_count() * 4) : 0;
  }
  [[nodiscard]] std::int64_t dy_bytes() const {
    return rounds ? rounded_up(output_count(at) * 4) : 0;
  }
  [[nodiscard]] std::int64_t kernel_bytes() const { return rounded_up(kernel_count(at) * 4); }
  /// Of one filter.
  [[nodiscard]] std::int64_t weights() const { return kernel_count(at) / at.filters; }

  ConvolutionShape at;
  PaddedDimension rows, columns;
  cudnnMathType_t math;
  bool rounds;  // operands, to bfloat16
  DnnTensor x, y;
  DnnFilter kernel;
  DnnConvolution convolution;
};

/// Whether cuDNN's counts, which are ints, hold the numbers of `at`.
[[nodiscard]] inline bool fits(const ConvolutionShape& at) {
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  const PaddedDimension rows = padded(at.rows), columns = padded(at.columns);
  const auto within = [](std::initializer_list<std::int64_t> factors) {
    std::int64_t product = 1;
    for (const std::int64_t factor : factors) {
      if (factor > most / product) return false;
      product *= factor;
    }
    return true;
  };
  return within({at.batch, rows.input, columns.input, at.channels}) &&
         within({at.batch, at.rows.output, at.columns.output, at.filters}) &&
         within({at.rows.window, at.columns.window, at.channels, at.filters}) &&
         at.rows.stride <= most && at.columns.stride <= most && at.rows.dilation <= most &&
         at.columns.dilation <= most;
}

}  // namespace meshwork::cuda
