// Contraction: an einsum of two operands, y = the sum over all letters that y lacks of a * b.
//
// An equation gives each dimension a letter: "bti,io->bto" is the product of a dense layer,
// "btd,dhk->bthk" makes heads, "bthk,bshk->bhts" compares queries with keys and "bhts,bshk->bthk"
// weighs values. Letters that both operands and y have repeat the product. The equation is the
// rule: a split of a summed letter leaves y partial, one of a letter that an operand lacks leaves
// that operand's gradient partial. Backward are contractions of the same letters:
//
//     da = dy * b -> a        db = a * dy -> b
//
// How each is computed as a product of matrices is matrix_form.h's affair.
//
// Summed letters at a's end can be one dimension of b, which is written in brackets:
// "bhwc,(hwc)o->bo" multiplies images (batch, h, w, c) by a kernel that has one row for each of
// their h * w * c elements. In the rule the rows have a letter of their own, i: blocks of h, w or c
// are no blocks of i, but no rule needs them to be. A split of h, w or c leaves y partial, and the
// gradient of the kernel too, which lacks them; a split of i leaves y and the gradient of x partial;
// where both are split, a rank works on the elements of its box of x that are rows of its kernel.
// Those rows are packed unless they lie side by side, and in the raw gradients what is not among
// them is zero.
//
// A bias along y's last dimension and an activation that follow can be joined to it (epilogue.h).
// Where the equation is one product of matrices, bias and relu run with it, the others in place
// behind it. Backward, the gradient of the bias comes along with b's, and da is multiplied by the
// derivative of the activation that made a where that is left to it
// (rewrites/hand_over_derivatives.cpp).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "runtime/device/kernels/copies.h"
#include "runtime/device/program.h"
#include "runtime/graph/operation.h"

namespace meshwork {

/// Of a dense layer on inputs of so many dimensions, the last of which is summed: "bti,io->bto".
[[nodiscard]] std::string dense_equation(std::size_t dimensions);

class ContractionOperation final : public Operation {
 public:
  /// Throws `Error` unless every letter stands once in each operand that has it, and in two of a, b
  /// and y; and for a y without dimensions.
  explicit ContractionOperation(std::string_view equation, const Epilogue& epilogue = {});

  /// "bti,io->bto".
  [[nodiscard]] std::string equation() const;
  /// The same where the last dimension of a is `dimensions` ones, which b still has as one; null
  /// unless that dimension is summed, and the first of b. With the same epilogue.
  [[nodiscard]] std::unique_ptr<ContractionOperation> over_unmerged(std::size_t dimensions) const;

  std::string kind() const override { return epilogue_.behind("product"); }
  Shape output_shape(std::span<const Shape> inputs) const override;
  Rule rule(std::span<const Shape> inputs) const override;
  double flops(std::span<const Shape> inputs, const Shape& output) const override;
  void forward(Lowering& lowering) const override;
  void backward(Lowering& lowering) const override;
  bool backward_reads(int input) const override { return input < 2; }
  Fusible fusible() const override;

 private:
  ContractionOperation(std::string a, std::string b, std::string y, std::string merged,
                       const Epilogue& epilogue);
  struct Part;
  Part part(const Lowering& lowering) const;
  void emit_a_gradient(Lowering& lowering, const Part& part, const Operand& dz) const;
  void emit_b_gradient(Lowering& lowering, const Part& part, const Operand& dz) const;
  std::string summed() const;

  std::string a_, b_, y_;  // letters
  std::string merged_;     // those of a that are b's first letter; none: there is no such letter
  Epilogue epilogue_;
};

}  // namespace meshwork
