// A convolution as cuDNN is told of it: its descriptors, and what the workspace holds for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "collectives/error.h"
#include "collectives/joined_text.h"
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
        planes(padded(shape.planes)),
        rows(padded(shape.rows)),
        columns(padded(shape.columns)),
        math(precision == Precision::float32 ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH),
        rounds(precision == Precision::bfloat16) {
    const std::string& name = *context.launcher.name;
    const std::vector<WindowDimension> windows = dimensions_of(at);
    const int spatial = static_cast<int>(windows.size());
    check_cudnn(cudnnCreateTensorDescriptor(x.out()), "cudnnCreateTensorDescriptor", name);
    check_cudnn(cudnnCreateTensorDescriptor(y.out()), "cudnnCreateTensorDescriptor", name);
    check_cudnn(cudnnCreateFilterDescriptor(kernel.out()), "cudnnCreateFilterDescriptor", name);
    check_cudnn(cudnnCreateConvolutionDescriptor(convolution.out()),
                "cudnnCreateConvolutionDescriptor", name);
    const auto input = [](const WindowDimension& along) { return padded(along).input; };
    describe(x, lengths({at.batch, at.channels}, windows, input), name);
    const std::vector<int> output =
        lengths({at.batch, at.filters}, windows, &WindowDimension::output);
    describe(y, output, name);
    const std::vector<int> of_kernel =
        lengths({at.filters, at.channels / at.groups}, windows, &WindowDimension::window);
    check_cudnn(cudnnSetFilterNdDescriptor(kernel.native(), CUDNN_DATA_FLOAT, CUDNN_TENSOR_NHWC,
                                           spatial + 2, of_kernel.data()),
                "cudnnSetFilterNdDescriptor", name);
    const auto padding = [](const WindowDimension& along) { return padded(along).padding; };
    check_cudnn(cudnnSetConvolutionNdDescriptor(
                    convolution.native(), spatial, lengths({}, windows, padding).data(),
                    lengths({}, windows, &WindowDimension::stride).data(),
                    lengths({}, windows, &WindowDimension::dilation).data(),
                    CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
                "cudnnSetConvolutionNdDescriptor", name);
    check_cudnn(cudnnSetConvolutionGroupCount(convolution.native(), static_cast<int>(at.groups)),
                "cudnnSetConvolutionGroupCount", name);
    check_cudnn(cudnnSetConvolutionMathType(convolution.native(), math),
                "cudnnSetConvolutionMathType", name);
    std::vector<int> found(output.size());
    check_cudnn(cudnnGetConvolutionNdForwardOutputDim(convolution.native(), x.native(),
                                                      kernel.native(), spatial + 2, found.data()),
                "cudnnGetConvolutionNdForwardOutputDim", name);
    if (found != output) {
      internal_error(fmt::format("{}: cuDNN makes {} of the padded images", name,
                                 joined_text(std::span(found).subspan(2), "x")));
    }
  }

  /// Whether cuDNN's x is not that of the program because of what the windows span.
  [[nodiscard]] bool cuts() const { return planes.copied || rows.copied || columns.copied; }
  /// From the images to their copy.
  [[nodiscard]] VolumeShift shift() const {
    return {at.batch,
            at.channels,
            input_size(at),
            {planes.input, rows.input, columns.input},
            {planes.copied ? at.planes.padding : 0, rows.copied ? at.rows.padding : 0,
             columns.copied ? at.columns.padding : 0}};
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
  PaddedDimension planes, rows, columns;
  cudnnMathType_t math;
  bool rounds;  // operands, to bfloat16
  DnnTensor x, y;
  DnnFilter kernel;
  DnnConvolution convolution;

 private:
  /// `before`, then what `pick` takes of each dimension.
  template <class Pick>
  static std::vector<int> lengths(std::initializer_list<std::int64_t> before,
                                  const std::vector<WindowDimension>& windows, const Pick& pick) {
    std::vector<int> all;
    for (const std::int64_t length : before) all.push_back(static_cast<int>(length));
    for (const WindowDimension& along : windows) {
      all.push_back(static_cast<int>(std::invoke(pick, along)));
    }
    return all;
  }
  /// Images of `lengths`, (batch, channels, [planes,] rows, columns), with channels last in memory.
  static void describe(const DnnTensor& images, const std::vector<int>& lengths,
                       const std::string& name) {
    std::vector<int> strides(lengths.size(), 1);
    int stride = lengths[1];
    for (std::size_t d = lengths.size(); d-- > 2; stride *= lengths[d]) strides[d] = stride;
    strides[0] = stride;
    check_cudnn(cudnnSetTensorNdDescriptor(images.native(), CUDNN_DATA_FLOAT,
                                           static_cast<int>(lengths.size()), lengths.data(),
                                           strides.data()),
                "cudnnSetTensorNdDescriptor", name);
  }
};

/// Whether cuDNN's counts, which are ints, hold the numbers of `at`.
[[nodiscard]] inline bool fits(const ConvolutionShape& at) {
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  const PaddedDimension planes = padded(at.planes), rows = padded(at.rows),
                        columns = padded(at.columns);
  const auto within = [](std::initializer_list<std::int64_t> factors) {
    std::int64_t product = 1;
    for (const std::int64_t factor : factors) {
      if (factor > most / product) return false;
      product *= factor;
    }
    return true;
  };
  const auto steps_fit = [](const WindowDimension& along) {
    return along.stride <= most && along.dilation <= most;
  };
  return within({at.batch, planes.input, rows.input, columns.input, at.channels}) &&
         within({at.batch, at.planes.output, at.rows.output, at.columns.output, at.filters}) &&
         within({at.planes.window, at.rows.window, at.columns.window, at.channels, at.filters}) &&
         steps_fit(at.planes) && steps_fit(at.rows) && steps_fit(at.columns);
}

}  // namespace meshwork::cuda
