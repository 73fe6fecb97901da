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

#include "collectives/error.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/normalization.h"
#include "runtime/device/program.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"
#include "runtime/graph/operations/dimensions.h"

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
                                       Activation activation = Activation::linear)
      : options_(options), activation_(activation) {
    if (!can_be_joined(activation)) {
      internal_error("a batch normalization cannot be joined with this activation");
    }
  }

  std::string kind() const override {
    return activation_ == Activation::linear ? "batch normalization" : "batch normalization+relu";
  }
  Shape output_shape(std::span<const Shape> inputs) const override {
    check_input_count(inputs, static_cast<std::size_t>(moving_variance()) + 1);
    const Shape& x = inputs[0];
    if (x.size() < 2) {
      fail("expected an input of at least two dimensions, batch and channels, found shape {}",
           to_string(x));
    }
    for (std::size_t i = 1; i < inputs.size(); ++i) {
      if (inputs[i] != Shape{x.back()}) {
        fail("an input of shape {} needs statistics of shape {}, found {}", to_string(x),
             to_string(Shape{x.back()}), to_string(inputs[i]));
      }
    }
    return x;
  }
  Rule rule(std::span<const Shape> inputs) const override {
    const std::string rows = letters_of_rows(inputs[0]);
    Rule rule{.inputs = {rows + 'o'}, .output = rows + 'o', .own = rows};
    rule.inputs.resize(inputs.size(), "o");
    return rule;
  }
  std::vector<OwnReduction> own_reductions(const Rule& rule) const override {
    if (options_.frozen) {
      return {};
    }
    return {{.over = rule.own, .of = "o", .bytes_per_element = 16},
            {.over = rule.own, .of = "o", .bytes_per_element = 16, .backward = true}};
  }
  // Moving values are there before any rows.
  bool takes_pieces(char, const Rule&) const override { return true; }
  // Two passes over x: sums, and the result.
  double flops(std::span<const Shape>, const Shape& output) const override {
    return 8.0 * static_cast<double>(element_count(output));
  }

  void forward(Lowering& lowering) const override {
    const NormalizationShape at = normalized(lowering);
    const Operand x = lowering.input(0);
    const Operand mean = this->mean(lowering);
    const Operand inverse = this->inverse(lowering);
    if (of_batch(lowering)) {
      const Shape& global = lowering.global_shape(0);
      const Operand sums = lowering.scratch("sums", 2 * at.channels, ElementType::float64);
      lowering.emit(ChannelMomentsSpec{at.rows, at.channels}, {x, sums});
      lowering.all_reduce(letters_of_rows(global), ElementType::float64, Reduction::sum, sums,
                          2 * at.channels, 2 * columns_of(global), "sums of channels");
      lowering.emit(
          ChannelStatisticsSpec{.channels = at.channels,
                                .count = rows_of(global),
                                .epsilon = options_.epsilon,
                                .momentum = options_.momentum},
          {sums, lowering.input(moving_mean()), lowering.input(moving_variance()), mean, inverse,
           lowering.updated(moving_mean()), lowering.updated(moving_variance())});
    } else {
      lowering.emit(InverseDeviationSpec{at.channels, options_.epsilon},
                    {lowering.input(moving_variance()), inverse});
    }
    std::vector<Operand> operands{x, mean, inverse};
    append_gamma_and_beta(lowering, operands);
    operands.push_back(lowering.output());
    lowering.emit(NormalizeSpec{at}, operands);
  }
  void backward(Lowering& lowering) const override {
    const auto wanted = [&](int input) { return input >= 0 && lowering.needs_gradient(input); };
    const bool variables = wanted(gamma()) || wanted(beta());
    if (!lowering.needs_gradient(0) && !variables) {
      return;
    }
    const NormalizationShape at = normalized(lowering);
    const Shape& global = lowering.global_shape(0);
    const bool frozen = !of_batch(lowering);
    const Operand dy = lowering.output_gradient();
    std::vector<Operand> operands{lowering.input(0), dy, mean(lowering), inverse(lowering)};
    append_gamma_and_beta(lowering, operands);

    const Operand sums =
        lowering.scratch("sums of gradients", 2 * at.channels, ElementType::float64);
    if (variables || !frozen) {
      std::vector<Operand> summed = operands;
      summed.push_back(sums);
      lowering.emit(NormalizeGradientSumsSpec{at}, summed);
      lowering.all_reduce(letters_of_rows(global), ElementType::float64, Reduction::sum, sums,
                          2 * at.channels, 2 * columns_of(global), "sums of gradients");
    }
    if (lowering.needs_gradient(0)) {
      if (!frozen) {
        operands.push_back(sums);
      }
      operands.push_back(lowering.input_gradient(0));
      lowering.emit(NormalizeGradientSpec{at, rows_of(global), frozen}, operands);
    }
    if (wanted(gamma())) {
      lowering.emit(
          ConvertSpec{at.channels, ElementType::float64},
          {sums.after(at.channels, ElementType::float64), lowering.input_gradient(gamma())});
    }
    if (wanted(beta())) {
      lowering.emit(ConvertSpec{at.channels, ElementType::float64},
                    {sums, lowering.input_gradient(beta())});
    }
  }
  bool backward_reads(int input) const override {
    return input != moving_variance() && (input != moving_mean() || options_.frozen);
  }
  Fusible fusible() const override {
    return {.epilogue = {.activation = activation_},
            .with = [this](const Epilogue& epilogue) -> std::unique_ptr<Operation> {
              if (epilogue.bias || epilogue.dropout > 0 || !can_be_joined(epilogue.activation)) {
                return nullptr;
              }
              return std::make_unique<BatchNormalizationOperation>(options_, epilogue.activation);
            }};
  }

 private:
  // Letters of everything that is normalized together.
  static std::string letters_of_rows(const Shape& shape) {
    return dimension_letters(shape.size() - 1);
  }

  static bool can_be_joined(Activation activation) {
    return activation == Activation::linear || activation == Activation::relu;
  }

  // Places of the inputs; -1 for those that there are not.
  int gamma() const { return options_.scale ? 1 : -1; }
  int beta() const { return options_.center ? 1 + (options_.scale ? 1 : 0) : -1; }
  int moving_mean() const { return 1 + (options_.scale ? 1 : 0) + (options_.center ? 1 : 0); }
  int moving_variance() const { return moving_mean() + 1; }

  // Whether the statistics are those of the batch.
  bool of_batch(const Lowering& lowering) const { return lowering.training() && !options_.frozen; }
  NormalizationShape normalized(const Lowering& lowering) const {
    const Shape x = lowering.local_shape(0);
    return {.rows = rows_of(x),
            .channels = columns_of(x),
            .scale = options_.scale,
            .center = options_.center,
            .activation = activation_};
  }
  Operand mean(Lowering& lowering) const {
    return of_batch(lowering) ? lowering.scratch("mean", columns_of(lowering.local_shape(0)))
                              : lowering.input(moving_mean());
  }
  // 1 / sqrt(variance + epsilon).
  static Operand inverse(Lowering& lowering) {
    return lowering.scratch("inverse deviation", columns_of(lowering.local_shape(0)));
  }
  void append_gamma_and_beta(Lowering& lowering, std::vector<Operand>& operands) const {
    for (const int input : {gamma(), beta()}) {
      if (input >= 0) {
        operands.push_back(lowering.input(input));
      }
    }
  }

  BatchNormalizationOptions options_;
  Activation activation_;
};

}  // namespace meshwork
