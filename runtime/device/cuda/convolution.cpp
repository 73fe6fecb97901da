// Convolutions and their gradients, by cuDNN where it can.
//
// cuDNN gets images as they lie, channels last, and the kernel as (filters, rows, columns,
// channels), transposed into the workspace: 4 bytes read and written for a weight. Where padding
// differs between the two sides, is negative, or exceeds the window, it gets a copy of the images
// that holds exactly what the windows span, so that every shape is an unpadded one.
//
// float32 is CUDNN_FMA_MATH: no TF32. tf32 is CUDNN_DEFAULT_MATH, which allows it, and never
// converts to half. bfloat16 is tf32 on operands that are rounded to bfloat16 on their way, the
// kernel where it is transposed and images where they are copied for it: numbers of 8 significant
// bits are numbers of tf32 too, so that the products are those of bfloat16 and the result is
// float32, where cuDNN's own convolution of bfloat16 images would round it. It is as fast as tf32.
//
// Of the algorithms that cuDNN's heuristic names, the first is taken that is deterministic and
// multiplies and adds as the definition says: no Winograd, whose rounding is worse, no Fourier
// transforms. Where there is none, a convolution without groups becomes matrix products
// (convolution_unfolded.cpp), and one with groups is computed from the definition
// (convolution_direct.cu). Bound by FLOP. Bias and relu are kernels behind it: whether cuDNN's
// fused relu lets a NaN through is not documented.
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "collectives/error.h"
#include "runtime/device/body_kernel.h"
#include "runtime/device/cuda/check.h"
#include "runtime/device/cuda/compile.h"
#include "runtime/device/cuda/convolution_forms.h"
#include "runtime/device/cuda/epilogue.h"
#include "runtime/device/cuda/libraries.h"
#include "runtime/device/cuda/workspace.h"

namespace meshwork::cuda {

namespace {

constexpr std::size_t most_workspace = std::size_t{512} << 20;

/// Whether the convolution adds up anything.
bool has_terms(const ConvolutionShape& at) {
  return input_count(at) > 0 && output_count(at) > 0;
}

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
bool fits(const ConvolutionShape& at) {
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

bool is_plain(cudnnConvolutionFwdAlgo_t algorithm) {
  return algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM ||
         algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM ||
         algorithm == CUDNN_CONVOLUTION_FWD_ALGO_GEMM ||
         algorithm == CUDNN_CONVOLUTION_FWD_ALGO_DIRECT;
}
bool is_plain(cudnnConvolutionBwdDataAlgo_t algorithm) {
  return algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_0 ||
         algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
}
bool is_plain(cudnnConvolutionBwdFilterAlgo_t algorithm) {
  return algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 ||
         algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 ||
         algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3;
}

template <class Algorithm>
struct Chosen {
  Algorithm algorithm;
  std::size_t workspace;
};

/// The first algorithm of the heuristic's list that may be taken. `list(count, &found, results)`
/// asks the heuristic, `size(algorithm, &bytes)` for the workspace.
template <class Result, class List, class Size>
auto choose(const std::string& name, cudnnMathType_t math, const List& list, const Size& size)
    -> std::optional<Chosen<decltype(Result::algo)>> {
  constexpr int most_results = 16;
  std::array<Result, most_results> results{};
  int found = 0;
  const cudnnStatus_t status = list(most_results, &found, results.data());
  if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED) return std::nullopt;
  check_cudnn(status, "cuDNN's heuristic for algorithms", name);
  for (int i = 0; i < found; ++i) {
    const Result& result = results[static_cast<std::size_t>(i)];
    const bool plain_math = result.mathType == CUDNN_FMA_MATH ||
                            result.mathType == CUDNN_DEFAULT_MATH ||
                            (math == CUDNN_DEFAULT_MATH && result.mathType == CUDNN_TENSOR_OP_MATH);
    std::size_t bytes = 0;
    if (result.status == CUDNN_STATUS_SUCCESS && result.determinism == CUDNN_DETERMINISTIC &&
        plain_math && is_plain(result.algo) && size(result.algo, &bytes) == CUDNN_STATUS_SUCCESS &&
        bytes <= most_workspace) {
      return Chosen<decltype(Result::algo)>{result.algo, bytes};
    }
  }
  return std::nullopt;
}

constexpr float one = 1, zero = 0;

/// What the three have in common: their workspace, and operands as cuDNN wants them.
template <class PerfOfAlgorithm>
class CudnnKernel : public Kernel {
 public:
  using Result = PerfOfAlgorithm;
  using Choice = Chosen<decltype(Result::algo)>;

  CudnnKernel(Description of, const Choice& choice, const Context& context)
      : of_(std::move(of)), choice_(choice), context_(context) {}

  [[nodiscard]] std::int64_t workspace_bytes() const override {
    return with_alignment(of_.kernel_bytes() + of_.x_bytes() + of_.dy_bytes() +
                          static_cast<std::int64_t>(choice_.workspace));
  }

 protected:
  /// The parts of the workspace.
  struct Places {
    float *kernel, *x, *dy;
    void* own;
  };
  [[nodiscard]] Places places(void* workspace) const {
    std::byte* const kernel = aligned_workspace(workspace);
    std::byte* const x = kernel + of_.kernel_bytes();
    std::byte* const dy = x + of_.x_bytes();
    return {reinterpret_cast<float*>(kernel), reinterpret_cast<float*>(x),
            reinterpret_cast<float*>(dy), dy + of_.dy_bytes()};
  }
  // From the operands; what they give lies there or in the workspace.
  void take_kernel(const float* kernel, const Places& to) const {
    transpose(launcher(), of_.weights(), of_.at.filters, kernel, to.kernel, of_.rounds);
  }
  [[nodiscard]] const float* take_x(const float* x, const Places& to) const {
    if (of_.x_bytes() == 0) return x;
    shift_images(launcher(), of_.shift(), x, to.x, of_.rounds);
    return to.x;
  }
  [[nodiscard]] const float* take_dy(const float* dy, const Places& to) const {
    if (of_.dy_bytes() == 0) return dy;
    round_numbers(launcher(), output_count(of_.at), dy, to.dy);
    return to.dy;
  }
  void check(cudnnStatus_t status, std::string_view call) const {
    check_cudnn(status, call, *launcher().name);
    check_launch(launcher());
  }
  [[nodiscard]] const Launcher& launcher() const { return context_.launcher; }
  [[nodiscard]] cudnnHandle_t dnn() const { return context_.libraries->dnn(); }

  Description of_;
  Choice choice_;
  Context context_;
};

class Forward final : public CudnnKernel<cudnnConvolutionFwdAlgoPerf_t> {
 public:
  static constexpr std::array<std::size_t, 2> images{0, 2};  // x, y
  using CudnnKernel::CudnnKernel;

  static auto choose_for(const Description& of, cudnnHandle_t dnn, const std::string& name) {
    return choose<Result>(
        name, of.math,
        [&](int count, int* found, Result* results) {
          return cudnnGetConvolutionForwardAlgorithm_v7(dnn, of.x.native(), of.kernel.native(),
                                                        of.convolution.native(), of.y.native(),
                                                        count, found, results);
        },
        [&](auto algorithm, std::size_t* bytes) {
          return cudnnGetConvolutionForwardWorkspaceSize(dnn, of.x.native(), of.kernel.native(),
                                                         of.convolution.native(), of.y.native(),
                                                         algorithm, bytes);
        });
  }

  void run(void* const* operands) override {
    const Places place = places(operands[3]);
    take_kernel(meshwork::at(operands, 1), place);
    const float* const x = take_x(meshwork::at(operands, 0), place);
    check(cudnnConvolutionForward(dnn(), &one, of_.x.native(), x, of_.kernel.native(), place.kernel,
                                  of_.convolution.native(), choice_.algorithm, place.own,
                                  choice_.workspace, &zero, of_.y.native(), operands[2]),
          "cudnnConvolutionForward");
  }
};

class InputGradient final : public CudnnKernel<cudnnConvolutionBwdDataAlgoPerf_t> {
 public:
  static constexpr std::array<std::size_t, 2> images{0, 2};  // dy, dx
  using CudnnKernel::CudnnKernel;

  static auto choose_for(const Description& of, cudnnHandle_t dnn, const std::string& name) {
    return choose<Result>(
        name, of.math,
        [&](int count, int* found, Result* results) {
          return cudnnGetConvolutionBackwardDataAlgorithm_v7(dnn, of.kernel.native(), of.y.native(),
                                                             of.convolution.native(), of.x.native(),
                                                             count, found, results);
        },
        [&](auto algorithm, std::size_t* bytes) {
          return cudnnGetConvolutionBackwardDataWorkspaceSize(
              dnn, of.kernel.native(), of.y.native(), of.convolution.native(), of.x.native(),
              algorithm, bytes);
        });
  }

  void run(void* const* operands) override {
    const Places place = places(operands[3]);
    take_kernel(meshwork::at(operands, 1), place);
    const float* const dy = take_dy(meshwork::at(operands, 0), place);
    float* const dx = of_.cuts() ? place.x : meshwork::at(operands, 2);
    check(
        cudnnConvolutionBackwardData(dnn(), &one, of_.kernel.native(), place.kernel, of_.y.native(),
                                     dy, of_.convolution.native(), choice_.algorithm, place.own,
                                     choice_.workspace, &zero, of_.x.native(), dx),
        "cudnnConvolutionBackwardData");
    if (of_.cuts()) {
      shift_images(launcher(), of_.shift().back(), dx, meshwork::at(operands, 2), false);
    }
  }
};

class KernelGradient final : public CudnnKernel<cudnnConvolutionBwdFilterAlgoPerf_t> {
 public:
  static constexpr std::array<std::size_t, 2> images{0, 1};  // x, dy
  using CudnnKernel::CudnnKernel;

  static auto choose_for(const Description& of, cudnnHandle_t dnn, const std::string& name) {
    return choose<Result>(
        name, of.math,
        [&](int count, int* found, Result* results) {
          return cudnnGetConvolutionBackwardFilterAlgorithm_v7(
              dnn, of.x.native(), of.y.native(), of.convolution.native(), of.kernel.native(), count,
              found, results);
        },
        [&](auto algorithm, std::size_t* bytes) {
          return cudnnGetConvolutionBackwardFilterWorkspaceSize(
              dnn, of.x.native(), of.y.native(), of.convolution.native(), of.kernel.native(),
              algorithm, bytes);
        });
  }

  void run(void* const* operands) override {
    const Places place = places(operands[3]);
    const float* const x = take_x(meshwork::at(operands, 0), place);
    const float* const dy = take_dy(meshwork::at(operands, 1), place);
    check(
        cudnnConvolutionBackwardFilter(dnn(), &one, of_.x.native(), x, of_.y.native(), dy,
                                       of_.convolution.native(), choice_.algorithm, place.own,
                                       choice_.workspace, &zero, of_.kernel.native(), place.kernel),
        "cudnnConvolutionBackwardFilter");
    transpose(launcher(), of_.at.filters, of_.weights(), place.kernel, meshwork::at(operands, 2),
              false);
  }
};

/// cuDNN's form; null where it has none.
template <class Form>
KernelPointer compile_cudnn(const ConvolutionShape& at, Precision precision,
                            const Context& context) {
  if (!fits(at)) return nullptr;
  Description description(at, precision, context);
  const auto choice =
      Form::choose_for(description, context.libraries->dnn(), *context.launcher.name);
  if (!choice) return nullptr;
  return std::make_unique<Form>(std::move(description), *choice, context);
}

/// Writes zeros to operand 2, of `count` elements.
KernelPointer zeros(std::int64_t count, const Context& context) {
  KernelPointer zero = compile(ZeroSpec{count * static_cast<std::int64_t>(sizeof(float))}, context);
  return make_kernel([zero = std::move(zero)](void* const* operands) { zero->run(operands + 2); });
}

/// cuDNN does not say how it wants images aligned, and may load four elements at a time. Those of a
/// program lie in its arena, aligned to 64 bytes; others are left to the direct kernel.
class IfAligned final : public Kernel {
 public:
  /// `images`: the two operands that are images.
  IfAligned(KernelPointer cudnn, KernelPointer direct, std::array<std::size_t, 2> images)
      : cudnn_(std::move(cudnn)), direct_(std::move(direct)), images_(images) {}

  void run(void* const* operands) override {
    const auto is_aligned = [&](std::size_t operand) {
      return reinterpret_cast<std::uintptr_t>(operands[operand]) % 16 == 0;
    };
    (is_aligned(images_[0]) && is_aligned(images_[1]) ? cudnn_ : direct_)->run(operands);
  }
  [[nodiscard]] std::int64_t workspace_bytes() const override { return cudnn_->workspace_bytes(); }

 private:
  KernelPointer cudnn_, direct_;  // the latter without a workspace
  std::array<std::size_t, 2> images_;
};

template <class Form, class Spec>
KernelPointer compile_either(const Spec& spec, const Context& context) {
  if (KernelPointer kernel = compile_cudnn<Form>(spec.at, spec.precision, context)) {
    return std::make_unique<IfAligned>(std::move(kernel), compile_direct(spec, context),
                                       Form::images);
  }
  return spec.at.groups == 1 ? compile_unfolded(spec, context) : compile_direct(spec, context);
}

}  // namespace

KernelPointer compile(const ConvolutionSpec& spec, const Context& context) {
  const ConvolutionShape& at = spec.at;
  if (output_count(at) == 0) return make_kernel([](void* const*) {});
  const ConvolutionSpec without_epilogue{.at = at, .precision = spec.precision};
  KernelPointer alone = has_terms(at) ? compile_either<Forward>(without_epilogue, context)
                                      : zeros(output_count(at), context);
  return with_epilogue(std::move(alone),
                       {.rows = output_count(at) / at.filters,
                        .columns = at.filters,
                        .bias = spec.bias,
                        .activation = spec.activation},
                       context);
}

KernelPointer compile(const ConvolutionInputGradientSpec& spec, const Context& context) {
  return has_terms(spec.at) ? compile_either<InputGradient>(spec, context)
                            : zeros(input_count(spec.at), context);
}

KernelPointer compile(const ConvolutionKernelGradientSpec& spec, const Context& context) {
  return has_terms(spec.at) ? compile_either<KernelGradient>(spec, context)
                            : zeros(kernel_count(spec.at), context);
}

}  // namespace meshwork::cuda
