// Convolution: y (batch, rows, columns, filters) = the sum over the places of a window and over the
// channels of x (batch, rows, columns, channels) times kernel (window rows, window columns,
// channels / groups, filters). A cross-correlation, as in Keras; no flip.
//
// Rule "nhwc,rscf->nhwf" with windows over h and w, r and s whole. A split of c leaves the output
// partial, one of f the gradient of x, one of n, h or w the gradient of the kernel. With one
// spatial dimension the letters h and r are left out, and the kernels see images of one row. Volumes
// are "ndhwc,qrscf->ndhwf".
//
// With groups, filter f of group f / (filters / groups) looks at the channels of that group alone.
// Rule "nhwg,rsig->nhwg": the windows slide over g too, since a block of filters needs the channels
// of the groups that it touches, and no others. Depthwise is groups = channels. A block that begins
// or ends inside a group runs whole groups with a kernel that is zero where filters are not its
// own, and cuts its filters out; blocks of whole groups run as they are.
//
// A bias and an activation that follow can be joined to it (epilogue.h).
#pragma once

#include <span>
#include <vector>

#include "collectives/error.h"
#include "collectives/joined_text.h"
#include "runtime/device/kernels/convolution.h"
#include "runtime/device/kernels/copies.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/products.h"
#include "runtime/device/program.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"
#include "runtime/graph/operations/dimensions.h"
#include "runtime/graph/operations/windows.h"

namespace meshwork {

class ConvolutionOperation final : public Operation {
 public:
  /// `windows` by spatial dimension, one to three.
  explicit ConvolutionOperation(std::vector<SlidingWindow> windows, std::int64_t groups = 1,
                                Epilogue epilogue = {})
      : windows_(std::move(windows)), groups_(groups), epilogue_(epilogue) {
    if (windows_.empty() || windows_.size() > 3) {
      internal_error("a convolution has one to three spatial dimensions");
    }
    epilogue_.check("a convolution");
  }

  std::string kind() const override { return epilogue_.behind("convolution"); }
  Shape output_shape(std::span<const Shape> inputs) const override {
    check_input_count(inputs, epilogue_.bias ? 3 : 2);
    const Shape& x = inputs[0];
    const std::size_t spatial = windows_.size();
    check_image(x, spatial);
    if (x.back() % groups_ != 0) {
      fail("{} channels do not divide into {} groups", x.back(), groups_);
    }
    Shape expected;
    for (const SlidingWindow& window : windows_) {
      expected.push_back(window.window);
    }
    expected.push_back(x.back() / groups_);
    const Shape& found = inputs[kernel];
    expected.push_back(found.empty() ? 1 : found.back());
    if (found != expected || expected.back() % groups_ != 0) {
      fail("a convolution of an input of shape {} needs a kernel of shape ({}, filters), found {}",
           to_string(x), joined_text(std::span(expected).first(expected.size() - 1), ", "),
           to_string(found));
    }
    Shape output = x;
    for (std::size_t d = 0; d < spatial; ++d) {
      output[d + 1] = windows_[d].outputs(x[d + 1]);
      if (output[d + 1] < 1) {
        fail("an input of shape {} has no place for a window of {} elements in dimension {}",
             to_string(x), windows_[d].extent(), d + 1);
      }
    }
    output.back() = expected.back();
    if (epilogue_.bias) {
      Epilogue::check_bias(output, inputs[bias]);
    }
    return output;
  }
  Rule rule(std::span<const Shape>) const override {
    const std::string spatial = spatial_letters(windows_.size());
    const std::string places = place_letters(windows_.size());
    Rule rule;
    rule.windows = spatial;
    rule.whole = places;
    if (groups_ == 1) {
      rule.inputs = {"n" + spatial + "c", places + "cf"};
      rule.output = "n" + spatial + "f";
      // What comes after the sum over channels needs it complete.
      if (!epilogue_.empty()) {
        rule.whole += "c";
      }
    } else {
      rule.inputs = {"n" + spatial + "g", places + "ig"};
      rule.output = "n" + spatial + "g";
      rule.whole += "i";
      rule.windows += "g";
    }
    if (epilogue_.bias) {
      rule.inputs.emplace_back(1, rule.output.back());
    }
    return rule;
  }
  Range window(int input, int dimension, Range output,
               std::span<const Shape> inputs) const override {
    if (input != 0) {
      return output;  // filters of the kernel and the bias
    }
    if (dimension <= static_cast<int>(windows_.size())) {
      return windows_[dimension - 1].inputs_of(output, inputs[0][dimension]);
    }
    const std::int64_t filters = inputs[kernel].back() / groups_;  // of a group
    const std::int64_t channels = inputs[0].back() / groups_;
    return {output.begin / filters * channels, ((output.end - 1) / filters + 1) * channels};
  }
  double flops(std::span<const Shape> inputs, const Shape& output) const override {
    const double outputs = static_cast<double>(element_count(output));
    return 2.0 * outputs * static_cast<double>(rows_of(inputs[kernel])) +
           (epilogue_.bias ? outputs : 0);
  }

  void forward(Lowering& lowering) const override {
    const Part part = this->part(lowering);
    // Every rank asks for all inputs, in this order, whatever its part: bringing one can be a
    // collective.
    const Operand x = lowering.input(0), weights = lowering.input(kernel), y = lowering.output();
    Activation done = Activation::linear;
    if (part.whole_groups) {
      ConvolutionSpec convolution{.at = part.at, .bias = epilogue_.bias};
      if (epilogue_.activation == Activation::relu) {
        convolution.activation = done = Activation::relu;
      }
      std::vector<Operand> operands{x, weights};
      if (epilogue_.bias) {
        operands.push_back(lowering.input(bias));
      }
      operands.push_back(y);
      lowering.emit(convolution, operands);
    } else {
      const Operand wide_kernel = this->wide_kernel(lowering, part);
      lowering.zero(part.kernel_rows * part.at.filters, wide_kernel);
      lowering.emit(columns_copied(part.kernel_rows, part.filters, 0, part.filters, part.first,
                                   part.at.filters),
                    {weights, wide_kernel});
      const Operand wide =
          lowering.scratch("output of whole groups", part.places * part.at.filters);
      lowering.emit(ConvolutionSpec{.at = part.at}, {x, wide_kernel, wide});
      lowering.emit(
          columns_copied(part.places, part.filters, part.first, part.at.filters, 0, part.filters),
          {wide, y});
      if (epilogue_.bias) {
        lowering.emit(BiasAddSpec{part.places, part.filters, epilogue_.activation},
                      {y, lowering.input(bias), y});
        done = epilogue_.activation;
      }
    }
    if (done != epilogue_.activation) {
      lowering.emit(ActivationSpec{epilogue_.activation, part.places * part.filters}, {y, y});
    }
    epilogue_.drop(lowering);
  }
  void backward(Lowering& lowering) const override {
    const bool any = lowering.needs_gradient(0) || lowering.needs_gradient(kernel) ||
                     (epilogue_.bias && lowering.needs_gradient(bias));
    if (!any) {
      return;
    }
    const Part part = this->part(lowering);
    const std::int64_t outputs = part.places * part.filters;

    // dz, as the output: the gradient before the activation.
    const Operand dz = epilogue_.gradient_before(lowering, outputs);
    Operand wide = dz;  // the gradient of whole groups
    if (!part.whole_groups && (lowering.needs_gradient(0) || lowering.needs_gradient(kernel))) {
      const std::int64_t count = part.places * part.at.filters;
      wide = lowering.scratch("gradient of whole groups", count);
      lowering.zero(count, wide);
      lowering.emit(
          columns_copied(part.places, part.filters, 0, part.filters, part.first, part.at.filters),
          {dz, wide});
    }
    if (lowering.needs_gradient(0)) {
      // Every rank asks for it, as in forward.
      const Operand weights = lowering.input(kernel);
      lowering.emit(ConvolutionInputGradientSpec{part.at},
                    {wide, part.whole_groups ? weights : wide_kernel(lowering, part),
                     lowering.input_gradient(0)});
      lowering.input_gradient_is_complete(0);
    }
    if (lowering.needs_gradient(kernel)) {
      const Operand x = lowering.input(0), gradient = lowering.input_gradient(kernel);
      if (part.whole_groups) {
        lowering.emit(ConvolutionKernelGradientSpec{part.at}, {x, wide, gradient});
      } else {
        const Operand wide_gradient =
            lowering.scratch("kernel gradient of whole groups", part.kernel_rows * part.at.filters);
        lowering.emit(ConvolutionKernelGradientSpec{part.at}, {x, wide, wide_gradient});
        lowering.emit(columns_copied(part.kernel_rows, part.filters, part.first, part.at.filters, 0,
                                     part.filters),
                      {wide_gradient, gradient});
      }
    }
    if (epilogue_.bias && lowering.needs_gradient(bias)) {
      lowering.emit(ColumnSumSpec{part.places, part.filters}, {dz, lowering.input_gradient(bias)});
    }
  }
  bool backward_reads(int input) const override { return input != bias; }
  Fusible fusible() const override {
    return {.epilogue = epilogue_,
            .with =
                [this](const Epilogue& epilogue) {
                  return std::make_unique<ConvolutionOperation>(windows_, groups_, epilogue);
                },
            .ends_in = epilogue_.ends_in()};
  }

 private:
  static constexpr int kernel = 1;

  static constexpr int bias = 2;

  // One box of (rows, columns) of float32: `columns` from `from` of rows of `source`, to `to` of rows
  // of `destination` columns.
  static CopySpec columns_copied(std::int64_t rows, std::int64_t columns, std::int64_t from,
                                 std::int64_t source, std::int64_t to, std::int64_t destination) {
    return {ElementType::float32,
            {{.extents = {rows, columns},
              .source_offset = from,
              .destination_offset = to,
              .source_strides = {source, 1},
              .destination_strides = {destination, 1}}}};
  }

  // What this rank computes: the convolution of its blocks, or of the whole groups around them.
  struct Part {
    ConvolutionShape at;
    bool whole_groups = true;      // else filters are cut out of what `at` computes
    std::int64_t filters = 0;      // of this rank
    std::int64_t first = 0;        // its first, among those of `at`
    std::int64_t places = 0;       // of outputs, over batch and spatial dimensions
    std::int64_t kernel_rows = 0;  // of a kernel: window places times channels of a group
  };
  Part part(const Lowering& lowering) const {
    const Block& x = lowering.block(0);
    const Block& y = lowering.output_block();
    std::int64_t filters = y.back().length(), first = 0, groups = 1;
    if (groups_ > 1) {
      const std::int64_t of_group = lowering.global_output_shape().back() / groups_;
      const std::int64_t channels = lowering.global_shape(0).back() / groups_;
      // The groups whose channels this rank was given: those that its filters touch, or all.
      const Range given{x.back().begin / channels, x.back().end / channels};
      groups = std::max<std::int64_t>(given.length(), 1);
      filters = given.length() * of_group;
      first = y.back().begin - given.begin * of_group;
    }
    const PlacedWindows at = placed_windows(windows_, x, y, lowering.global_shape(0));
    return {.at = {.batch = at.batch,
                   .planes = at.planes,
                   .rows = at.rows,
                   .columns = at.columns,
                   .channels = x.back().length(),
                   .filters = filters,
                   .groups = groups},
            .whole_groups = filters == y.back().length(),
            .filters = y.back().length(),
            .first = first,
            .places = rows_of(shape_of(y)),
            .kernel_rows = rows_of(lowering.local_shape(kernel))};
  }
  // The kernel of whole groups, zero where filters are not this rank's. Filled in forward.
  static Operand wide_kernel(Lowering& lowering, const Part& part) {
    return lowering.scratch("kernel of whole groups", part.kernel_rows * part.at.filters);
  }

  std::vector<SlidingWindow> windows_;
  std::int64_t groups_;
  Epilogue epilogue_;
};

}  // namespace meshwork
