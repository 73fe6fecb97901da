// Convolutions and their gradients, on images with channels last.
//
// Two forms: oneDNN's primitives (convolution_native.cpp); and, for what oneDNN computes only by
// loops or by its own unfolding, products with unfolded images (convolution_unfolded.cpp), which
// cover all that there is.
//
// The rule is fixed: oneDNN, unless its implementation is called "ref" or "gemm". Measured on one
// Cascade Lake core (AVX-512, about 150 GFLOP/s at its clock; oneDNN 2.6.3; batch 64; fastest runs
// on a busy machine), ms forward, input gradient, kernel gradient:
//
//                                     oneDNN, channels last   blocked, reordered   its gemm form
//   28x28x12 to 14x14x24 by 6x6 / 2   5.4   5.1   6.2         5.0   6.6  12.3      39   6.1   36
//   14x14x24 to  7x7x32  by 6x6 / 2   1.2   3.4   1.9         2.0   2.0   3.5      18   2.8   26
//   14x14x64 to 14x14x64 by 3x3       6.8   9.0   8.1         8.1  10.3   8.4      37    19   16
//
// In bfloat16 the same rule holds, and operands are rounded on their way into oneDNN's memory; where
// it has nothing of its own, or the processor no instructions, a kernel for float32 runs on rounded
// operands.
//
// Bound by FLOP: 14x14x64 by 3x3 runs forward at 137 GFLOP/s, 0.9 of the peak, its gradients at 0.7
// to 0.75; 12 channels and 24 filters fill 12 of 16 and 24 of 32 lanes, and the middle one of the
// network runs at 50 GFLOP/s. Reordering the kernel costs 0.001 to 0.015 ms.
//
// Choosing by timing would change nothing for these: on a Zen 4 core too, blocked formats take from
// 0.97 to 1.3 times as long, and Winograd's algorithm has no 6x6 window and no stride. It would for
// 3x3 on 16 to 64 channels (forward with reorders 0.7 to 0.85 of the direct time, which is what a
// residual network is made of), at the price of results that depend on the shape of the blocks.
#include <algorithm>
#include <array>
#include <string>
#include <type_traits>

#include "collectives/error.h"
#include "runtime/device/cpu/bfloat16_product.h"
#include "runtime/device/cpu/bfloat16_rounding.h"
#include "runtime/device/cpu/convolution_forms.h"
#include "runtime/device/cpu/dnnl_version.h"
#include "runtime/device/cpu/epilogue.h"
#include "runtime/device/cpu/loops.h"

namespace meshwork::cpu {

namespace {

/// Whether the convolution adds up anything.
bool has_terms(const ConvolutionShape& at) {
  return input_count(at) > 0 && output_count(at) > 0;
}

/// The convolution alone, then bias and activation.
KernelPointer with_bias(const ConvolutionSpec& spec, const Context& context) {
  const ConvolutionSpec alone{.at = spec.at, .precision = spec.precision};
  return with_epilogue(compile(alone, context), output_count(spec.at) / spec.at.filters,
                       spec.at.filters, spec.bias, spec.activation, context);
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

template <class Spec>
KernelPointer compile_either(const Spec& spec, const Context& context) {
  const bool rounds = spec.precision == Precision::bfloat16;
  try {
    if (!rounds || has_bfloat16_instructions()) {
      if (KernelPointer native = compile_native(spec)) return native;
    }
  } catch (const dnnl::error& error) {
    // oneDNN has no implementation at all; any other failure is one.
    if (error.status != dnnl_unimplemented) {
      fail("oneDNN cannot make {}: {} (status {})", describe(spec), error.what(),
           static_cast<int>(error.status));
    }
  }
  if constexpr (std::is_same_v<Spec, ConvolutionSpec>) {
    if (spec.bias) return with_bias(spec, context);
  }
  if (rounds) {
    Spec rounded = spec;
    rounded.precision = Precision::float32;
    const auto [first, second] = factors_of(spec);
    return with_rounded_inputs(compile(rounded, context), 3, first, second, context);
  }
  return compile_unfolded(spec, context);
}

}  // namespace

KernelPointer compile(const ConvolutionSpec& spec, const Context& context) {
  if (output_count(spec.at) == 0) return make_kernel([](void* const*) {});
  if (spec.activation != Activation::linear || (spec.bias && !has_terms(spec.at))) {
    return with_bias(spec, context);
  }
  return has_terms(spec.at) ? compile_either(spec, context) : zeros(output_count(spec.at), context);
}

KernelPointer compile(const ConvolutionInputGradientSpec& spec, const Context& context) {
  return has_terms(spec.at) ? compile_either(spec, context) : zeros(input_count(spec.at), context);
}

KernelPointer compile(const ConvolutionKernelGradientSpec& spec, const Context& context) {
  return has_terms(spec.at) ? compile_either(spec, context) : zeros(kernel_count(spec.at), context);
}

}  // namespace meshwork::cpu
