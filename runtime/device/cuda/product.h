// A product of matrices by cuBLASLt, with what it takes along in the library's epilogue.
//
// What rides in an epilogue (cublasLt.h, cublasLtEpilogue_t), for our row-major matrices, which the
// library sees transposed (product_layout.h): its D (n, m) is our c (m, n), its A our op(b), its B
// our op(a).
//   bias           BIAS: "bias vector length must match matrix D rows", which are our columns.
//   relu           RELU, RELU_BIAS.
//   a mask too     RELU_AUX_BIAS: "produces an extra output, a ReLu bit-mask matrix", at
//                  EPILOGUE_AUX_POINTER; its leading dimension is in bits, "must be divisible by
//                  128 and be no less than the number of rows in the output matrix", which makes a
//                  column of it a row of our mask.
//   derivative     DRELU: "ReLu gradient to matmul output ... requires an extra input", that mask.
//   column sums    BGRADA: "bias gradient based on the input matrix A. The bias size corresponds to
//                  the number of rows of the matrix D. The reduction happens over the GEMM's k
//                  dimension": over k of op(b), which is the kernel gradient's dy. BGRADB would sum
//                  op(a). It is stored at BIAS_POINTER, in the type of D.
// DRELU_BGRAD, which sums the columns of D, has no use: what is summed there may still be a partial
// sum over ranks, and its bias belongs to another layer than the product.
//
// GELU, GELU_AUX and DGELU are the approximation by tanh, gelu_tanh, which has a pass of its own here.
//
// Algorithms may load four elements of a bias at a time, whatever the heuristic was told of its
// address. Biases are packed, so one at another address than a multiple of 16 is copied to the
// workspace for the product, and column sums are copied from there: a few KB, and the same bits.
//
// A product whose matrices are large has an algorithm for operands at multiples of 16 and one for
// any address, and takes it by the addresses; matmul.cpp says why. One that is repeated has one for
// any address alone. The innermost repeat is a batch of the library's, the others are a call each.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/device/cuda/if_aligned.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/owned.h"
#include "runtime/device/cuda/product_layout.h"
#include "runtime/device/kernels/products.h"

namespace meshwork::cuda {

/// What operands' addresses are multiples of, at least.
constexpr std::uint32_t least_alignment = sizeof(float);

struct Algorithm {
  cublasLtMatmulAlgo_t algorithm{};
  std::int64_t workspace = 0;
};

/// The product with all that `spec` takes along in its epilogue.
class Product final : public Kernel {
 public:
  Product(const MatmulSpec& spec, const Context& context);

  /// The algorithms for operands at multiples of `alignment`, the best first, as far as is known;
  /// none where the library has none with this epilogue, for these types and shapes.
  [[nodiscard]] std::vector<Algorithm> algorithms(std::uint32_t alignment) const;

  /// Whether its matrices are large: then `aligned` is taken where the addresses allow.
  [[nodiscard]] bool is_large() const;

  /// To be called before it is run: what it takes for operands at multiples of 16, and for others.
  void take(const Algorithm& aligned, const Algorithm& packed);

  void run(void* const* operands) override;
  [[nodiscard]] std::int64_t workspace_bytes() const override;

 private:
  [[nodiscard]] const std::string& name() const { return *launcher_.name; }
  /// Between an operand and its copy in the workspace, if they are two.
  void copy_bias(void* to, const void* from);
  [[nodiscard]] std::int64_t bias_bytes() const;  // of the workspace, in front
  /// Of the innermost repeat, `step` elements apart.
  [[nodiscard]] LtLayout matrix(const StoredMatrix& of, cudaDataType_t type,
                                std::int64_t step) const;
  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value);

  MatmulSpec spec_;
  const Libraries* libraries_;
  Launcher launcher_;
  int bias_at_ = -1, mask_at_ = -1;  // operands, of which the epilogue has the addresses
  LtOperation operation_;
  LtLayout first_, second_, result_;
  Algorithm aligned_, packed_;
};

}  // namespace meshwork::cuda
