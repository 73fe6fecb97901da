// Pooling: the maximum or the mean of the window at each place, channel by channel.
//
// Rule "nhwc->nhwc" with windows over h and w, "ndhwc->ndhwc" of volumes. Padding never counts:
// the mean divides by the elements that are there, and a maximum takes one of them
// (tensorflow.org/api_docs/python/tf/nn, notes on padding). The gradient of a maximum goes to the
// first element, in row-major order, that is it; forward keeps which one that was, when it is
// followed by backward.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/error.h"
#include "runtime/device/kernels/pooling.h"
#include "runtime/device/program.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"
#include "runtime/graph/operations/dimensions.h"
#include "runtime/graph/operations/windows.h"

namespace meshwork {

enum class Pooling : std::uint8_t { maximum, average };

class PoolingOperation final : public Operation {
 public:
  /// `windows` by spatial dimension, one to three.
  PoolingOperation(Pooling pooling, std::vector<SlidingWindow> windows)
      : pooling_(pooling), windows_(std::move(windows)) {
    if (windows_.empty() || windows_.size() > 3) {
      internal_error("a pooling has one to three spatial dimensions");
    }
  }

  [[nodiscard]] bool takes_maxima() const { return pooling_ == Pooling::maximum; }

  std::string kind() const override {
    return pooling_ == Pooling::maximum ? "maximum pooling" : "average pooling";
  }
  Shape output_shape(std::span<const Shape> inputs) const override {
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
  Rule rule(std::span<const Shape>) const override {
    const std::string spatial = spatial_letters(windows_.size());
    const std::string letters = "n" + spatial + "c";
    return {.inputs = {letters}, .output = letters, .windows = spatial};
  }
  Range window(int, int dimension, Range output, std::span<const Shape> inputs) const override {
    return windows_[dimension - 1].inputs_of(output, inputs[0][dimension]);
  }
  double flops(std::span<const Shape> inputs, const Shape& output) const override {
    double places = 1;
    for (std::size_t d = 0; d < windows_.size(); ++d) {
      places *= static_cast<double>(windows_[d].most_places(inputs[0][d + 1]));
    }
    return places * static_cast<double>(element_count(output));
  }

  void forward(Lowering& lowering) const override {
    const PoolingShape at = placed(lowering);
    const Operand x = lowering.input(0), y = lowering.output();
    if (pooling_ == Pooling::average) {
      lowering.emit(AveragePoolingSpec{at}, {x, y});
    } else if (lowering.training() && lowering.needs_gradient(0)) {
      lowering.emit(MaximumPoolingSpec{.at = at, .winners = true}, {x, y, winners(lowering, at)});
    } else {
      lowering.emit(MaximumPoolingSpec{.at = at}, {x, y});
    }
  }
  void backward(Lowering& lowering) const override {
    if (!lowering.needs_gradient(0)) {
      return;
    }
    const PoolingShape at = placed(lowering);
    const Operand dy = lowering.output_gradient(), dx = lowering.input_gradient(0);
    if (pooling_ == Pooling::average) {
      lowering.emit(AveragePoolingGradientSpec{at}, {dy, dx});
    } else {
      lowering.emit(MaximumPoolingGradientSpec{at}, {winners(lowering, at), dy, dx});
    }
  }
  bool backward_reads(int) const override { return false; }

 private:
  PoolingShape placed(const Lowering& lowering) const {
    const Block& y = lowering.output_block();
    const PlacedWindows at =
        placed_windows(windows_, lowering.block(0), y, lowering.global_shape(0));
    return {.batch = at.batch,
            .planes = at.planes,
            .rows = at.rows,
            .columns = at.columns,
            .channels = y.back().length()};
  }
  static Operand winners(Lowering& lowering, const PoolingShape& at) {
    return lowering.scratch("winners", element_count(lowering.local_output_shape()),
                            winner_type(at));
  }

  Pooling pooling_;
  std::vector<SlidingWindow> windows_;
};

}  // namespace meshwork
