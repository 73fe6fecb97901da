// Random numbers that are added to a tensor in training, or multiply it. Outside training nothing
// moves.
//
// Rule "btu->btu": each number follows from its global index, so that it is the same on every mesh,
// and the same again in backward. Factors of channels are those of a tensor (batch, channels), which
// every rank draws for its block: the letters between may be split without a word.
#pragma once

#include <cmath>
#include <string>

#include "runtime/device/kernels/draws.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/middle.h"
#include "runtime/device/kernels/pairs.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"

namespace meshwork {

enum class Noise {
  added,       // y = x + n, with n of a normal distribution
  multiplied,  // y = x * n
  channels,    // dropout of whole channels of samples
  // Dropout to the value that selu tends to below 0. Then y is scaled and shifted, so that mean 0 and
  // variance 1 stay (Klambauer et al., "Self-normalizing neural networks", 2017).
  to_low
};

class NoiseOperation final : public Operation {
 public:
  /// `amount`: the standard deviation, or the rate.
  NoiseOperation(Noise noise, float amount) : noise_(noise), amount_(amount) {}

  std::string kind() const override {
    return noise_ == Noise::channels ? "channel dropout"
           : noise_ == Noise::to_low ? "alpha dropout"
                                     : "noise";
  }
  double flops(std::span<const Shape>, const Shape& output) const override {
    return static_cast<double>(element_count(output));
  }
  bool backward_reads(int) const override { return false; }

  void forward(Lowering& lowering) const override {
    if (!acts(lowering)) {
      lowering.output_is_input(0);
      return;
    }
    if (noise_ == Noise::channels) draw_channels(lowering);
    apply(lowering, lowering.input(0), lowering.output(), low);
  }
  void backward(Lowering& lowering) const override {
    if (!lowering.needs_gradient(0)) return;
    if (!acts(lowering) || noise_ == Noise::added) {
      lowering.input_gradient_is_output_gradient(0);
    } else {
      apply(lowering, lowering.output_gradient(), lowering.input_gradient(0), 0);
    }
  }

 private:
  bool acts(const Lowering& lowering) const { return lowering.training() && amount_ > 0; }

  // Of elements that are set to `unkept`; 0 for gradients.
  void apply(Lowering& lowering, Operand x, Operand y, double unkept) const {
    if (noise_ == Noise::channels) {
      lowering.emit(MiddleScaleSpec{extents(lowering)}, {x, kept(lowering), y});
      return;
    }
    const std::int64_t count = element_count(lowering.local_output_shape());
    const auto [shape, block] = lowering.output_in_batch();
    if (noise_ == Noise::to_low) {
      // Dropout of x - unkept, which it divides by 1 - rate.
      const double rate = amount_;
      const double scale = 1 / std::sqrt((1 - rate) * (1 + rate * low * low));
      if (unkept != 0) {
        lowering.emit(AffineSpec{count, 1, static_cast<float>(-unkept)}, {x, y});
      }
      lowering.emit(DropoutSpec{amount_, lowering.random_key(), shape, block},
                    {unkept != 0 ? y : x, lowering.step_scalars(), y});
      lowering.emit(AffineSpec{count, static_cast<float>(scale * (1 - rate)),
                               static_cast<float>(scale * unkept * (1 - rate))},
                    {y, y});
      return;
    }
    const bool added = noise_ == Noise::added;
    lowering.emit(NormalDrawSpec{added ? 0.0f : 1.0f, amount_, lowering.random_key(), shape, block},
                  {lowering.step_scalars(), y});
    if (added) {
      lowering.emit(SumSpec{count, 2}, {y, x, y});
    } else {
      lowering.emit(PairSpec{PairFunction::product, count}, {y, x, y});
    }
  }

  // Dropout of ones.
  void draw_channels(Lowering& lowering) const {
    const auto [shape, block] = lowering.output_in_batch();
    const MiddleExtents at = extents(lowering);
    const Operand ones = kept(lowering);
    lowering.zero(at.outer * at.inner, ones);
    lowering.emit(AffineSpec{at.outer * at.inner, 1, 1}, {ones, ones});
    lowering.emit(DropoutSpec{amount_,
                              lowering.random_key(),
                              {shape.front(), shape.back()},
                              {block.front(), block.back()}},
                  {ones, lowering.step_scalars(), ones});
  }
  static MiddleExtents extents(const Lowering& lowering) {
    const Shape y = lowering.local_output_shape();
    return {y.front(), element_count(std::span(y).subspan(1, y.size() - 2)), y.back()};
  }
  static Operand kept(Lowering& lowering) {
    const MiddleExtents at = extents(lowering);
    return lowering.scratch("kept channels", at.outer * at.inner);
  }

  static constexpr double low = -1.7580993408473766;  // selu's scale * alpha

  Noise noise_;
  float amount_;
};

}  // namespace meshwork
