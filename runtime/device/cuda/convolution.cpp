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
// Of the algorithms that cuDNN's heuristic names, those may be taken that are deterministic and
// multiply and add as the definition says: no Winograd, whose rounding is worse, no Fourier
// transforms. The first of them is, unless timing has chosen: `candidates` lists them all in the
// heuristic's order, then our own forms, matrix products for a convolution without groups
// (convolution_unfolded.cpp) and the definition itself (convolution_direct.cu), of which the first
// is taken where cuDNN has nothing. An algorithm that cuDNN names and then refuses to run, which a
// trial shows (trial.h), is no candidate. Bound by FLOP. Bias and relu are kernels behind it: whether
// cuDNN's fused relu lets a NaN through is not documented.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "runtime/device/body_kernel.h"
#include "runtime/device/cuda/check.h"
#include "runtime/device/cuda/convolution_description.h"
#include "runtime/device/cuda/convolution_forms.h"
#include "runtime/device/cuda/epilogue.h"
#include "runtime/device/cuda/if_aligned.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/libraries.h"
#include "runtime/device/cuda/trial.h"
#include "runtime/device/cuda/workspace.h"
#include "runtime/device/kernels/convolution.h"
#include "runtime/device/kernels/elementwise.h"

namespace meshwork::cuda {

namespace {

constexpr std::size_t most_convolution_workspace = std::size_t{512} << 20;

/// Whether the convolution adds up anything.
bool has_terms(const ConvolutionShape& at) {
  return input_count(at) > 0 && output_count(at) > 0;
}

// The names of candidates, as cuDNN has them; null for an algorithm that is not taken.

const char* name_of(cudnnConvolutionFwdAlgo_t algorithm) {
  switch (algorithm) {
    case CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM:
      return "implicit_gemm";
    case CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM:
      return "implicit_precomp_gemm";
    case CUDNN_CONVOLUTION_FWD_ALGO_GEMM:
      return "gemm";
    case CUDNN_CONVOLUTION_FWD_ALGO_DIRECT:
      return "cudnn_direct";
    default:
      return nullptr;
  }
}
const char* name_of(cudnnConvolutionBwdDataAlgo_t algorithm) {
  switch (algorithm) {
    case CUDNN_CONVOLUTION_BWD_DATA_ALGO_0:
      return "algo_0";
    case CUDNN_CONVOLUTION_BWD_DATA_ALGO_1:
      return "algo_1";
    default:
      return nullptr;
  }
}
const char* name_of(cudnnConvolutionBwdFilterAlgo_t algorithm) {
  switch (algorithm) {
    case CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0:
      return "algo_0";
    case CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1:
      return "algo_1";
    case CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3:
      return "algo_3";
    default:
      return nullptr;
  }
}

template <class Algorithm>
struct Choice {
  Algorithm algorithm;
  std::size_t workspace;
};

/// The algorithms that may be taken, each once, in the order of the heuristic's list.
/// `list(count, &found, results)` asks the heuristic, `size(algorithm, &bytes)` for the workspace.
template <class Result, class List, class Size>
auto choices(cudnnMathType_t math, const List& list, const Size& size) {
  std::vector<Choice<decltype(Result::algo)>> taken;
  constexpr int most_results = 16;
  std::array<Result, most_results> results{};
  int found = 0;
  const cudnnStatus_t status = list(most_results, &found, results.data());
  // Whatever the library says, there are forms of our own.
  if (status != CUDNN_STATUS_SUCCESS) return taken;
  for (int i = 0; i < found; ++i) {
    const Result& result = results[static_cast<std::size_t>(i)];
    const bool plain_math = result.mathType == CUDNN_FMA_MATH ||
                            result.mathType == CUDNN_DEFAULT_MATH ||
                            (math == CUDNN_DEFAULT_MATH && result.mathType == CUDNN_TENSOR_OP_MATH);
    const bool known = std::any_of(taken.begin(), taken.end(), [&](const auto& other) {
      return other.algorithm == result.algo;
    });
    std::size_t bytes = 0;
    if (result.status == CUDNN_STATUS_SUCCESS && result.determinism == CUDNN_DETERMINISTIC &&
        plain_math && !known && name_of(result.algo) != nullptr &&
        size(result.algo, &bytes) == CUDNN_STATUS_SUCCESS && bytes <= most_convolution_workspace) {
      taken.push_back({result.algo, bytes});
    }
  }
  return taken;
}

constexpr float one = 1, zero = 0;

/// What the three have in common: their workspace, and operands as cuDNN wants them.
template <class PerfOfAlgorithm>
class CudnnKernel : public Kernel {
 public:
  using Result = PerfOfAlgorithm;
  using Taken = Choice<decltype(Result::algo)>;

  CudnnKernel(Description of, const Taken& choice, const Context& context)
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
    shift_volumes(launcher(), of_.shift(), x, to.x, of_.rounds);
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
  Taken choice_;
  Context context_;
};

class Forward final : public CudnnKernel<cudnnConvolutionFwdAlgoPerf_t> {
 public:
  static constexpr std::initializer_list<std::size_t> images{0, 2};  // x, y
  static std::array<std::int64_t, 3> operand_counts(const ConvolutionShape& at) {
    return {input_count(at), kernel_count(at), output_count(at)};
  }
  using CudnnKernel::CudnnKernel;

  static auto choices_for(const Description& of, cudnnHandle_t dnn) {
    return choices<Result>(
        of.math,
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
  static constexpr std::initializer_list<std::size_t> images{0, 2};  // dy, dx
  static std::array<std::int64_t, 3> operand_counts(const ConvolutionShape& at) {
    return {output_count(at), kernel_count(at), input_count(at)};
  }
  using CudnnKernel::CudnnKernel;

  static auto choices_for(const Description& of, cudnnHandle_t dnn) {
    return choices<Result>(
        of.math,
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
      shift_volumes(launcher(), of_.shift().back(), dx, meshwork::at(operands, 2), false);
    }
  }
};

class KernelGradient final : public CudnnKernel<cudnnConvolutionBwdFilterAlgoPerf_t> {
 public:
  static constexpr std::initializer_list<std::size_t> images{0, 1};  // x, dy
  static std::array<std::int64_t, 3> operand_counts(const ConvolutionShape& at) {
    return {input_count(at), output_count(at), kernel_count(at)};
  }
  using CudnnKernel::CudnnKernel;

  static auto choices_for(const Description& of, cudnnHandle_t dnn) {
    return choices<Result>(
        of.math,
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

/// Writes zeros to operand 2, of `count` elements.
KernelPointer zeros(std::int64_t count, const Context& context) {
  KernelPointer zero = compile(ZeroSpec{count * static_cast<std::int64_t>(sizeof(float))}, context);
  return make_kernel([zero = std::move(zero)](void* const* operands) { zero->run(operands + 2); });
}

/// The first `most` candidates, and those of our own that need no trial. For shapes that have terms,
/// without bias and activation.
template <class Form, class Spec>
std::vector<KernelCandidate> forms(const Spec& spec, const Context& context, std::size_t most) {
  std::vector<KernelCandidate> found;
  std::string problem;
  if (fits(spec.at)) {
    std::vector<typename Form::Taken> choices;
    problem = refusal([&] {
      const Description of(spec.at, spec.precision, context);
      choices = Form::choices_for(of, context.libraries->dnn());
      return std::string(choices.empty() ? "cuDNN names no algorithm" : "");
    });
    for (const auto& choice : choices) {
      if (found.size() == most) break;
      const char* const name = name_of(choice.algorithm);
      const bool stands =
          context.trials->stands(spec.text(), name, name, Trials::Untried::taken, [&] {
            Form form(Description(spec.at, spec.precision, context), choice, context);
            std::vector<TrialOperand> operands;
            for (const std::int64_t count : Form::operand_counts(spec.at)) {
              operands.push_back({count * static_cast<std::int64_t>(sizeof(float))});
            }
            return refusal_to_run(form, operands, context);
          });
      if (!stands) continue;
      found.push_back({name, [spec, choice, context]() -> KernelPointer {
                         Description description(spec.at, spec.precision, context);
                         // cuDNN does not say how it wants images aligned.
                         return std::make_unique<IfAligned>(
                             std::make_unique<Form>(std::move(description), choice, context),
                             compile_direct(spec, context), Form::images);
                       }});
    }
  }
  const bool unfolds = spec.at.groups == 1;
  if (!problem.empty()) {
    context.trials->note_last_resort(
        spec.text(),
        fmt::format("{} ({})", unfolds ? "an unfolded product" : "a slow kernel of our own",
                    problem));
  }
  if (unfolds) {
    found.push_back({"unfolded", [spec, context] { return compile_unfolded(spec, context); }});
  }
  found.push_back({"direct", [spec, context] { return compile_direct(spec, context); }});
  return found;
}

constexpr std::size_t all = std::numeric_limits<std::size_t>::max();

std::vector<KernelCandidate> listed(const ConvolutionSpec& spec, const Context& context,
                                    std::size_t most) {
  std::vector<KernelCandidate> found =
      forms<Forward>(ConvolutionSpec{.at = spec.at, .precision = spec.precision}, context, most);
  const Epilogue epilogue{.rows = output_count(spec.at) / spec.at.filters,
                          .columns = spec.at.filters,
                          .bias = spec.bias,
                          .activation = spec.activation};
  for (KernelCandidate& one : found) {
    one.compile = [alone = std::move(one.compile), epilogue, context] {
      return with_epilogue(alone(), epilogue, context);
    };
  }
  return found;
}

std::vector<KernelCandidate> listed(const ConvolutionInputGradientSpec& spec,
                                    const Context& context, std::size_t most) {
  return forms<InputGradient>(spec, context, most);
}

std::vector<KernelCandidate> listed(const ConvolutionKernelGradientSpec& spec,
                                    const Context& context, std::size_t most) {
  return forms<KernelGradient>(spec, context, most);
}

/// The one that is taken where nobody chooses.
KernelPointer compile_first(const auto& spec, const Context& context) {
  return listed(spec, context, 1).front().compile();
}

std::vector<KernelCandidate> candidates(const ConvolutionSpec& spec, const Context& context) {
  return has_terms(spec.at) ? listed(spec, context, all) : std::vector<KernelCandidate>();
}

std::vector<KernelCandidate> candidates(const ConvolutionInputGradientSpec& spec,
                                        const Context& context) {
  return has_terms(spec.at) ? listed(spec, context, all) : std::vector<KernelCandidate>();
}

std::vector<KernelCandidate> candidates(const ConvolutionKernelGradientSpec& spec,
                                        const Context& context) {
  return has_terms(spec.at) ? listed(spec, context, all) : std::vector<KernelCandidate>();
}

KernelPointer compile(const ConvolutionSpec& spec, const Context& context) {
  const ConvolutionShape& at = spec.at;
  if (output_count(at) == 0) return make_kernel([](void* const*) {});
  if (has_terms(at)) return compile_first(spec, context);
  return with_epilogue(zeros(output_count(at), context),
                       {.rows = output_count(at) / at.filters,
                        .columns = at.filters,
                        .bias = spec.bias,
                        .activation = spec.activation},
                       context);
}

KernelPointer compile(const ConvolutionInputGradientSpec& spec, const Context& context) {
  return has_terms(spec.at) ? compile_first(spec, context) : zeros(input_count(spec.at), context);
}

KernelPointer compile(const ConvolutionKernelGradientSpec& spec, const Context& context) {
  return has_terms(spec.at) ? compile_first(spec, context) : zeros(kernel_count(spec.at), context);
}

}  // namespace

void add_convolution(Kernels& kernels) {
  kernels.add<ConvolutionSpec, ConvolutionInputGradientSpec, ConvolutionKernelGradientSpec>(
      [](const auto& spec, const Context& context) { return compile(spec, context); });
  kernels
      .add_candidates<ConvolutionSpec, ConvolutionInputGradientSpec, ConvolutionKernelGradientSpec>(
          [](const auto& spec, const Context& context) { return candidates(spec, context); });
}

}  // namespace meshwork::cuda
