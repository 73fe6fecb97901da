// Zero padding: an image with rows and columns of zeros around it.
//
// Rule "nhwc->nhwc" with windows over h and w: a block of the padded image needs the part of the
// image that lies in it. Any number of spatial dimensions.
#pragma once

#include <utility>
#include <vector>

#include "runtime/graph/operation.h"

namespace meshwork {

/// Elements added before and behind one dimension.
struct Border {
  std::int64_t before = 0, behind = 0;
};

class ZeroPaddingOperation final : public Operation {
 public:
  /// `borders` by spatial dimension.
  explicit ZeroPaddingOperation(std::vector<Border> borders) : borders_(std::move(borders)) {}

  std::string kind() const override { return "zero padding"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  Rule rule(std::span<const Shape> inputs) const override;
  Range window(int input, int dimension, Range output,
               std::span<const Shape> inputs) const override;
  double flops(std::span<const Shape> inputs, const Shape& output) const override;
  void forward(Lowering& lowering) const override;
  void backward(Lowering& lowering) const override;
  bool backward_reads(int input) const override;

 private:
  std::vector<Border> borders_;
};

}  // namespace meshwork
