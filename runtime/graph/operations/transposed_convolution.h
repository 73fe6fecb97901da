// Transposed convolution: y is what a convolution's gradient by its input would be, had that
// convolution's output the gradient x. Each element of x (batch, rows, columns, channels) lays its
// window, times kernel (window rows, window columns, filters, channels), onto y (batch, output
// rows, output columns, filters), `stride` apart, where it is added. Keras's Conv2DTranspose: an
// image grows to rows * stride under "same", and to as many as all windows cover under "valid".
//
// Rule "nhwc,rsfc->nhwf" with windows over h and w, r and s whole: a block of output rows needs the
// elements whose windows reach into it. Backward is a convolution of dy with the same windows. Of
// volumes it is "ndhwc,qrsfc->ndhwf".
#pragma once

#include <span>
#include <vector>

#include "collectives/error.h"
#include "collectives/joined_text.h"
#include "runtime/device/kernels/convolution.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"
#include "runtime/graph/operations/dimensions.h"
#include "runtime/graph/operations/windows.h"

namespace meshwork {

class TransposedConvolutionOperation final : public Operation {
 public:
  /// `windows` by spatial dimension, one to three.
  explicit TransposedConvolutionOperation(std::vector<SlidingWindow> windows)
      : windows_(std::move(windows)) {
    if (windows_.empty() || windows_.size() > 3) {
      internal_error("a transposed convolution has one to three spatial dimensions");
    }
  }

  std::string kind() const override { return "transposed convolution"; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    check_input_count(inputs, 2);
    const Shape& x = inputs[0];
    const std::size_t spatial = windows_.size();
    check_image(x, spatial);
    Shape expected;
    for (const SlidingWindow& window : windows_) {
      expected.push_back(window.window);
    }
    const Shape& found = inputs[kernel];
    expected.push_back(found.size() == spatial + 2 ? found[spatial] : 1);
    expected.push_back(x.back());
    if (found != expected) {
      fail(
          "a transposed convolution of an input of shape {} needs a kernel of shape ({}, filters, "
          "{}), "
          "found {}",
          to_string(x), joined_text(std::span(expected).first(expected.size() - 2), ", "), x.back(),
          to_string(found));
    }
    Shape output = x;
    for (std::size_t d = 0; d < spatial; ++d) {
      output[d + 1] = windows_[d].transposed_outputs(x[d + 1]);
    }
    output.back() = expected[spatial];
    return output;
  }
  Rule rule(std::span<const Shape>) const override {
    const std::string spatial = spatial_letters(windows_.size());
    const std::string places = place_letters(windows_.size());
    return {.inputs = {"n" + spatial + "c", places + "fc"},
            .output = "n" + spatial + "f",
            .whole = places,
            .windows = spatial};
  }
  Range window(int, int dimension, Range output, std::span<const Shape> inputs) const override {
    return windows_[dimension - 1].transposed_inputs_of(output, inputs[0][dimension]);
  }
  double flops(std::span<const Shape> inputs, const Shape&) const override {
    const Shape& weights = inputs[kernel];
    return 2.0 * static_cast<double>(element_count(inputs[0])) *
           static_cast<double>(element_count(weights)) / static_cast<double>(weights.back());
  }

  void forward(Lowering& lowering) const override {
    const Operand x = lowering.input(0), weights = lowering.input(kernel);
    lowering.emit(ConvolutionInputGradientSpec{placed(lowering)}, {x, weights, lowering.output()});
  }
  void backward(Lowering& lowering) const override {
    if (!lowering.needs_gradient(0) && !lowering.needs_gradient(kernel)) {
      return;
    }
    const ConvolutionShape at = placed(lowering);
    const Operand dy = lowering.output_gradient();
    if (lowering.needs_gradient(0)) {
      lowering.emit(ConvolutionSpec{.at = at},
                    {dy, lowering.input(kernel), lowering.input_gradient(0)});
      lowering.input_gradient_is_complete(0);
    }
    if (lowering.needs_gradient(kernel)) {
      lowering.emit(ConvolutionKernelGradientSpec{at},
                    {dy, lowering.input(0), lowering.input_gradient(kernel)});
    }
  }

 private:
  static constexpr int kernel = 1;

  // The convolution that goes from y to x.
  ConvolutionShape placed(const Lowering& lowering) const {
    const Block& x = lowering.block(0);
    const Block& y = lowering.output_block();
    const PlacedWindows at = placed_windows(windows_, y, x, lowering.global_output_shape());
    return {.batch = at.batch,
            .planes = at.planes,
            .rows = at.rows,
            .columns = at.columns,
            .channels = y.back().length(),
            .filters = x.back().length()};
  }

  std::vector<SlidingWindow> windows_;
};

}  // namespace meshwork
