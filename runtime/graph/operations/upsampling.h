// Upsampling: an image enlarged by whole factors, each pixel repeated (nearest) or the pixels
// interpolated (bilinear, with centres of pixels half a pixel in, as Keras has it).
//
// Rule "nhwc->nhwc" with windows over h and w: a block of the result needs the pixels that it is
// made of. Of sequences h is left out, and the kernel sees images of one row. A volume is enlarged
// twice: its columns, where each of its rows is an image of one row, then planes and rows, where
// what lies behind them counts as channels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/device/kernels/upsampling.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"
#include "runtime/graph/operations/dimensions.h"
#include "runtime/graph/operations/windows.h"

namespace meshwork {

class UpsamplingOperation final : public Operation {
 public:
  /// `factors` by spatial dimension, one to three.
  UpsamplingOperation(std::vector<std::int64_t> factors, Interpolation interpolation)
      : factors_(std::move(factors)), interpolation_(interpolation) {}

  std::string kind() const override { return "upsampling"; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    check_input_count(inputs, 1);
    check_image(inputs[0], factors_.size());
    Shape output = inputs[0];
    for (std::size_t d = 0; d < factors_.size(); ++d) output[d + 1] *= factors_[d];
    return output;
  }
  Rule rule(std::span<const Shape>) const override {
    const std::string spatial = spatial_letters(factors_.size());
    const std::string letters = "n" + spatial + "c";
    return {.inputs = {letters}, .output = letters, .windows = spatial};
  }
  Range window(int, int dimension, Range output, std::span<const Shape> inputs) const override {
    const std::int64_t factor = factors_[dimension - 1];
    if (interpolation_ == Interpolation::nearest) {
      return {output.begin / factor, (output.end - 1) / factor + 1};
    }
    const std::int64_t length = inputs[0][dimension];
    return {pixels_around(output.begin, factor, length).begin,
            pixels_around(output.end - 1, factor, length).end};
  }
  double flops(std::span<const Shape>, const Shape& output) const override {
    return interpolation_ == Interpolation::nearest
               ? 0
               : 6.0 * static_cast<double>(element_count(output));
  }

  void forward(Lowering& lowering) const override {
    const std::vector<UpsamplingShape> passes = this->passes(lowering);
    Operand x = lowering.input(0);
    for (std::size_t pass = 0; pass < passes.size(); ++pass) {
      const Operand y = pass + 1 < passes.size()
                            ? lowering.scratch("enlarged columns", output_count(passes[pass]))
                            : lowering.output();
      lowering.emit(UpsamplingSpec{passes[pass]}, {x, y});
      x = y;
    }
  }
  void backward(Lowering& lowering) const override {
    if (!lowering.needs_gradient(0)) {
      return;
    }
    const std::vector<UpsamplingShape> passes = this->passes(lowering);
    Operand dy = lowering.output_gradient();
    for (std::size_t pass = passes.size(); pass-- > 0;) {
      const Operand dx = pass > 0 ? lowering.scratch("gradient of enlarged columns",
                                                     output_count(passes[pass - 1]))
                                  : lowering.input_gradient(0);
      lowering.emit(UpsamplingGradientSpec{passes[pass]}, {dy, dx});
      dy = dx;
    }
  }
  bool backward_reads(int) const override { return false; }

 private:
  // The pixels that output `o` of a bilinear enlargement is made of: those around s = (o + 1/2) /
  // factor - 1/2, within the image. All in units of 1 / (2 factor), which are exact.
  static Range pixels_around(std::int64_t o, std::int64_t factor, std::int64_t length) {
    const std::int64_t unit = 2 * factor;
    const std::int64_t s = std::clamp<std::int64_t>(2 * o + 1 - factor, 0, unit * (length - 1));
    return {s / unit, s / unit + (s % unit == 0 ? 1 : 2)};
  }

  std::vector<UpsamplingShape> passes(const Lowering& lowering) const {
    const Block& x = lowering.block(0);
    const Block& y = lowering.output_block();
    const auto dimension = [&](std::size_t d) {
      return UpsamplingDimension{.length = lowering.global_shape(0)[d],
                                 .factor = factors_[d - 1],
                                 .first_input = x[d].begin,
                                 .input = x[d].length(),
                                 .first_output = y[d].begin,
                                 .output = y[d].length()};
    };
    const std::size_t last = factors_.size();
    const std::int64_t batch = y[0].length(), channels = y.back().length();
    UpsamplingShape of_columns{.batch = batch,
                               .rows = {},
                               .columns = dimension(last),
                               .channels = channels,
                               .interpolation = interpolation_};
    if (last < 3) {
      if (last == 2) of_columns.rows = dimension(1);
      return {of_columns};
    }
    of_columns.batch = batch * x[1].length() * x[2].length();
    return {of_columns,
            {.batch = batch,
             .rows = dimension(1),
             .columns = dimension(2),
             .channels = y[last].length() * channels,
             .interpolation = interpolation_}};
  }
  static std::int64_t output_count(const UpsamplingShape& at) {
    return at.batch * at.rows.output * at.columns.output * at.channels;
  }

  std::vector<std::int64_t> factors_;
  Interpolation interpolation_;
};

}  // namespace meshwork
