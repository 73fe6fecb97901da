// Pooling: the maximum or the mean of the window at each place, channel by channel.
//
// Rule "nhwc->nhwc" with windows over h and w. Padding never counts: the mean divides by the
// elements that are there, and a maximum takes one of them (tensorflow.org/api_docs/python/tf/nn,
// notes on padding). The gradient of a maximum goes to the first element, in row-major order, that
// is it; forward keeps which one that was, when it is followed by backward.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/device/kernels/pooling.h"
#include "runtime/device/program.h"
#include "runtime/graph/operation.h"
#include "runtime/graph/operations/windows.h"

namespace meshwork {

enum class Pooling : std::uint8_t { maximum, average };

class PoolingOperation final : public Operation {
 public:
  /// `windows` by spatial dimension, one or two.
  PoolingOperation(Pooling pooling, std::vector<SlidingWindow> windows);

  std::string kind() const override;
  Shape output_shape(std::span<const Shape> inputs) const override;
  Rule rule(std::span<const Shape> inputs) const override;
  Range window(int input, int dimension, Range output,
               std::span<const Shape> inputs) const override;
  double flops(std::span<const Shape> inputs, const Shape& output) const override;
  void forward(Lowering& lowering) const override;
  void backward(Lowering& lowering) const override;
  bool backward_reads(int input) const override;

 private:
  PoolingShape placed(const Lowering& lowering) const;
  static Operand winners(Lowering& lowering, const PoolingShape& at);

  Pooling pooling_;
  std::vector<SlidingWindow> windows_;
};

}  // namespace meshwork
