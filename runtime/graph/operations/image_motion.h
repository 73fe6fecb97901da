// Images that are moved in training, each by numbers drawn for it: flipped, translated, rotated,
// enlarged, or cut out at a drawn place. Outside training a cut is in the middle, and nothing else
// moves.
//
// Rule "nhwc->n..c": a pixel of the result may come from anywhere in its image, so that rows and
// columns are whole, and samples and channels may be split. The numbers of a sample follow from its
// index in the global batch: they are the same on every mesh, and the same again in backward.
#pragma once

#include <string>

#include "collectives/error.h"
#include "runtime/device/kernels/draws.h"
#include "runtime/device/kernels/image_motion.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"
#include "runtime/graph/operations/dimensions.h"
#include "runtime/graph/operations/windows.h"

namespace meshwork {

class ImageMotionOperation final : public Operation {
 public:
  explicit ImageMotionOperation(ImageMotion motion) : motion_(motion) {}

  /// A cut of `rows` and `columns`.
  ImageMotionOperation(std::int64_t rows, std::int64_t columns)
      : motion_{.motion = Motion::crop}, rows_(rows), columns_(columns) {}

  std::string kind() const override { return "image motion"; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    check_input_count(inputs, 1);
    check_image(inputs[0], 2);
    if (!crops()) return inputs[0];
    if (inputs[0][1] < rows_ || inputs[0][2] < columns_) {
      fail("expected images of at least {} x {}, found shape {}", rows_, columns_,
           to_string(inputs[0]));
    }
    return {inputs[0][0], rows_, columns_, inputs[0][3]};
  }
  Rule rule(std::span<const Shape>) const override {
    if (crops()) return {.inputs = {"nhwc"}, .output = "nijc", .whole = "hwij"};
    return {.inputs = {"nhwc"}, .output = "nhwc", .whole = "hw"};
  }
  double flops(std::span<const Shape>, const Shape& output) const override {
    return 8.0 * static_cast<double>(element_count(output));
  }
  bool backward_reads(int) const override { return false; }

  void forward(Lowering& lowering) const override {
    if (!acts(lowering)) {
      lowering.output_is_input(0);
      return;
    }
    const ImageMotionShape at = shape(lowering);
    lowering.emit(ImageMotionSpec{motion(lowering), at},
                  {lowering.input(0), drawn(lowering, at.batch), lowering.output()});
  }
  void backward(Lowering& lowering) const override {
    if (!lowering.needs_gradient(0)) return;
    if (!acts(lowering)) {
      lowering.input_gradient_is_output_gradient(0);
      return;
    }
    const ImageMotionShape at = shape(lowering);
    lowering.zero(element_count(lowering.local_shape(0)), lowering.input_gradient(0));
    lowering.emit(
        ImageMotionGradientSpec{motion(lowering), at},
        {lowering.output_gradient(), drawn(lowering, at.batch), lowering.input_gradient(0)});
  }

 private:
  bool crops() const { return motion_.motion == Motion::crop; }
  bool acts(const Lowering& lowering) const { return crops() || lowering.training(); }

  // A cut begins at one of the places where it fits, all as likely; outside training in the middle.
  ImageMotion motion(const Lowering& lowering) const {
    ImageMotion motion = motion_;
    if (!crops()) return motion;
    const Shape& x = lowering.global_shape(0);
    const std::int64_t rest[2] = {x[1] - rows_, x[2] - columns_};
    for (std::size_t d = 0; d < 2; ++d) {
      const bool training = lowering.training();
      motion.low[d] = training ? 0 : static_cast<float>(rest[d] / 2);
      motion.high[d] = training ? static_cast<float>(rest[d] + 1) : motion.low[d];
    }
    return motion;
  }
  static ImageMotionShape shape(const Lowering& lowering) {
    const Shape x = lowering.local_shape(0);
    const Shape y = lowering.local_output_shape();
    return {x[0], x[1], x[2], y[1], y[2], x[3]};
  }
  // Two numbers a sample; of none that is drawn outside training, zeros.
  static Operand drawn(Lowering& lowering, std::int64_t batch) {
    const Operand u = lowering.scratch("drawn numbers", 2 * batch);
    if (!lowering.training()) {
      lowering.zero(2 * batch, u);
      return u;
    }
    const auto [shape, block] = lowering.output_in_batch();
    lowering.emit(
        UniformDrawSpec{lowering.random_key(), {shape.front(), 2}, {block.front(), {0, 2}}},
        {lowering.step_scalars(), u});
    return u;
  }

  ImageMotion motion_;
  std::int64_t rows_ = 0, columns_ = 0;
};

}  // namespace meshwork
