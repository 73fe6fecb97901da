// Convolutions and their gradients, on images and volumes with channels last.
//
// Three forms, which are the candidates: "channels-last" and "blocked", oneDNN's primitives on
// images as they lie in memory, or reordered before and behind (convolution_native.cpp); and
// "unfolded", products with unfolded images (convolution_unfolded.cpp), which covers all there is.
//
// The rule takes the first, unless oneDNN computes it only by loops or by its own unfolding: its
// implementation is called "ref" or "gemm". Then it takes the last. Measured on one
// Cascade Lake core (AVX-512, about 150 GFLOP/s at its clock; oneDNN 2.6.3; batch 64; fastest runs
// on a busy machine), ms forward, input gradient, kernel gradient:
//
//                                     oneDNN, channels last   blocked, reordered   its gemm form
//   28x28x12 to 14x14x24 by 6x6 / 2   5.4   5.1   6.2         5.0   6.6  12.3      39   6.1   36
//   14x14x24 to  7x7x32  by 6x6 / 2   1.2   3.4   1.9         2.0   2.0   3.5      18   2.8   26
//   14x14x64 to 14x14x64 by 3x3       6.8   9.0   8.1         8.1  10.3   8.4      37    19   16
//
// It is right for volumes too: of the 14 kernels of configs/volume_regression.yaml's convolutions,
// timing takes another form for four, three of them of the smallest layer (one Zen 4 core, busy).
//
// In bfloat16 the same rule holds, and operands are rounded on their way into oneDNN's memory;
// where it has nothing of its own, or the processor gains nothing from instructions, it is the rule
// for float32, of rounded operands. Kernels of rounded operands are always candidates.
//
// Bound by FLOP: 14x14x64 by 3x3 runs forward at 137 GFLOP/s, 0.9 of the peak, its gradients at 0.7
// to 0.75; 12 channels and 24 filters fill 12 of 16 and 24 of 32 lanes, and the middle one of the
// network runs at 50 GFLOP/s. Reordering the kernel costs 0.001 to 0.015 ms.
//
// Winograd's algorithm is no candidate: it has no 6x6 window and no stride, and where it is faster,
// on 3x3 windows and 16 to 64 channels (forward with reorders 0.7 to 0.85 of the direct time), it
// is less accurate.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "runtime/device/cpu/bfloat16_instructions.h"
#include "runtime/device/cpu/bfloat16_rounding.h"
#include "runtime/device/cpu/convolution_forms.h"
#include "runtime/device/cpu/dnnl_version.h"
#include "runtime/device/cpu/epilogue.h"
#include "runtime/device/cpu/loops.h"
#include "runtime/device/kernels/convolution.h"

namespace meshwork::cpu {

namespace {

/// Whether the convolution adds up anything.
bool has_terms(const ConvolutionShape& at) {
  return input_count(at) > 0 && output_count(at) > 0;
}

/// Writes zeros to operand 2, of `count` elements.
KernelPointer zeros(std::int64_t count, const Context& context) {
  return make_kernel([=, threads = context.threads](void* const* operands) {
    float* to = meshwork::at(operands, 2);
    for_ranges(threads, count, 4, [=](std::int64_t begin, std::int64_t end) {
      std::fill(to + begin, to + end, 0.0f);
    });
  });
}

// Elements of the two that are multiplied.
std::array<std::int64_t, 2> factors_of(const ConvolutionSpec& spec) {
  return {input_count(spec.at), kernel_count(spec.at)};
}
std::array<std::int64_t, 2> factors_of(const ConvolutionInputGradientSpec& spec) {
  return {output_count(spec.at), kernel_count(spec.at)};
}
std::array<std::int64_t, 2> factors_of(const ConvolutionKernelGradientSpec& spec) {
  return {input_count(spec.at), output_count(spec.at)};
}

/// How images look to the kernel.
enum class Form : std::uint8_t { channels_last, blocked, unfolded };

/// A way to compute a convolution that has terms.
struct Way {
  Form form = Form::channels_last;
  bool of_rounded = false;  // in bfloat16: in float32, of rounded operands
};

std::string name_of(const Way& way) {
  constexpr std::array<std::string_view, 3> names{"channels-last", "blocked", "unfolded"};
  const std::string_view name = names[static_cast<std::size_t>(way.form)];
  return way.of_rounded ? rounded_name(name) : std::string(name);
}

/// Those there may be, in the order of the rule. Unfolded there always is; the rest is for timing.
std::vector<Way> ways_in(Precision precision) {
  const bool narrow = precision == Precision::bfloat16;
  const bool by_instructions = narrow && uses_bfloat16_instructions();
  std::vector<Way> ways;
  if (by_instructions) ways.push_back({Form::channels_last});
  for (const Form form : {Form::channels_last, Form::unfolded, Form::blocked}) {
    ways.push_back({form, narrow});
  }
  if (by_instructions) ways.push_back({Form::blocked});
  return ways;
}

/// oneDNN's primitive, or null.
template <class Spec>
KernelPointer compile_by_library(const Spec& spec, Form form) {
  try {
    return compile_native(
        spec, form == Form::blocked ? ImageFormat::blocked : ImageFormat::channels_last);
  } catch (const dnnl::error& error) {
    // oneDNN has no implementation at all; any other failure is one.
    if (error.status == dnnl_unimplemented) return nullptr;
    fail("oneDNN cannot make {}: {} (status {})", spec.text(), error.what(),
         static_cast<int>(error.status));
  }
}

/// The convolution without activation, and unfolded without bias. Null where there is no such way.
template <class Spec>
KernelPointer compile_alone(const Spec& spec, const Way& way, const Context& context) {
  if (way.of_rounded) {
    Spec in_float32 = spec;
    in_float32.precision = Precision::float32;
    KernelPointer wide = compile_alone(in_float32, Way{way.form}, context);
    if (!wide) return nullptr;
    const auto [first, second] = factors_of(spec);
    return with_rounded_inputs(std::move(wide), operand_count(spec), first, second, context);
  }
  return way.form == Form::unfolded ? compile_unfolded(spec, context)
                                    : compile_by_library(spec, way.form);
}

/// Null where there is no such way.
template <class Spec>
KernelPointer compile_way(const Spec& spec, const Way& way, const Context& context) {
  if constexpr (std::is_same_v<Spec, ConvolutionSpec>) {
    if (spec.activation != Activation::linear || (spec.bias && way.form == Form::unfolded)) {
      const ConvolutionSpec alone{.at = spec.at, .precision = spec.precision};
      KernelPointer kernel = compile_alone(alone, way, context);
      if (!kernel) return nullptr;
      return with_epilogue(std::move(kernel), output_count(spec.at) / spec.at.filters,
                           spec.at.filters, spec.bias, spec.activation, context);
    }
  }
  return compile_alone(spec, way, context);
}

/// By the rule: the first there is.
template <class Spec>
KernelPointer compile_by_rule(const Spec& spec, const Context& context) {
  for (const Way& way : ways_in(spec.precision)) {
    if (KernelPointer kernel = compile_way(spec, way, context)) return kernel;
  }
  internal_error("a convolution that cannot even be unfolded");
}

/// What there is, the one of the rule first.
template <class Spec>
std::vector<KernelCandidate> ways_of(const Spec& spec, const Context& context) {
  std::vector<KernelCandidate> found;
  if (!has_terms(spec.at)) return found;
  for (const Way& way : ways_in(spec.precision)) {
    if (way.form == Form::unfolded || compile_way(spec, way, context)) {
      found.push_back({name_of(way), [=] { return compile_way(spec, way, context); }});
    }
  }
  return found;
}

KernelPointer compile(const ConvolutionSpec& spec, const Context& context) {
  if (output_count(spec.at) == 0) return make_kernel([](void* const*) {});
  if (has_terms(spec.at)) return compile_by_rule(spec, context);
  if (!spec.bias && spec.activation == Activation::linear) {
    return zeros(output_count(spec.at), context);
  }
  return with_epilogue(zeros(output_count(spec.at), context),
                       output_count(spec.at) / spec.at.filters, spec.at.filters, spec.bias,
                       spec.activation, context);
}

KernelPointer compile(const ConvolutionInputGradientSpec& spec, const Context& context) {
  return has_terms(spec.at) ? compile_by_rule(spec, context) : zeros(input_count(spec.at), context);
}

KernelPointer compile(const ConvolutionKernelGradientSpec& spec, const Context& context) {
  return has_terms(spec.at) ? compile_by_rule(spec, context)
                            : zeros(kernel_count(spec.at), context);
}

std::vector<KernelCandidate> candidates(const ConvolutionSpec& spec, const Context& context) {
  return ways_of(spec, context);
}
std::vector<KernelCandidate> candidates(const ConvolutionInputGradientSpec& spec,
                                        const Context& context) {
  return ways_of(spec, context);
}
std::vector<KernelCandidate> candidates(const ConvolutionKernelGradientSpec& spec,
                                        const Context& context) {
  return ways_of(spec, context);
}

}  // namespace

void add_convolution(Kernels& kernels) {
  kernels.add<ConvolutionSpec, ConvolutionInputGradientSpec, ConvolutionKernelGradientSpec>(
      [](const auto& spec, const Context& context) { return compile(spec, context); });
  kernels
      .add_candidates<ConvolutionSpec, ConvolutionInputGradientSpec, ConvolutionKernelGradientSpec>(
          [](const auto& spec, const Context& context) { return candidates(spec, context); });
}

}  // namespace meshwork::cpu
