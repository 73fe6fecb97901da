// y = x * scale + offset, with two numbers for all elements. Rule "bt->bt"; dx = dy * scale. Of
// what is fed it is done where that is converted (rewrites/scale_inputs.cpp).
#pragma once

#include "runtime/device/kernels/elementwise.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"

namespace meshwork {

class AffineOperation final : public Operation {
 public:
  AffineOperation(float scale, float offset) : scale_(scale), offset_(offset) {}
  [[nodiscard]] float scale() const { return scale_; }
  [[nodiscard]] float offset() const { return offset_; }

  std::string kind() const override { return "affine"; }
  double flops(std::span<const Shape>, const Shape& output) const override {
    return 2.0 * static_cast<double>(element_count(output));
  }
  bool backward_reads(int) const override { return false; }

  void forward(Lowering& lowering) const override {
    const std::int64_t count = element_count(lowering.local_output_shape());
    lowering.emit(AffineSpec{count, scale_, offset_}, {lowering.input(0), lowering.output()});
  }
  void backward(Lowering& lowering) const override {
    if (lowering.needs_gradient(0)) {
      const std::int64_t count = element_count(lowering.local_output_shape());
      lowering.emit(AffineSpec{count, scale_, 0},
                    {lowering.output_gradient(), lowering.input_gradient(0)});
    }
  }

 private:
  float scale_;
  float offset_;
};

}  // namespace meshwork
