// Batch normalization over the last dimension: y = (x - mean) * gamma / sqrt(variance + epsilon) +
// beta, channel by channel.
//
// Inputs: x, [gamma], [beta], moving mean, moving variance. In training the mean and the population
// variance are those of the whole global batch, over all dimensions but the channels, and the
// moving values are moved towards them: moving = momentum * moving + (1 - momentum) * batch.
// Otherwise, and in training too where the layer is `frozen`, the moving values are taken and left
// alone (keras.io/api/layers/normalization_layers/batch_normalization).
//
// Rule "bto,o,o,o,o->bto", and every letter but the channels' is its own: however the axes split
// them, the ranks add up {sum of x, sum of x^2} of each channel in float64, one reduction of two
// rows over all those axes together, and divide by the global count. Counts that differ between
// ranks, or are 0, need no care. All ranks compute the same mean from the same sums, so the moving
// values stay equal bit for bit. Backward reduces {sum of dy, sum of dy * xhat} once alike, which
// are the gradients of beta and gamma. A split of the channels splits everything and reduces
// nothing.
//
// relu can be joined behind.
#pragma once

#include "runtime/device/kernels/normalization.h"
#include "runtime/device/program.h"
#include "runtime/graph/operation.h"

namespace meshwork {

struct BatchNormalizationOptions {
  bool scale = true;   // multiply by gamma
  bool center = true;  // add beta
  double momentum = 0.99, epsilon = 1e-3;
  bool frozen = false;  // use the moving values in training too
};

class BatchNormalizationOperation final : public Operation {
 public:
  explicit BatchNormalizationOperation(const BatchNormalizationOptions& options,
                                       Activation activation = Activation::linear);

  std::string kind() const override;
  Shape output_shape(std::span<const Shape> inputs) const override;
  Rule rule(std::span<const Shape> inputs) const override;
  std::vector<OwnReduction> own_reductions(const Rule& rule) const override;
  double flops(std::span<const Shape> inputs, const Shape& output) const override;
  void forward(Lowering& lowering) const override;
  void backward(Lowering& lowering) const override;
  bool backward_reads(int input) const override;
  std::unique_ptr<Operation> fused_with(const Operation& next, int position) const override;

 private:
  // Places of the inputs; -1 for those that there are not.
  int gamma() const { return options_.scale ? 1 : -1; }
  int beta() const { return options_.center ? 1 + (options_.scale ? 1 : 0) : -1; }
  int moving_mean() const { return 1 + (options_.scale ? 1 : 0) + (options_.center ? 1 : 0); }
  int moving_variance() const { return moving_mean() + 1; }

  bool of_batch(const Lowering& lowering) const;
  NormalizationShape normalized(const Lowering& lowering) const;
  Operand mean(Lowering& lowering) const;
  static Operand inverse(Lowering& lowering);
  void append_gamma_and_beta(Lowering& lowering, std::vector<Operand>& operands) const;

  BatchNormalizationOptions options_;
  Activation activation_;
};

}  // namespace meshwork
