// Tensors one behind the other along one dimension, which is not the batch.
//
// Rule "btu,btu->btu": the dimension is whole, since its blocks before and after would not be the
// same elements; the others may be split. Forward copies every input to its place, backward copies
// every gradient out of it.
#pragma once

#include "runtime/graph/operation.h"

namespace meshwork {

class ConcatenateOperation final : public Operation {
 public:
  /// `dimension` counts from 0, the batch.
  ConcatenateOperation(int inputs, int dimension) : inputs_(inputs), dimension_(dimension) {}

  std::string kind() const override { return "concatenate"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  Rule rule(std::span<const Shape> inputs) const override;
  double flops(std::span<const Shape> inputs, const Shape& output) const override;
  void forward(Lowering& lowering) const override;
  void backward(Lowering& lowering) const override;
  bool backward_reads(int input) const override;

 private:
  int inputs_;
  int dimension_;
};

}  // namespace meshwork
