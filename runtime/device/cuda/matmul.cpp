// Matrix products, by cuBLASLt.
//
// Descriptors, algorithm and workspace are settled when the kernel is made; a run hands over
// addresses. `candidates` lists the ways to compute a product: the algorithms that the library's
// heuristic ranks, each with bias and relu in its epilogue or, in kernels of our own, behind it.
// The first is taken where nobody chooses: the heuristic is a function of shape, GPU and library,
// so ranks with the same GPU agree without talking, and a resumed run takes the same. Only
// reductions over split sums whose order is fixed are admitted: none, or those of a step of their
// own in float32.
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
// Of the epilogues, relu has to let a NaN through, and the library does not say whether its own
// does: so a fused one is tried, on operands of NaN, when the kernel is made; where the NaN is
// lost, our own relu runs behind the product. Gelu is not among them: cuBLASLt has the
// approximation by tanh, and ours is the exact one. Nor is the gradient of the bias, which is
// summed in double and, in bfloat16, from numbers that are not rounded.
//
// Bound by FLOP from some hundred rows on; below by the launch.
#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "runtime/device/body_kernel.h"
#include "runtime/device/cuda/check.h"
#include "runtime/device/cuda/compile.h"
#include "runtime/device/cuda/epilogue.h"
#include "runtime/device/cuda/libraries.h"
#include "runtime/device/cuda/narrow_inputs.h"
#include "runtime/device/cuda/product_layout.h"
#include "runtime/device/cuda/workspace.h"

namespace meshwork::cuda {

namespace {

constexpr std::int64_t most_workspace = std::int64_t{32} << 20;
constexpr int most_algorithms = 16;
constexpr std::uint32_t least_alignment = sizeof(float), good_alignment = 16;
constexpr std::int64_t large = 4096;  // elements: variables of as many are aligned (parameters.cpp)

struct Algorithm {
  cublasLtMatmulAlgo_t algorithm{};
  std::int64_t workspace = 0;
};

/// The product with what `spec` has of bias and relu in its epilogue.
class Product final : public Kernel {
 public:
  Product(const MatmulSpec& spec, const Context& context)
      : spec_(spec), libraries_(context.libraries), launcher_(context.launcher) {
    const cublasComputeType_t compute =
        spec.precision == Precision::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    check_cublas(cublasLtMatmulDescCreate(operation_.out(), compute, CUDA_R_32F),
                 "cublasLtMatmulDescCreate", name());
    const ProductLayout layout = product_layout(spec);
    set(CUBLASLT_MATMUL_DESC_TRANSA, layout.first.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, layout.second.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue());
    // Read for its alignment until there is a true one.
    if (spec.bias) {
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER,
          reinterpret_cast<void*>(static_cast<std::uintptr_t>(least_alignment)));
    }
    const cudaDataType_t stored = spec.narrow ? CUDA_R_16BF : CUDA_R_32F;
    first_ = matrix(layout.first, stored);
    second_ = matrix(layout.second, stored);
    result_ = matrix(layout.result, CUDA_R_32F);
  }

  /// The algorithms for operands at multiples of `alignment`, the best first, as far as is known.
  [[nodiscard]] std::vector<Algorithm> algorithms(std::uint32_t alignment) const {
    LtPreference preference;
    check_cublas(cublasLtMatmulPreferenceCreate(preference.out()), "cublasLtMatmulPreferenceCreate",
                 name());
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      check_cublas(cublasLtMatmulPreferenceSetAttribute(preference.native(), attribute, &value,
                                                        sizeof(value)),
                   "cublasLtMatmulPreferenceSetAttribute", name());
    };
    const std::uint32_t of_factors = spec_.narrow ? good_alignment : alignment;
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(most_workspace));
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE |
                                      CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, of_factors);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, of_factors);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment);
    std::array<cublasLtMatmulHeuristicResult_t, most_algorithms> results{};
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        libraries_->lt.native(), operation_.native(), first_.native(), second_.native(),
        result_.native(), result_.native(), preference.native(), most_algorithms, results.data(),
        &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
    check_cublas(status, "cublasLtMatmulAlgoGetHeuristic", name());
    std::vector<Algorithm> found;
    for (int i = 0; i < count; ++i) {
      const cublasLtMatmulHeuristicResult_t& result = results[static_cast<std::size_t>(i)];
      if (result.state != CUBLAS_STATUS_SUCCESS) continue;
      found.push_back({result.algo, static_cast<std::int64_t>(result.workspaceSize)});
    }
    return found;
  }

  /// To be called before it is run: what it takes for operands at multiples of 16, and for others.
  void take(const Algorithm& aligned, const Algorithm& packed) {
    aligned_ = aligned;
    packed_ = packed;
  }

  void run(void* const* operands) override {
    const float alpha = 1, beta = spec_.accumulate ? 1.0f : 0.0f;
    if (spec_.bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands[2]);
    void* const c = operands[spec_.bias ? 3 : 2];
    const bool aligned =
        is_large() && is_aligned(operands[0]) && is_aligned(operands[1]) && is_aligned(c);
    const Algorithm& use = aligned ? aligned_ : packed_;
    void* const workspace =
        use.workspace > 0 ? aligned_workspace(operands[spec_.bias ? 4 : 3]) : nullptr;
    check_cublas(cublasLtMatmul(libraries_->lt.native(), operation_.native(), &alpha, operands[1],
                                first_.native(), operands[0], second_.native(), &beta, c,
                                result_.native(), c, result_.native(), &use.algorithm, workspace,
                                static_cast<std::size_t>(use.workspace), libraries_->stream),
                 "cublasLtMatmul", name());
    check_launch(launcher_);
  }

  [[nodiscard]] std::int64_t workspace_bytes() const override {
    const std::int64_t bytes = std::max(aligned_.workspace, packed_.workspace);
    return bytes > 0 ? with_alignment(bytes) : 0;
  }

 private:
  [[nodiscard]] const std::string& name() const { return *launcher_.name; }

  /// Whether weights, and gradients of weights, that are its operands are aligned on every rank.
  [[nodiscard]] bool is_large() const {
    return spec_.m * spec_.n >= large && (spec_.narrow || spec_.k * spec_.n >= large);
  }
  [[nodiscard]] static bool is_aligned(const void* address) {
    return reinterpret_cast<std::uintptr_t>(address) % good_alignment == 0;
  }

  [[nodiscard]] cublasLtEpilogue_t epilogue() const {
    if (spec_.activation == Activation::relu) {
      return spec_.bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    }
    return spec_.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  }

  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    check_cublas(
        cublasLtMatmulDescSetAttribute(operation_.native(), attribute, &value, sizeof(value)),
        "cublasLtMatmulDescSetAttribute", name());
  }

  [[nodiscard]] LtLayout matrix(const StoredMatrix& of, cudaDataType_t type) const {
    LtLayout layout;
    check_cublas(cublasLtMatrixLayoutCreate(layout.out(), type, static_cast<std::uint64_t>(of.rows),
                                            static_cast<std::uint64_t>(of.columns), of.leading),
                 "cublasLtMatrixLayoutCreate", name());
    return layout;
  }

  MatmulSpec spec_;
  const Libraries* libraries_;
  Launcher launcher_;
  LtOperation operation_;
  LtLayout first_, second_, result_;
  Algorithm aligned_, packed_;
};

/// Whether `product`, which ends in relu, makes NaN of NaN. Runs it once on memory of its own.
bool keeps_nan(Kernel& product, const MatmulSpec& spec, const Context& context) {
  std::vector<Memory> memories;
  std::vector<void*> operands;
  const auto add = [&](std::int64_t bytes) {
    memories.push_back(context.device->allocate(bytes));
    operands.push_back(memories.back().data());
  };
  constexpr auto element = static_cast<std::int64_t>(sizeof(float));
  const std::int64_t factor = spec.narrow ? 2 : element;
  add(spec.m * spec.k * factor);
  add(spec.k * spec.n * factor);
  if (spec.bias) add(spec.n * element);
  add(spec.m * spec.n * element);
  void* const result = operands.back();
  if (product.workspace_bytes() > 0) add(product.workspace_bytes());
  // All bits set is a NaN.
  check_cuda(cudaMemsetAsync(operands[0], 0xff, static_cast<std::size_t>(memories[0].bytes()),
                             context.libraries->stream),
             "cudaMemsetAsync");
  product.run(operands.data());
  float last = 0;
  context.device->copy_out(&last, static_cast<float*>(result) + (spec.m * spec.n - 1), element);
  return std::isnan(last);
}

/// The sum over no terms: the bias, or 0, in every row.
KernelPointer empty_sum(const MatmulSpec& spec, const Context& context) {
  if (spec.accumulate || spec.m == 0 || spec.n == 0) return make_kernel([](void* const*) {});
  KernelPointer zero =
      compile(ZeroSpec{spec.m * spec.n * static_cast<std::int64_t>(sizeof(float))}, context);
  KernelPointer product =
      make_kernel([zero = std::move(zero)](void* const* operands) { zero->run(operands + 2); });
  return with_epilogue(
      std::move(product),
      {.rows = spec.m, .columns = spec.n, .bias = spec.bias, .activation = spec.activation},
      context);
}

/// What of bias and relu rides in cuBLASLt's epilogue.
struct Fused {
  std::string_view name;
  bool bias, relu;
};

KernelPointer compile_fused(const MatmulSpec& spec, const Context& context, const Fused& fused,
                            const Algorithm& aligned, const Algorithm& packed) {
  MatmulSpec inner = spec;
  inner.bias = fused.bias;
  inner.activation = fused.relu ? Activation::relu : Activation::linear;
  auto product = std::make_unique<Product>(inner, context);
  product->take(aligned, packed);
  if (fused.relu && !keeps_nan(*product, inner, context)) {
    inner.activation = Activation::linear;
    product = std::make_unique<Product>(inner, context);
    const auto without_relu = [&](std::uint32_t alignment) {
      const std::vector<Algorithm> found = product->algorithms(alignment);
      if (found.empty()) {
        fail("{}: cuBLASLt {} loses a NaN in its relu, and has no algorithm without it",
             *context.launcher.name, cublasLtGetVersion());
      }
      return found.front();
    };
    product->take(without_relu(good_alignment), without_relu(least_alignment));
  }
  return with_epilogue(
      std::move(product),
      {.rows = spec.m,
       .columns = spec.n,
       .bias = spec.bias,
       .fused_bias = inner.bias,
       .activation = inner.activation == Activation::relu ? Activation::linear : spec.activation},
      context);
}

bool has_terms(const MatmulSpec& spec) {
  return spec.m > 0 && spec.n > 0 && spec.k > 0;
}

/// The product of operands that are narrowed before.
KernelPointer narrowed_first(const MatmulSpec& spec, const Context& context,
                             KernelPointer of_narrow_operands) {
  return with_narrow_inputs(std::move(of_narrow_operands), spec.bias ? 4 : 3, spec.m * spec.k,
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
  const bool relu = spec.activation == Activation::relu;
  std::vector<Fused> ways;
  if (relu) ways.push_back({"all fused", spec.bias, true});
  if (spec.bias || !relu) ways.push_back({relu ? "bias fused" : "all fused", spec.bias, false});
  if (spec.bias || relu) ways.push_back({"none fused", false, false});
  std::vector<KernelCandidate> found;
  for (const Fused& fused : ways) {
    MatmulSpec inner = spec;
    inner.bias = fused.bias;
    inner.activation = fused.relu ? Activation::relu : Activation::linear;
    const Product product(inner, context);
    const std::vector<Algorithm> packed = product.algorithms(least_alignment);
    if (packed.empty()) continue;
    std::vector<Algorithm> aligned = product.algorithms(good_alignment);
    if (aligned.empty()) aligned = packed;
    for (std::size_t i = 0; i < aligned.size(); ++i) {
      found.push_back({fmt::format("{}, {}", fused.name, i),
                       [=, of_aligned = aligned[i], of_packed = packed.front()] {
                         return compile_fused(spec, context, fused, of_aligned, of_packed);
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
