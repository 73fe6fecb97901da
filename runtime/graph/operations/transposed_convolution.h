// Transposed convolution: y is what a convolution's gradient by its input would be, had that
// convolution's output the gradient x. Each element of x (batch, rows, columns, channels) lays its
// window, times kernel (window rows, window columns, filters, channels), onto y (batch, output
// rows, output columns, filters), `stride` apart, where it is added. Keras's Conv2DTranspose: an
// image grows to rows * stride under "same", and to as many as all windows cover under "valid".
//
// Rule "nhwc,rsfc->nhwf" with windows over h and w, r and s whole: a block of output rows needs the
// elements whose windows reach into it. Backward is a convolution of dy with the same windows.
#pragma once

#include <vector>

#include "runtime/device/kernels/convolution.h"
#include "runtime/graph/operation.h"
#include "runtime/graph/operations/windows.h"

namespace meshwork {

class TransposedConvolutionOperation final : public Operation {
 public:
  /// `windows` by spatial dimension, one or two.
  explicit TransposedConvolutionOperation(std::vector<SlidingWindow> windows);

  std::string kind() const override { return "transposed convolution"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  Rule rule(std::span<const Shape> inputs) const override;
  Range window(int input, int dimension, Range output,
               std::span<const Shape> inputs) const override;
  double flops(std::span<const Shape> inputs, const Shape& output) const override;
  void forward(Lowering& lowering) const override;
  void backward(Lowering& lowering) const override;

 private:
  ConvolutionShape placed(const Lowering& lowering) const;

  std::vector<SlidingWindow> windows_;
};

}  // namespace meshwork
