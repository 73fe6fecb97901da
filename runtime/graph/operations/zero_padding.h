// Zero padding: an image with rows and columns of zeros around it; and cropping, which is padding by
// less than nothing: an image without its border.
//
// Rule "nhwc->nhwc" with windows over h and w: a block of the padded image needs the part of the
// image that lies in it. Any number of spatial dimensions.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "runtime/device/kernels/copies.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"
#include "runtime/graph/operations/dimensions.h"

namespace meshwork {

/// Elements added before and behind one dimension; below 0, cut off.
struct Border {
  std::int64_t before = 0, behind = 0;
};

class ZeroPaddingOperation final : public Operation {
 public:
  /// `borders` by dimension from `first` on; behind them is one more.
  explicit ZeroPaddingOperation(std::vector<Border> borders, std::size_t first = 1)
      : borders_(std::move(borders)), first_(first) {}

  std::string kind() const override {
    const bool cuts = std::any_of(borders_.begin(), borders_.end(), [](const Border& border) {
      return border.before < 0 || border.behind < 0;
    });
    return cuts ? "cropping" : "zero padding";
  }
  Shape output_shape(std::span<const Shape> inputs) const override {
    check_input_count(inputs, 1);
    if (inputs[0].size() != first_ + borders_.size() + 1) {
      fail("expected an input of {} dimensions, batch, {} to pad, and channels, found shape {}",
           first_ + borders_.size() + 1, borders_.size(), to_string(inputs[0]));
    }
    Shape output = inputs[0];
    for (std::size_t d = 0; d < borders_.size(); ++d) {
      output[d + first_] += borders_[d].before + borders_[d].behind;
      if (output[d + first_] < 1) {
        fail("cannot cut {} and {} elements off dimension {} of an input of shape {}",
             -borders_[d].before, -borders_[d].behind, d + first_, to_string(inputs[0]));
      }
    }
    return output;
  }
  Rule rule(std::span<const Shape> inputs) const override {
    const std::string letters = dimension_letters(inputs[0].size());
    return {
        .inputs = {letters}, .output = letters, .windows = letters.substr(first_, borders_.size())};
  }
  Range window(int, int dimension, Range output, std::span<const Shape> inputs) const override {
    const std::int64_t before = borders_[static_cast<std::size_t>(dimension) - first_].before;
    const std::int64_t length = inputs[0][dimension];
    const std::int64_t begin = std::clamp<std::int64_t>(output.begin - before, 0, length);
    return {begin, std::clamp<std::int64_t>(output.end - before, begin, length)};
  }
  double flops(std::span<const Shape>, const Shape&) const override { return 0; }

  void forward(Lowering& lowering) const override {
    copy_into_zeros(lowering, common_part(lowering, false),
                    element_count(lowering.local_output_shape()), lowering.input(0),
                    lowering.output());
  }
  void backward(Lowering& lowering) const override {
    if (lowering.needs_gradient(0)) {
      copy_into_zeros(lowering, common_part(lowering, true), element_count(lowering.local_shape(0)),
                      lowering.output_gradient(), lowering.input_gradient(0));
    }
  }
  bool backward_reads(int) const override { return false; }

 private:
  // What the local input and the local output have in common, as a copy from the first to the second;
  // `back` copies the other way.
  CopySpec common_part(const Lowering& lowering, bool back) const {
    const Block& x = lowering.block(0);
    const Block& y = lowering.output_block();
    CopyRegion region;
    std::int64_t from = 1;
    std::int64_t to = 1;
    for (std::size_t d = x.size(); d-- > 0;) {
      const bool padded = d >= first_ && d < first_ + borders_.size();
      const std::int64_t shift = padded ? borders_[d - first_].before : 0;
      const Range common = intersection({x[d].begin + shift, x[d].end + shift}, y[d]);
      region.extents.insert(region.extents.begin(), std::max<std::int64_t>(common.length(), 0));
      region.source_offset += (common.begin - shift - x[d].begin) * from;
      region.destination_offset += (common.begin - y[d].begin) * to;
      region.source_strides.insert(region.source_strides.begin(), from);
      region.destination_strides.insert(region.destination_strides.begin(), to);
      from *= x[d].length();
      to *= y[d].length();
    }
    if (element_count(region.extents) == 0) {
      return {};
    }
    if (back) {
      std::swap(region.source_offset, region.destination_offset);
      std::swap(region.source_strides, region.destination_strides);
    }
    return {ElementType::float32, {std::move(region)}};
  }

  // Fills what a copy leaves open of `count` elements with zeros, and copies.
  static void copy_into_zeros(Lowering& lowering, const CopySpec& copy, std::int64_t count,
                              Operand source, Operand destination) {
    const std::int64_t copied = copy.regions.empty() ? 0 : element_count(copy.regions[0].extents);
    if (copied < count) {
      lowering.zero(count, destination);
    }
    lowering.emit(copy, {source, destination});
  }

  std::vector<Border> borders_;
  std::size_t first_;
};

}  // namespace meshwork
