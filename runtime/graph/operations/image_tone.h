// Images made brighter or darker, or of more or less contrast, in training, each by a number drawn
// for it. Outside training nothing changes.
//
// Rule "nhwc->nhwc". A sample's number follows from its index in the global batch, so it is the same
// on every mesh. Contrast needs the mean of each channel of an image: h and w are its own letters.
// Where an axis splits them, the ranks add up their parts of the means.
//
// No gradient passes a value that was cut to the darkest or the brightest one. Before the cut,
// contrast is a product with a symmetric matrix, so gradients are multiplied by the same matrix.
#pragma once

#include <string>
#include <vector>

#include "runtime/device/kernels/draws.h"
#include "runtime/device/kernels/image_tone.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"
#include "runtime/graph/operations/dimensions.h"
#include "runtime/graph/operations/windows.h"

namespace meshwork {

class ImageToneOperation final : public Operation {
 public:
  explicit ImageToneOperation(const ImageTone& tone) : tone_(tone) {}

  std::string kind() const override { return "image tone"; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    check_input_count(inputs, 1);
    check_image(inputs[0], 2);
    return inputs[0];
  }
  Rule rule(std::span<const Shape>) const override {
    return {.inputs = {"nhwc"}, .output = "nhwc", .own = needs_means() ? places : ""};
  }
  std::vector<OwnReduction> own_reductions(const Rule& rule) const override {
    if (!needs_means()) return {};
    return {{.over = rule.own, .of = "nc"}, {.over = rule.own, .of = "nc", .backward = true}};
  }
  double flops(std::span<const Shape>, const Shape& output) const override {
    return 3.0 * static_cast<double>(element_count(output));
  }
  bool backward_reads(int) const override { return false; }

  void forward(Lowering& lowering) const override {
    if (!lowering.training()) {
      lowering.output_is_input(0);
      return;
    }
    const auto [shape, block] = lowering.output_in_batch();
    lowering.emit(UniformDrawSpec{lowering.random_key(), {shape.front()}, {block.front()}},
                  {lowering.step_scalars(), drawn(lowering)});
    apply(lowering, tone_, lowering.input(0), lowering.output());
  }
  void backward(Lowering& lowering) const override {
    if (!lowering.needs_gradient(0)) return;
    if (!lowering.training()) {
      lowering.input_gradient_is_output_gradient(0);
      return;
    }
    const Operand dx = lowering.input_gradient(0);
    lowering.emit(InnerGradientSpec{element_count(lowering.local_output_shape()), tone_.darkest,
                                    tone_.brightest},
                  {lowering.output(), lowering.output_gradient(), dx});
    if (needs_means()) {
      apply(lowering, {.tone = tone_.tone, .low = tone_.low, .high = tone_.high}, dx, dx);
    }
  }

 private:
  static constexpr const char* places = "hw";
  bool needs_means() const { return tone_.tone == Tone::contrast; }

  void apply(Lowering& lowering, const ImageTone& tone, Operand x, Operand y) const {
    const Shape shape = lowering.local_output_shape();
    const Shape& global = lowering.global_output_shape();
    const MiddleExtents at{shape[0], shape[1] * shape[2], shape[3]};
    std::vector<Operand> operands{x, drawn(lowering)};
    if (needs_means()) {
      const Operand means = lowering.scratch("means of channels", at.outer * at.inner);
      lowering.emit(MiddleSumSpec{at, 1.0f / static_cast<float>(global[1] * global[2])},
                    {x, means});
      lowering.all_reduce(places, ElementType::float32, Reduction::sum, means, at.outer * at.inner,
                          global[0] * global[3], "means of channels");
      operands.push_back(means);
    }
    operands.push_back(y);
    lowering.emit(ImageToneSpec{tone, at}, std::move(operands));
  }
  // A number a sample, drawn in forward.
  static Operand drawn(Lowering& lowering) {
    return lowering.scratch("drawn numbers", lowering.local_output_shape().front());
  }

  ImageTone tone_;
};

}  // namespace meshwork
