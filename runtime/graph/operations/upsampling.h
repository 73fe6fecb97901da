// Upsampling: an image enlarged by whole factors, each pixel repeated (nearest) or the pixels
// interpolated (bilinear, with centres of pixels half a pixel in, as Keras has it).
//
// Rule "nhwc->nhwc" with windows over h and w: a block of the result needs the pixels that it is
// made of.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/device/kernels/upsampling.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"
#include "runtime/graph/operations/dimensions.h"
#include "runtime/graph/operations/windows.h"

namespace meshwork {

class UpsamplingOperation final : public Operation {
 public:
  UpsamplingOperation(std::int64_t row_factor, std::int64_t column_factor,
                      Interpolation interpolation)
      : factors_{row_factor, column_factor}, interpolation_(interpolation) {}

  std::string kind() const override { return "upsampling"; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    check_input_count(inputs, 1);
    check_image(inputs[0], 2);
    Shape output = inputs[0];
    output[1] *= factors_[0];
    output[2] *= factors_[1];
    return output;
  }
  Rule rule(std::span<const Shape>) const override {
    return {.inputs = {"nhwc"}, .output = "nhwc", .windows = "hw"};
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
    lowering.emit(UpsamplingSpec{placed(lowering)}, {lowering.input(0), lowering.output()});
  }
  void backward(Lowering& lowering) const override {
    if (lowering.needs_gradient(0)) {
      lowering.emit(UpsamplingGradientSpec{placed(lowering)},
                    {lowering.output_gradient(), lowering.input_gradient(0)});
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

  UpsamplingShape placed(const Lowering& lowering) const {
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
    return {.batch = y[0].length(),
            .rows = dimension(1),
            .columns = dimension(2),
            .channels = y[3].length(),
            .interpolation = interpolation_};
  }

  std::int64_t factors_[2];
  Interpolation interpolation_;
};

}  // namespace meshwork
