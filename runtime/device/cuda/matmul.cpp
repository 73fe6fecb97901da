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
// ranks. Where the library has none for any address, the definition is taken there. Where a small
// weight lies depends on what the rank holds before it, so that ranks with copies of it would part;
// for those there are only algorithms for any address.
//
// float32 is CUBLAS_COMPUTE_32F without TF32, tf32 is CUBLAS_COMPUTE_32F_FAST_TF32, and bfloat16
// takes operands that are stored in it; if they are not, they are narrowed into the workspace
// first. Sums and results are float32, alpha = 1, beta = 0 or 1.
//
// Where the heuristic has no algorithm with an epilogue, there is no such candidate. Each algorithm
// is tried once on the GPU (product_trials.h), and one that is refused is no candidate either. Where the library has nothing for a product in tf32, float32's is
// taken, and where it has nothing at all, the definition (product_direct.cu); both are said.
//
// Bound by FLOP from some hundred rows on; below by the launch.
#include <cublasLt.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "runtime/device/body_kernel.h"
#include "runtime/device/cuda/gradient_epilogue.h"
#include "runtime/device/cuda/if_aligned.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/narrow_inputs.h"
#include "runtime/device/cuda/product.h"
#include "runtime/device/cuda/product_trials.h"
#include "runtime/device/cuda/trial.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/products.h"

namespace meshwork::cuda {

namespace {

/// The sum over no terms: the bias, or 0, in every row.
KernelPointer empty_sum(const MatmulSpec& spec, const Context& context) {
  if (spec.accumulate) return make_kernel([](void* const*) {});
  KernelPointer zero =
      compile(ZeroSpec{spec.c_count() * static_cast<std::int64_t>(sizeof(float))}, context);
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

/// The definition, with all that `spec` takes along.
KernelPointer direct(const MatmulSpec& spec, const Context& context) {
  return finished(compile_direct(bare(spec), context), spec, bare(spec), context);
}

/// `packed`: the algorithm for any address; null where the library has none.
KernelPointer compile_way(const MatmulSpec& spec, const Context& context, const MatmulSpec& fused,
                          const Algorithm& aligned, const std::optional<Algorithm>& packed) {
  auto product = std::make_unique<Product>(fused, context);
  product->take(aligned, packed.value_or(aligned));
  KernelPointer made = finished(std::move(product), spec, fused, context);
  if (packed) return made;
  const std::vector<std::size_t> asked{0, 1, static_cast<std::size_t>(result_operand(spec))};
  return std::make_unique<IfAligned>(std::move(made), direct(spec, context), asked);
}

/// Whether `way` by `algorithm` does what it should on operands at multiples of `alignment`.
bool stands(const Way& way, const Algorithm& algorithm, std::uint32_t alignment,
            std::string_view name, const Context& context) {
  const std::string key =
      fmt::format("at {}\n{}", alignment,
                  std::string_view(reinterpret_cast<const char*>(&algorithm.algorithm),
                                   sizeof(algorithm.algorithm)));
  const auto untried =
      way.fused == bare(way.fused) ? Trials::Untried::taken : Trials::Untried::left;
  return context.trials->stands(way.fused.text(), name, key, untried, [&] {
    Product product(way.fused, context);
    product.take(algorithm, algorithm);
    return refusal(product, way.fused, alignment, context);
  });
}

/// The product of operands that are narrowed before.
KernelPointer narrowed_first(const MatmulSpec& spec, const Context& context,
                             KernelPointer of_narrow_operands) {
  return with_narrow_inputs(std::move(of_narrow_operands), operand_count(spec), spec.a_count(),
                            spec.b_count(), context);
}

/// Adds the candidates of one way to `found` until there are `most`. One whose matrices are not
/// large takes algorithms for any address alone.
void add_way(std::vector<KernelCandidate>& found, const Way& way, const MatmulSpec& spec,
             const Context& context, std::size_t most) {
  const Product product(way.fused, context);
  const auto add = [&](std::string name, const Algorithm& algorithm,
                       const std::optional<Algorithm>& packed) {
    found.push_back({std::move(name),
                     [=] { return compile_way(spec, context, way.fused, algorithm, packed); }});
  };
  std::optional<Algorithm> for_any;
  int number = 0;
  for (const Algorithm& algorithm : product.algorithms(least_alignment)) {
    const std::string name = fmt::format("{}, any address, {}", way.name, number++);
    if (!stands(way, algorithm, least_alignment, name, context)) continue;
    for_any = algorithm;
    if (product.is_large()) break;
    if (found.size() < most) add(name, algorithm, algorithm);
    if (found.size() >= most) return;
  }
  if (!product.is_large()) return;
  bool is_any_aligned = false;
  number = 0;
  for (const Algorithm& algorithm : product.algorithms(good_alignment)) {
    if (found.size() >= most) return;
    const std::string name = fmt::format("{}, {}", way.name, number++);
    if (!stands(way, algorithm, good_alignment, name, context)) continue;
    add(name, algorithm, for_any);
    is_any_aligned = true;
  }
  if (!is_any_aligned && for_any) add(fmt::format("{}, any address", way.name), *for_any, for_any);
}

/// For a product that adds up something: the first `most` candidates, at least one.
std::vector<KernelCandidate> first_candidates(const MatmulSpec& spec, const Context& context,
                                              std::size_t most) {
  std::vector<KernelCandidate> found;
  if (spec.precision == Precision::bfloat16 && !spec.narrow) {
    MatmulSpec stored = spec;
    stored.narrow = true;
    found = first_candidates(stored, context, most);
    for (KernelCandidate& candidate : found) {
      candidate.compile = [=, inner = std::move(candidate.compile)] {
        return narrowed_first(spec, context, inner());
      };
    }
    return found;
  }
  for (const Way& way : ways_of(spec)) {
    if (found.size() < most) add_way(found, way, spec, context, most);
  }
  if (!found.empty()) return found;
  if (spec.precision == Precision::tf32) {
    context.trials->note_last_resort(spec.text(), "a product in float32");
    MatmulSpec exact = spec;
    exact.precision = Precision::float32;
    found = first_candidates(exact, context, most);
    for (KernelCandidate& candidate : found) candidate.name = "in float32, " + candidate.name;
    return found;
  }
  context.trials->note_last_resort(spec.text(), "a slow kernel of our own");
  found.push_back({"direct", [=] { return direct(spec, context); }});
  return found;
}

std::vector<KernelCandidate> candidates(const MatmulSpec& spec, const Context& context) {
  if (!has_terms(spec)) return {};
  return first_candidates(spec, context, std::numeric_limits<std::size_t>::max());
}

KernelPointer compile(const MatmulSpec& spec, const Context& context) {
  if (!has_terms(spec)) return empty_sum(spec, context);
  return first_candidates(spec, context, 1).front().compile();
}

}  // namespace

void add_matmul(Kernels& kernels) {
  kernels.add<MatmulSpec>(
      [](const auto& spec, const Context& context) { return compile(spec, context); });
  kernels.add_candidates<MatmulSpec>(
      [](const auto& spec, const Context& context) { return candidates(spec, context); });
}

}  // namespace meshwork::cuda
