#include "runtime/graph/operations/pooling.h"

#include "collectives/error.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operations/dimensions.h"

namespace meshwork {

PoolingOperation::PoolingOperation(Pooling pooling, std::vector<SlidingWindow> windows)
    : pooling_(pooling), windows_(std::move(windows)) {
  if (windows_.empty() || windows_.size() > 2) {
    internal_error("a pooling has one or two spatial dimensions");
  }
}

std::string PoolingOperation::kind() const {
  return pooling_ == Pooling::maximum ? "maximum pooling" : "average pooling";
}

Shape PoolingOperation::output_shape(std::span<const Shape> inputs) const {
  check_input_count(inputs, 1);
  check_image(inputs[0], windows_.size());
  Shape output = inputs[0];
  for (std::size_t d = 0; d < windows_.size(); ++d) {
    output[d + 1] = windows_[d].outputs(inputs[0][d + 1]);
    if (output[d + 1] < 1) {
      fail("an input of shape {} has no place for a pool of {} elements in dimension {}",
           to_string(inputs[0]), windows_[d].extent(), d + 1);
    }
  }
  return output;
}

Rule PoolingOperation::rule(std::span<const Shape>) const {
  const std::string spatial = spatial_letters(windows_.size());
  const std::string letters = "n" + spatial + "c";
  return {.inputs = {letters}, .output = letters, .windows = spatial};
}

Range PoolingOperation::window(int, int dimension, Range output,
                               std::span<const Shape> inputs) const {
  return windows_[dimension - 1].inputs_of(output, inputs[0][dimension]);
}

double PoolingOperation::flops(std::span<const Shape>, const Shape& output) const {
  double places = 1;
  for (const SlidingWindow& window : windows_) {
    places *= static_cast<double>(window.window);
  }
  return places * static_cast<double>(element_count(output));
}

PoolingShape PoolingOperation::placed(const Lowering& lowering) const {
  const Block& x = lowering.block(0);
  const Block& y = lowering.output_block();
  const PlacedWindows at = placed_windows(windows_, x, y, lowering.global_shape(0));
  return {.batch = at.batch, .rows = at.rows, .columns = at.columns, .channels = y.back().length()};
}

Operand PoolingOperation::winners(Lowering& lowering, const PoolingShape& at) {
  return lowering.scratch("winners", element_count(lowering.local_output_shape()), winner_type(at));
}

void PoolingOperation::forward(Lowering& lowering) const {
  const PoolingShape at = placed(lowering);
  const Operand x = lowering.input(0);
  const Operand y = lowering.output();
  if (pooling_ == Pooling::average) {
    lowering.emit(AveragePoolingSpec{at}, {x, y});
  } else if (lowering.training() && lowering.needs_gradient(0)) {
    lowering.emit(MaximumPoolingSpec{.at = at, .winners = true}, {x, y, winners(lowering, at)});
  } else {
    lowering.emit(MaximumPoolingSpec{.at = at}, {x, y});
  }
}

void PoolingOperation::backward(Lowering& lowering) const {
  if (!lowering.needs_gradient(0)) {
    return;
  }
  const PoolingShape at = placed(lowering);
  const Operand dy = lowering.output_gradient();
  const Operand dx = lowering.input_gradient(0);
  if (pooling_ == Pooling::average) {
    lowering.emit(AveragePoolingGradientSpec{at}, {dy, dx});
  } else {
    lowering.emit(MaximumPoolingGradientSpec{at}, {winners(lowering, at), dy, dx});
  }
}

bool PoolingOperation::backward_reads(int) const {
  return false;
}

}  // namespace meshwork
