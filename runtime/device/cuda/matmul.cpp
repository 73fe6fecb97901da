// Matrix products, by cuBLASLt.
//
// Descriptors, algorithm and workspace are settled when the kernel is made; a run hands over
// addresses. Of the algorithms that the heuristic names, the first is taken: the heuristic is a
// function of shape, GPU and library, so ranks with the same GPU agree without talking, and a
// resumed run takes the same. `choose` is the one place where another rule, a timing that one rank
// shares out, would go. Only reductions over split sums whose order is fixed are admitted: none, or
// those of a step of their own in float32; and only algorithms that need no more than 4 bytes of
// alignment, since parameters are packed.
//
// Plain float32 (CUBLAS_COMPUTE_32F without TF32), alpha = 1, beta = 0 or 1. Bias and relu ride in
// the epilogue. Relu has to let a NaN through, and the library does not say whether its own does:
// so a fused one is tried once, on operands of NaN, when the kernel is made; where the NaN is lost,
// our own relu runs behind the product. Bound by FLOP from some hundred rows on; below by the
// launch.
#include <cublasLt.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "runtime/device/cuda/check.h"
#include "runtime/device/cuda/epilogue.h"
#include "runtime/device/cuda/kernel.h"
#include "runtime/device/cuda/libraries.h"
#include "runtime/device/cuda/product_layout.h"
#include "runtime/device/cuda/workspace.h"

namespace meshwork::cuda {

namespace {

constexpr std::int64_t most_workspace = std::int64_t{32} << 20;
constexpr std::uint32_t least_alignment = sizeof(float);

class Product final : public Kernel {
 public:
  /// Of `spec`, whose sums have terms. Null if cuBLASLt has no algorithm with this epilogue.
  static std::unique_ptr<Product> make(const MatmulSpec& spec, const Context& context) {
    std::unique_ptr<Product> product(new Product(spec, context));
    return product->choose() ? std::move(product) : nullptr;
  }

  void run(void* const* operands) override {
    const float alpha = 1, beta = spec_.accumulate ? 1.0f : 0.0f;
    if (spec_.bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands[2]);
    void* const c = operands[spec_.bias ? 3 : 2];
    void* const workspace =
        workspace_ > 0 ? aligned_workspace(operands[spec_.bias ? 4 : 3]) : nullptr;
    check_cublas(cublasLtMatmul(libraries_->lt.native(), operation_.native(), &alpha, operands[1],
                                first_.native(), operands[0], second_.native(), &beta, c,
                                result_.native(), c, result_.native(), &algorithm_, workspace,
                                static_cast<std::size_t>(workspace_), libraries_->stream),
                 "cublasLtMatmul", name());
    check_launch(launcher_);
  }

  [[nodiscard]] std::int64_t workspace_bytes() const override {
    return workspace_ > 0 ? with_alignment(workspace_) : 0;
  }

 private:
  Product(const MatmulSpec& spec, const Context& context)
      : spec_(spec), libraries_(context.libraries), launcher_(context.launcher) {
    check_cublas(cublasLtMatmulDescCreate(operation_.out(), CUBLAS_COMPUTE_32F, CUDA_R_32F),
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
    first_ = matrix(layout.first);
    second_ = matrix(layout.second);
    result_ = matrix(layout.result);
  }

  [[nodiscard]] const std::string& name() const { return *launcher_.name; }

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

  [[nodiscard]] LtLayout matrix(const StoredMatrix& of) const {
    LtLayout layout;
    check_cublas(
        cublasLtMatrixLayoutCreate(layout.out(), CUDA_R_32F, static_cast<std::uint64_t>(of.rows),
                                   static_cast<std::uint64_t>(of.columns), of.leading),
        "cublasLtMatrixLayoutCreate", name());
    return layout;
  }

  /// Whether there is an algorithm; the first one is taken.
  bool choose() {
    LtPreference preference;
    check_cublas(cublasLtMatmulPreferenceCreate(preference.out()), "cublasLtMatmulPreferenceCreate",
                 name());
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      check_cublas(cublasLtMatmulPreferenceSetAttribute(preference.native(), attribute, &value,
                                                        sizeof(value)),
                   "cublasLtMatmulPreferenceSetAttribute", name());
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(most_workspace));
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE |
                                      CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, least_alignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, least_alignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, least_alignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, least_alignment);
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        libraries_->lt.native(), operation_.native(), first_.native(), second_.native(),
        result_.native(), result_.native(), preference.native(), 1, &found, &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return false;
    check_cublas(status, "cublasLtMatmulAlgoGetHeuristic", name());
    if (count == 0 || found.state != CUBLAS_STATUS_SUCCESS) return false;
    algorithm_ = found.algo;
    workspace_ = static_cast<std::int64_t>(found.workspaceSize);
    return true;
  }

  MatmulSpec spec_;
  const Libraries* libraries_;
  Launcher launcher_;
  LtOperation operation_;
  LtLayout first_, second_, result_;
  cublasLtMatmulAlgo_t algorithm_{};
  std::int64_t workspace_ = 0;
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
  add(spec.m * spec.k * element);
  add(spec.k * spec.n * element);
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

}  // namespace

KernelPointer compile(const MatmulSpec& spec, const Context& context) {
  if (spec.m == 0 || spec.n == 0 || spec.k == 0) return empty_sum(spec, context);
  if (spec.activation == Activation::relu) {
    std::unique_ptr<Product> fused = Product::make(spec, context);
    if (fused && keeps_nan(*fused, spec, context)) return fused;
  }
  Epilogue epilogue{.rows = spec.m,
                    .columns = spec.n,
                    .bias = spec.bias,
                    .fused_bias = spec.bias,
                    .activation = spec.activation};
  MatmulSpec alone = spec;
  alone.activation = Activation::linear;
  std::unique_ptr<Product> product = Product::make(alone, context);
  if (!product && spec.bias) {
    alone.bias = epilogue.fused_bias = false;
    product = Product::make(alone, context);
  }
  if (!product) {
    fail("{}: cuBLASLt {} has no deterministic algorithm for it on this GPU",
         *context.launcher.name, cublasLtGetVersion());
  }
  return with_epilogue(std::move(product), epilogue, context);
}

}  // namespace meshwork::cuda
