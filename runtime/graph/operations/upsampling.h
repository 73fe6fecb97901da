// Upsampling: an image enlarged by whole factors, or made of any other size. Each new pixel is the
// nearest old one, or interpolated between its neighbours (bilinear), with centres of pixels half a
// pixel in, as Keras has it.
//
// Rule "nhwc->nhwc" with windows over h and w: a block of the result needs the pixels that it is
// made of. Of sequences h is left out, and the kernel sees images of one row. A volume is enlarged
// twice: its columns, where each of its rows is an image of one row, then planes and rows, where
// what lies behind them counts as channels.
#pragma once

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
  /// `sizes` by spatial dimension, one to three: by how much they are enlarged, or how long they
  /// become.
  enum class Sizes : std::uint8_t { factors, lengths };
  UpsamplingOperation(std::vector<std::int64_t> sizes, Interpolation interpolation,
                      Sizes of = Sizes::factors)
      : sizes_(std::move(sizes)), interpolation_(interpolation), of_(of) {}

  std::string kind() const override { return of_ == Sizes::factors ? "upsampling" : "resizing"; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    check_input_count(inputs, 1);
    check_image(inputs[0], sizes_.size());
    Shape output = inputs[0];
    for (std::size_t d = 0; d < sizes_.size(); ++d) output[d + 1] = made(d + 1, output[d + 1]);
    return output;
  }
  Rule rule(std::span<const Shape>) const override {
    const std::string spatial = spatial_letters(sizes_.size());
    const std::string letters = "n" + spatial + "c";
    return {.inputs = {letters}, .output = letters, .windows = spatial};
  }
  Range window(int, int dimension, Range output, std::span<const Shape> inputs) const override {
    const std::size_t d = static_cast<std::size_t>(dimension);
    const std::int64_t length = inputs[0][d];
    const auto seen = [&](std::int64_t o) {
      return looked_at(o, length, made(d, length), interpolation_);
    };
    return {seen(output.begin).low, seen(output.end - 1).high + 1};
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
  // How long dimension `d` becomes.
  std::int64_t made(std::size_t d, std::int64_t length) const {
    return of_ == Sizes::factors ? length * sizes_[d - 1] : sizes_[d - 1];
  }
  std::vector<UpsamplingShape> passes(const Lowering& lowering) const {
    const Block& x = lowering.block(0);
    const Block& y = lowering.output_block();
    const auto dimension = [&](std::size_t d) {
      return UpsamplingDimension{.length = lowering.global_shape(0)[d],
                                 .made = made(d, lowering.global_shape(0)[d]),
                                 .first_input = x[d].begin,
                                 .input = x[d].length(),
                                 .first_output = y[d].begin,
                                 .output = y[d].length()};
    };
    const std::size_t last = sizes_.size();
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

  std::vector<std::int64_t> sizes_;
  Interpolation interpolation_;
  Sizes of_;
};

}  // namespace meshwork
