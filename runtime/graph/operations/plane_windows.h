// Convolutions of volumes as convolutions of images: the planes that a window shows are channels.
//
// x is (batch, planes, rows, columns, channels). A window of several planes over x is a window of one
// plane over x unfolded: (batch, output planes, rows, columns, window planes * channels). There, each
// plane of the output has the planes of its window side by side. Padding is zeros. The
// kernel, (window planes, window rows, window columns, channels, filters), has its first dimension
// moved before the channels. Channels stay with their group. Folding adds a gradient of what was
// unfolded to the planes that it came from.
//
// Images are volumes of one plane: there, and under windows of one plane, nothing moves. Unfolded,
// a volume takes window planes / stride times its memory, and the passes to write and read it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "runtime/device/kernels/convolution.h"
#include "runtime/device/kernels/copies.h"
#include "runtime/device/program.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operations/windows.h"

namespace meshwork {

class PlaneWindows {
 public:
  /// Of windows `at` over volumes of this rank; channels and filters are those of all groups.
  PlaneWindows(const PlacedWindows& at, std::int64_t channels, std::int64_t filters,
               std::int64_t groups)
      : at_(at), channels_(channels), groups_(groups), filters_(filters) {}

  /// The convolution of images.
  [[nodiscard]] ConvolutionShape convolution() const {
    return {.batch = at_.batch * at_.planes.output,
            .rows = at_.rows,
            .columns = at_.columns,
            .channels = channels_ * at_.planes.window,
            .filters = filters_,
            .groups = groups_};
  }

  /// x unfolded, in scratch memory called `name`; x itself where nothing moves.
  [[nodiscard]] Operand unfolded(Lowering& lowering, Operand x, const std::string& name) const {
    if (stays()) return x;
    const Operand wide = unfolded_place(lowering, name);
    const CopySpec copy = planes_copied(false);
    if (element_count_of(copy) < unfolded_count()) lowering.zero(unfolded_count(), wide);
    lowering.emit(copy, {x, wide});
    return wide;
  }
  /// Where a gradient of x unfolded goes, for `fold`: `dx` where nothing moves.
  [[nodiscard]] Operand unfolded_gradient(Lowering& lowering, Operand dx) const {
    return stays() ? dx : unfolded_place(lowering, "gradient of unfolded planes");
  }
  void fold(Lowering& lowering, Operand wide, Operand dx) const {
    if (stays()) return;
    lowering.zero(at_.batch * at_.planes.input * area() * channels_, dx);
    lowering.emit(planes_copied(true), {wide, dx});
  }

  /// The kernel of `columns` filters in the order of the images' convolution, in scratch memory
  /// called `name`; the kernel itself where nothing moves.
  [[nodiscard]] Operand ordered(Lowering& lowering, Operand kernel, std::int64_t columns,
                                const std::string& name) const {
    if (at_.planes.window == 1) return kernel;
    const Operand moved = lowering.scratch(name, kernel_rows() * columns);
    lowering.emit(kernel_copied(columns, false), {kernel, moved});
    return moved;
  }
  /// Where the gradient of the ordered kernel goes, for `restore`: `gradient` where nothing moves.
  [[nodiscard]] Operand ordered_gradient(Lowering& lowering, Operand gradient,
                                         std::int64_t columns) const {
    return at_.planes.window == 1
               ? gradient
               : lowering.scratch("kernel gradient by places", kernel_rows() * columns);
  }
  void restore(Lowering& lowering, Operand moved, Operand gradient, std::int64_t columns) const {
    if (at_.planes.window > 1) lowering.emit(kernel_copied(columns, true), {moved, gradient});
  }

 private:
  [[nodiscard]] bool stays() const {
    const WindowDimension& planes = at_.planes;
    return planes.window == 1 && planes.stride == 1 && planes.padding == 0 &&
           planes.input == planes.output;
  }
  [[nodiscard]] std::int64_t area() const { return at_.rows.input * at_.columns.input; }
  [[nodiscard]] std::int64_t of_group() const { return channels_ / groups_; }
  [[nodiscard]] std::int64_t places() const { return at_.rows.window * at_.columns.window; }
  [[nodiscard]] std::int64_t kernel_rows() const {
    return at_.planes.window * places() * of_group();
  }
  [[nodiscard]] std::int64_t unfolded_count() const {
    return at_.batch * at_.planes.output * area() * channels_ * at_.planes.window;
  }
  [[nodiscard]] Operand unfolded_place(Lowering& lowering, const std::string& name) const {
    return lowering.scratch(name, unfolded_count());
  }
  [[nodiscard]] static std::int64_t element_count_of(const CopySpec& copy) {
    std::int64_t count = 0;
    for (const CopyRegion& region : copy.regions) count += element_count(region.extents);
    return count;
  }

  // Between a volume and what it is unfolded to, a region a place of the window; `back` adds.
  [[nodiscard]] CopySpec planes_copied(bool back) const {
    const WindowDimension& planes = at_.planes;
    CopySpec copy{ElementType::float32, {}};
    for (std::int64_t place = 0; place < planes.window; ++place) {
      // Outputs [first, last) find this place of their window inside.
      const std::int64_t shift = place * planes.dilation - planes.padding;
      const std::int64_t first = shift >= 0 ? 0 : (-shift + planes.stride - 1) / planes.stride;
      const std::int64_t end = planes.input - shift;  // of outputs times the stride
      const std::int64_t last =
          end <= 0 ? 0 : std::min((end - 1) / planes.stride + 1, planes.output);
      if (last <= first) continue;
      const std::int64_t plane = area() * channels_, wide = plane * planes.window;
      CopyRegion region{
          .extents = {at_.batch, last - first, area(), groups_, of_group()},
          .source_offset = (first * planes.stride + shift) * plane,
          .destination_offset = first * wide + place * of_group(),
          .source_strides = {planes.input * plane, planes.stride * plane, channels_, of_group(), 1},
          .destination_strides = {planes.output * wide, wide, channels_ * planes.window,
                                  of_group() * planes.window, 1}};
      if (back) {
        std::swap(region.source_offset, region.destination_offset);
        std::swap(region.source_strides, region.destination_strides);
        region.add = true;
      }
      if (element_count(region.extents) > 0) copy.regions.push_back(std::move(region));
    }
    return copy;
  }
  [[nodiscard]] CopySpec kernel_copied(std::int64_t columns, bool back) const {
    const std::int64_t plane = places() * of_group() * columns, row = of_group() * columns;
    CopyRegion region{.extents = {at_.planes.window, places(), row},
                      .source_strides = {plane, row, 1},
                      .destination_strides = {row, at_.planes.window * row, 1}};
    if (back) std::swap(region.source_strides, region.destination_strides);
    if (element_count(region.extents) == 0) return {};
    return {ElementType::float32, {std::move(region)}};
  }

  PlacedWindows at_;
  std::int64_t channels_, groups_, filters_;
};

}  // namespace meshwork
