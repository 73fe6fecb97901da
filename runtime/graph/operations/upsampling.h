// Upsampling: an image enlarged by whole factors, each pixel repeated (nearest) or the pixels
// interpolated (bilinear, with centres of pixels half a pixel in, as Keras has it).
//
// Rule "nhwc->nhwc" with windows over h and w: a block of the result needs the pixels that it is
// made of.
#pragma once

#include <cstdint>

#include "runtime/device/kernels/upsampling.h"
#include "runtime/graph/operation.h"

namespace meshwork {

class UpsamplingOperation final : public Operation {
 public:
  UpsamplingOperation(std::int64_t row_factor, std::int64_t column_factor,
                      Interpolation interpolation)
      : factors_{row_factor, column_factor}, interpolation_(interpolation) {}

  std::string kind() const override { return "upsampling"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  Rule rule(std::span<const Shape> inputs) const override;
  Range window(int input, int dimension, Range output,
               std::span<const Shape> inputs) const override;
  double flops(std::span<const Shape> inputs, const Shape& output) const override;
  void forward(Lowering& lowering) const override;
  void backward(Lowering& lowering) const override;
  bool backward_reads(int input) const override;

 private:
  UpsamplingShape placed(const Lowering& lowering) const;

  std::int64_t factors_[2];
  Interpolation interpolation_;
};

}  // namespace meshwork
