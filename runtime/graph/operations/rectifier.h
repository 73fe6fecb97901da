// relu in Keras's general form: a slope below the threshold, a limit above. Rule "bt->bt".
//
// Plain relu is an ActivationOperation, which can be joined to what stands before it.
#pragma once

#include "runtime/device/kernels/elementwise.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"

namespace meshwork {

class RectifierOperation final : public Operation {
 public:
  explicit RectifierOperation(Rectifier rectifier) : rectifier_(rectifier) {}

  std::string kind() const override { return "rectifier"; }
  bool keeps_order() const override { return rectifier_.threshold == 0; }

  void forward(Lowering& lowering) const override {
    const std::int64_t count = element_count(lowering.local_output_shape());
    lowering.emit(RectifySpec{rectifier_, count}, {lowering.input(0), lowering.output()});
  }
  void backward(Lowering& lowering) const override {
    if (lowering.needs_gradient(0)) {
      const std::int64_t count = element_count(lowering.local_output_shape());
      lowering.emit(RectifyGradientSpec{rectifier_, count},
                    {lowering.input(0), lowering.output_gradient(), lowering.input_gradient(0)});
    }
  }

 private:
  Rectifier rectifier_;
};

}  // namespace meshwork
