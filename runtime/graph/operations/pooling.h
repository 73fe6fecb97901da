// Pooling: the maximum or the mean of the window at each place, channel by channel.
//
// Rule "nhwc->nhwc" with windows over h and w, "ndhwc->ndhwc" of volumes. Padding never counts: the mean divides by the
// elements that are there, and a maximum takes one of them (tensorflow.org/api_docs/python/tf/nn,
// notes on padding). The gradient of a maximum goes to the first element, in row-major order, that
// is it; forward keeps which one that was, when it is followed by backward.
//
// A volume is pooled twice: over columns, where each of its rows is an image of one row, then over
// planes and rows, where what lies behind them counts as channels. A maximum is that of maxima, and
// a mean that of means, since every window of columns has as many elements as the others below it.
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
    const std::vector<PoolingShape> passes = this->passes(lowering);
    const bool winners = lowering.training() && lowering.needs_gradient(0);
    Operand x = lowering.input(0);
    for (std::size_t pass = 0; pass < passes.size(); ++pass) {
      const PoolingShape& at = passes[pass];
      const Operand y = pass + 1 < passes.size()
                            ? lowering.scratch("pooled over columns", output_count(at))
                            : lowering.output();
      if (pooling_ == Pooling::average) {
        lowering.emit(AveragePoolingSpec{at}, {x, y});
      } else if (winners) {
        lowering.emit(MaximumPoolingSpec{.at = at, .winners = true},
                      {x, y, this->winners(lowering, at, pass)});
      } else {
        lowering.emit(MaximumPoolingSpec{.at = at}, {x, y});
      }
      x = y;
    }
  }
  void backward(Lowering& lowering) const override {
    if (!lowering.needs_gradient(0)) {
      return;
    }
    const std::vector<PoolingShape> passes = this->passes(lowering);
    Operand dy = lowering.output_gradient();
    for (std::size_t pass = passes.size(); pass-- > 0;) {
      const PoolingShape& at = passes[pass];
      const Operand dx =
          pass > 0 ? lowering.scratch("gradient over columns", output_count(passes[pass - 1]))
                   : lowering.input_gradient(0);
      if (pooling_ == Pooling::average) {
        lowering.emit(AveragePoolingGradientSpec{at}, {dy, dx});
      } else {
        lowering.emit(MaximumPoolingGradientSpec{at}, {winners(lowering, at, pass), dy, dx});
      }
      dy = dx;
    }
  }
  bool backward_reads(int) const override { return false; }

 private:
  std::vector<PoolingShape> passes(const Lowering& lowering) const {
    const Block& y = lowering.output_block();
    const PlacedWindows at =
        placed_windows(windows_, lowering.block(0), y, lowering.global_shape(0));
    const std::int64_t channels = y.back().length();
    if (windows_.size() < 3) {
      return {{.batch = at.batch, .rows = at.rows, .columns = at.columns, .channels = channels}};
    }
    return {{.batch = at.batch * at.planes.input * at.rows.input,
             .rows = {},
             .columns = at.columns,
             .channels = channels},
            {.batch = at.batch,
             .rows = at.planes,
             .columns = at.rows,
             .channels = at.columns.output * channels}};
  }
  static std::int64_t output_count(const PoolingShape& at) {
    return at.batch * at.rows.output * at.columns.output * at.channels;
  }
  static Operand winners(Lowering& lowering, const PoolingShape& at, std::size_t pass) {
    return lowering.scratch(pass == 0 ? "winners" : "winners of planes", output_count(at),
                            winner_type(at));
  }

  Pooling pooling_;
  std::vector<SlidingWindow> windows_;
};

}  // namespace meshwork
