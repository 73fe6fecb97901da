// The product of dense layers: y (..., o) = x (..., i) * kernel (i, o), summed over i.
//
// Rule "bti,io->bto". Backward, with dy (..., o): dx = dy * transpose(kernel), then
// dkernel = transpose(x) * dy, all leading dimensions taken together as rows.
//
// x may have several dimensions that are summed over: those of an image (batch, h, w, c), whose
// kernel has one row for each of its h * w * c elements. Rule "bhwc,io->bo". Blocks of h, w or c
// are no blocks of i, but no rule needs them to be: a split of h, w or c leaves the output partial,
// and the gradient of the kernel too, which lacks them; a split of i leaves the output and the
// gradient of x partial; where both are split, a rank works on the elements of its box of x that
// are rows of its kernel. Those rows are packed unless they lie side by side, and in the raw
// gradients what is not among them is zero.
//
// A bias and an activation that follow can be joined to it (epilogue.h): y = activation(x * kernel
// + bias). relu runs with the matrix product, the others in place behind it. Backward, the gradient
// of the bias comes along with the kernel's, and dx is multiplied by the derivative of the
// activation that made x where that is left to it (fusion.h).
#pragma once

#include <cstddef>

#include "runtime/device/kernels/copies.h"
#include "runtime/device/program.h"
#include "runtime/graph/operation.h"

namespace meshwork {

class ProductOperation final : public Operation {
 public:
  /// `contracted`: how many of the last dimensions of x are summed over.
  explicit ProductOperation(Epilogue epilogue = {}, std::size_t contracted = 1);

  [[nodiscard]] std::size_t contracted() const { return contracted_; }

  std::string kind() const override;
  Shape output_shape(std::span<const Shape> inputs) const override;
  Rule rule(std::span<const Shape> inputs) const override;
  double flops(std::span<const Shape> inputs, const Shape& output) const override;
  void forward(Lowering& lowering) const override;
  void backward(Lowering& lowering) const override;
  bool backward_reads(int input) const override;
  bool multiplies(int input) const override;
  Activation ends_in() const override { return epilogue_.ends_in(); }
  bool takes_derivative(int input, Activation activation) const override;
  bool draws() const override { return epilogue_.dropout > 0; }
  std::unique_ptr<Operation> fused_with(const Operation& next, int position) const override;
  std::unique_ptr<Operation> before_merging(std::size_t dimensions) const override;

 private:
  // The factors that this rank multiplies: x as (rows, features) and the kernel as (features,
  // outputs), both of the features that it has of both.
  struct Factors {
    std::int64_t rows = 0, features = 0, outputs = 0;
    std::int64_t columns = 0;      // features of this rank's x
    std::int64_t kernel_rows = 0;  // of this rank's kernel
    std::int64_t first_row = 0;    // of this rank's kernel, where the rows lie side by side
    bool all_columns = true;       // else they are packed out of x
    bool side_by_side = true;      // else rows are packed out of the kernel
    CopySpec columns_packed, rows_packed;
  };
  Factors factors(const Lowering& lowering) const;
  static Operand packed_input(Lowering& lowering, const Factors& factors);
  static Operand packed_kernel(Lowering& lowering, const Factors& factors);
  void emit_input_gradient(Lowering& lowering, const Factors& factors, const Operand& dz) const;

  Epilogue epilogue_;
  std::size_t contracted_;
};

}  // namespace meshwork
