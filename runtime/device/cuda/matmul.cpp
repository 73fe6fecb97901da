// Matrix products, by cuBLASLt.
//
// Descriptors, algorithm and workspace are settled when the kernel is made; a run hands over
// addresses. `candidates` lists the ways to compute a product: the algorithms that the library's
// heuristic ranks, each with what the product takes along (kernels/products.h) in its epilogue
// (product.h) or, in kernels of our own, behind it. The first is taken where nobody chooses: the
// heuristic is a function of shape, GPU and library, so ranks with the same GPU agree without
// talking, and a resumed run takes the same. Only reductions over split sums whose order is fixed
// are admitted: none, or those of a step of their own in float32.
//
// Parameters are packed, so that a small operand begins at any multiple of 4; large ones, and all
// in a program's arena, begin at multiples of 16, for which there are faster algorithms. A product
// whose matrices are large has one for each, and takes it by the addresses: these are alike on all
// ranks. Where a small weight lies depends on what the rank holds before it, so that ranks with
// copies of it would part; for those there is only the one for any address.
//
// float32 is CUBLAS_COMPUTE_32F without TF32, tf32 is CUBLAS_COMPUTE_32F_FAST_TF32, and bfloat16
// takes operands that are stored in it; if they are not, they are narrowed into the workspace
// first. Sums and results are float32, alpha = 1, beta = 0 or 1.
//
// Where the heuristic has no algorithm with an epilogue, there is no such candidate. What an
// epilogue has to be tried for is tried when the kernel is made (product_trials.h); where that
// fails, the product is computed without it.
//
// Bound by FLOP from some hundred rows on; below by the launch.
#include <cublasLt.h>

#include <string_view>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "runtime/device/body_kernel.h"
#include "runtime/device/cuda/compile.h"
#include "runtime/device/cuda/gradient_epilogue.h"
#include "runtime/device/cuda/narrow_inputs.h"
#include "runtime/device/cuda/product.h"
#include "runtime/device/cuda/product_trials.h"

namespace meshwork::cuda {

namespace {

/// The sum over no terms: the bias, or 0, in every row.
KernelPointer empty_sum(const MatmulSpec& spec, const Context& context) {
  if (spec.accumulate) return make_kernel([](void* const*) {});
  KernelPointer zero =
      compile(ZeroSpec{spec.m * spec.n * static_cast<std::int64_t>(sizeof(float))}, context);
  KernelPointer product =
      make_kernel([zero = std::move(zero)](void* const* operands) { zero->run(operands + 2); });
  return finished(std::move(product), spec, bare(spec), context);
}

/// What rides in the library's epilogue.
struct Way {
  std::string_view name;
  MatmulSpec fused;
};

MatmulSpec without_relu(MatmulSpec spec) {
  spec.activation = Activation::linear;
  spec.mask = false;
  return spec;
}

std::vector<Way> ways_of(const MatmulSpec& spec) {
  if (spec == bare(spec)) return {{"all fused", spec}};
  std::vector<Way> ways;
  // The library has the derivative of relu alone, from a mask, and a mask is tried by a bias.
  const bool has_epilogue =
      spec.derivative == Activation::linear ? spec.bias || !spec.mask : spec.mask;
  if (has_epilogue) ways.push_back({"all fused", spec});
  if (spec.bias && spec.activation == Activation::relu) {
    ways.push_back({"bias fused", without_relu(spec)});
  }
  ways.push_back({"none fused", bare(spec)});
  return ways;
}

KernelPointer compile_way(const MatmulSpec& spec, const Context& context, MatmulSpec fused,
                          const Algorithm& aligned, const Algorithm& packed) {
  auto product = std::make_unique<Product>(fused, context);
  product->take(aligned, packed);
  if (!stands_trial(*product, fused, context)) {
    fused = fused.activation == Activation::relu ? without_relu(fused) : bare(fused);
    product = std::make_unique<Product>(fused, context);
    const auto best_for = [&](std::uint32_t alignment) {
      const std::vector<Algorithm> found = product->algorithms(alignment);
      if (found.empty()) {
        fail(
            "{}: cuBLASLt {} does not keep to what its epilogue is to do, and has no algorithm "
            "without it",
            *context.launcher.name, cublasLtGetVersion());
      }
      return found.front();
    };
    product->take(best_for(good_alignment), best_for(least_alignment));
  }
  return finished(std::move(product), spec, fused, context);
}

bool has_terms(const MatmulSpec& spec) {
  return spec.m > 0 && spec.n > 0 && spec.k > 0;
}

/// The product of operands that are narrowed before.
KernelPointer narrowed_first(const MatmulSpec& spec, const Context& context,
                             KernelPointer of_narrow_operands) {
  return with_narrow_inputs(std::move(of_narrow_operands), operand_count(spec), spec.m * spec.k,
                            spec.k * spec.n, context);
}

}  // namespace

std::vector<KernelCandidate> candidates(const MatmulSpec& spec, const Context& context) {
  if (!has_terms(spec)) return {};
  if (spec.precision == Precision::bfloat16 && !spec.narrow) {
    MatmulSpec stored = spec;
    stored.narrow = true;
    std::vector<KernelCandidate> found = candidates(stored, context);
    for (KernelCandidate& candidate : found) {
      candidate.compile = [=, inner = std::move(candidate.compile)] {
        return narrowed_first(spec, context, inner());
      };
    }
    return found;
  }
  std::vector<KernelCandidate> found;
  for (const Way& way : ways_of(spec)) {
    const Product product(way.fused, context);
    const std::vector<Algorithm> packed = product.algorithms(least_alignment);
    if (packed.empty()) continue;
    std::vector<Algorithm> aligned = product.algorithms(good_alignment);
    if (aligned.empty()) aligned = packed;
    for (std::size_t i = 0; i < aligned.size(); ++i) {
      found.push_back({fmt::format("{}, {}", way.name, i),
                       [=, of_aligned = aligned[i], of_packed = packed.front()] {
                         return compile_way(spec, context, way.fused, of_aligned, of_packed);
                       }});
    }
  }
  return found;
}

KernelPointer compile(const MatmulSpec& spec, const Context& context) {
  if (!has_terms(spec)) return empty_sum(spec, context);
  const std::vector<KernelCandidate> all = candidates(spec, context);
  if (all.empty()) {
    fail("{}: cuBLASLt {} has no deterministic algorithm for it on this GPU",
         *context.launcher.name, cublasLtGetVersion());
  }
  return all.front().compile();
}

}  // namespace meshwork::cuda
