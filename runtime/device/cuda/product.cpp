#include "runtime/device/cuda/product.h"

#include <algorithm>
#include <array>

#include "runtime/device/alignment.h"
#include "runtime/device/cuda/check.h"
#include "runtime/device/cuda/libraries.h"
#include "runtime/device/cuda/workspace.h"
#include "runtime/device/narrowing.h"

namespace meshwork::cuda {

namespace {

constexpr std::int64_t most_product_workspace = std::int64_t{32} << 20;
constexpr int most_algorithms = 16;

cublasLtEpilogue_t epilogue_of(const MatmulSpec& spec) {
  if (spec.column_sums) return CUBLASLT_EPILOGUE_BGRADA;
  if (spec.derivative == Activation::relu) return CUBLASLT_EPILOGUE_DRELU;
  if (spec.activation == Activation::relu) {
    if (spec.mask) return spec.bias ? CUBLASLT_EPILOGUE_RELU_AUX_BIAS : CUBLASLT_EPILOGUE_RELU_AUX;
    return spec.bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
  }
  return spec.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

/// An address for the heuristic, which reads its alignment: there is no true one yet.
void* address_at(std::uint32_t alignment) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(alignment));
}

}  // namespace

Product::Product(const MatmulSpec& spec, const Context& context)
    : spec_(spec), libraries_(context.libraries), launcher_(context.launcher) {
  const cublasComputeType_t compute =
      spec.precision == Precision::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  check_cublas(cublasLtMatmulDescCreate(operation_.out(), compute, CUDA_R_32F),
               "cublasLtMatmulDescCreate", name());
  const ProductLayout layout = product_layout(spec);
  set(CUBLASLT_MATMUL_DESC_TRANSA, layout.first.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, layout.second.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(spec));
  if (spec.bias || spec.column_sums) {
    bias_at_ = spec.bias ? 2 : operand_count(spec) - 1;
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, address_at(good_alignment));
  }
  if (spec.mask) {
    mask_at_ = writes_mask(spec) ? operand_count(spec) - 1 : 2;
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, address_at(good_alignment));
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, relu_mask_row_bytes(spec.n) * 8);
  }
  const cudaDataType_t stored = spec.narrow ? CUDA_R_16BF : CUDA_R_32F;
  const MatmulRepeat batch = spec.repeats.empty() ? MatmulRepeat{} : spec.repeats.back();
  first_ = matrix(layout.first, stored, batch.b);
  second_ = matrix(layout.second, stored, batch.a);
  result_ = matrix(layout.result, CUDA_R_32F, batch.c);
}

std::vector<Algorithm> Product::algorithms(std::uint32_t alignment) const {
  LtPreference preference;
  check_cublas(cublasLtMatmulPreferenceCreate(preference.out()), "cublasLtMatmulPreferenceCreate",
               name());
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check_cublas(
        cublasLtMatmulPreferenceSetAttribute(preference.native(), attribute, &value, sizeof(value)),
        "cublasLtMatmulPreferenceSetAttribute", name());
  };
  static_assert(narrow_alignment % good_alignment == 0);
  // Where repeats begin, only the elements' size is known.
  const std::uint32_t of_factors = !spec_.narrow   ? alignment
                                   : spec_.plain() ? good_alignment
                                                   : std::uint32_t{bfloat16_bytes};
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
         static_cast<std::uint64_t>(most_product_workspace));
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE |
                                    CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, of_factors);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, of_factors);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment);
  std::array<cublasLtMatmulHeuristicResult_t, most_algorithms> results{};
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(libraries_->lt.native(), operation_.native(), first_.native(),
                                     second_.native(), result_.native(), result_.native(),
                                     preference.native(), most_algorithms, results.data(), &count);
  // Whatever the library says, there are other ways to compute the product.
  if (status != CUBLAS_STATUS_SUCCESS) return {};
  std::vector<Algorithm> found;
  for (int i = 0; i < count; ++i) {
    const cublasLtMatmulHeuristicResult_t& result = results[static_cast<std::size_t>(i)];
    if (result.state != CUBLAS_STATUS_SUCCESS) continue;
    found.push_back({result.algo, static_cast<std::int64_t>(result.workspaceSize)});
  }
  return found;
}

void Product::take(const Algorithm& aligned, const Algorithm& packed) {
  aligned_ = aligned;
  packed_ = packed;
}

void Product::run(void* const* operands) {
  const float alpha = 1, beta = spec_.accumulate ? 1.0f : 0.0f;
  std::byte* workspace =
      workspace_bytes() > 0 ? aligned_workspace(operands[operand_count(spec_)]) : nullptr;
  void* const bias = bias_at_ >= 0 ? operands[bias_at_] : nullptr;
  void* const aligned_bias = bias != nullptr && !is_aligned(bias) ? workspace : bias;
  if (bias != nullptr) {
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, aligned_bias);
    workspace += bias_bytes();
  }
  if (spec_.bias) copy_bias(aligned_bias, bias);
  if (mask_at_ >= 0) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, operands[mask_at_]);
  void* const c = operands[result_operand(spec_)];
  const bool aligned =
      is_large() && is_aligned(operands[0]) && is_aligned(operands[1]) && is_aligned(c);
  const Algorithm& use = aligned ? aligned_ : packed_;
  MatmulSpec calls = spec_;
  if (!calls.repeats.empty()) calls.repeats.pop_back();
  const std::int64_t factor_bytes = spec_.narrow ? bfloat16_bytes : std::int64_t{sizeof(float)};
  const auto after = [](void* address, std::int64_t bytes) {
    return static_cast<void*>(static_cast<std::byte*>(address) + bytes);
  };
  for_each_product(calls, [&](std::int64_t a_at, std::int64_t b_at, std::int64_t c_at) {
    void* const to = after(c, c_at * static_cast<std::int64_t>(sizeof(float)));
    check_cublas(
        cublasLtMatmul(libraries_->lt.native(), operation_.native(), &alpha,
                       after(operands[1], b_at * factor_bytes), first_.native(),
                       after(operands[0], a_at * factor_bytes), second_.native(), &beta, to,
                       result_.native(), to, result_.native(), &use.algorithm, workspace,
                       static_cast<std::size_t>(use.workspace), libraries_->stream),
        "cublasLtMatmul", name());
  });
  check_launch(launcher_);
  if (spec_.column_sums) copy_bias(bias, aligned_bias);
}

void Product::copy_bias(void* to, const void* from) {
  if (to == from) return;
  const auto bytes = static_cast<std::size_t>(spec_.n) * sizeof(float);
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, libraries_->stream),
             "cudaMemcpyAsync");
}

std::int64_t Product::bias_bytes() const {
  return bias_at_ >= 0 ? rounded_up(spec_.n * static_cast<std::int64_t>(sizeof(float))) : 0;
}

std::int64_t Product::workspace_bytes() const {
  const std::int64_t bytes = bias_bytes() + std::max(aligned_.workspace, packed_.workspace);
  return bytes > 0 ? with_alignment(bytes) : 0;
}

// Whether weights, and gradients of weights, that are its operands are aligned on every rank.
bool Product::is_large() const {
  return spec_.plain() && spec_.m * spec_.n >= large_elements &&
         (spec_.narrow || spec_.k * spec_.n >= large_elements);
}

template <class T>
void Product::set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check_cublas(
      cublasLtMatmulDescSetAttribute(operation_.native(), attribute, &value, sizeof(value)),
      "cublasLtMatmulDescSetAttribute", name());
}

LtLayout Product::matrix(const StoredMatrix& of, cudaDataType_t type, std::int64_t step) const {
  LtLayout layout;
  check_cublas(cublasLtMatrixLayoutCreate(layout.out(), type, static_cast<std::uint64_t>(of.rows),
                                          static_cast<std::uint64_t>(of.columns), of.leading),
               "cublasLtMatrixLayoutCreate", name());
  if (!spec_.repeats.empty()) {
    const auto set_batch = [&](cublasLtMatrixLayoutAttribute_t attribute, const auto& value) {
      check_cublas(
          cublasLtMatrixLayoutSetAttribute(layout.native(), attribute, &value, sizeof(value)),
          "cublasLtMatrixLayoutSetAttribute", name());
    };
    set_batch(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
              static_cast<std::int32_t>(spec_.repeats.back().count));
    set_batch(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, step);
  }
  return layout;
}

}  // namespace meshwork::cuda
