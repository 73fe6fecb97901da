// An operation with windows that is made of copies and sums: what a convolution does, with nothing
// of its kernels.
//
// x (batch, rows, columns) -> y (batch, output rows, output columns), rule "bhw->bhw" with windows
// over h and w:
//   y[b, o, p] = sum over k, l of weight(k, l) * x[b, o * stride - padding + k * dilation,
//                                                  p * stride - padding + l * dilation],
// with zeros beyond the edges and weight(k, l) = (1 + k + window * l) / 16. `expected_window_sum`
// is the same in plain loops.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/device/kernels/copies.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"
#include "tests/support/tensor.h"

namespace meshwork::test {

/// How windows slide over a dimension, as Keras's convolutions have it.
struct Slide {
  std::int64_t window = 3, stride = 1, dilation = 1;
  bool same = true;

  [[nodiscard]] std::int64_t reach() const { return (window - 1) * dilation + 1; }
  [[nodiscard]] std::int64_t outputs(std::int64_t length) const {
    return same ? (length + stride - 1) / stride : (length - reach()) / stride + 1;
  }
  [[nodiscard]] std::int64_t padding(std::int64_t length) const {
    return same ? std::max<std::int64_t>((outputs(length) - 1) * stride + reach() - length, 0) / 2
                : 0;
  }
  /// The first and the last input that the outputs look at, cut to the input.
  [[nodiscard]] Range inputs(Range output, std::int64_t length) const {
    const std::int64_t begin = output.begin * stride - padding(length);
    const std::int64_t end = (output.end - 1) * stride - padding(length) + reach();
    const std::int64_t first = std::clamp<std::int64_t>(begin, 0, length);
    return {first, std::clamp<std::int64_t>(end, first, length)};
  }
};

class WindowSumOperation final : public Operation {
 public:
  explicit WindowSumOperation(Slide slide) : slide_(slide) {}

  std::string kind() const override { return "window sum"; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    return {inputs[0][0], slide_.outputs(inputs[0][1]), slide_.outputs(inputs[0][2])};
  }
  Rule rule(std::span<const Shape>) const override {
    return {.inputs = {"bhw"}, .output = "bhw", .windows = "hw"};
  }
  Range window(int, int dimension, Range output, std::span<const Shape> inputs) const override {
    return slide_.inputs(output, inputs[0][dimension]);
  }
  void forward(Lowering& lowering) const override { emit(lowering, false); }
  void backward(Lowering& lowering) const override { emit(lowering, true); }

 private:
  // For every place of the window: what it sees, shifted to where it goes, times its weight; then
  // the sum of all.
  void emit(Lowering& lowering, bool back) const {
    const Block& x = lowering.block(0);
    const Block& y = lowering.output_block();
    const Block& target = back ? x : y;
    const std::int64_t count = element_count(shape_of(target));
    std::vector<Operand> terms;
    for (std::int64_t k = 0; k < slide_.window; ++k) {
      for (std::int64_t l = 0; l < slide_.window; ++l) {
        const Operand term = lowering.scratch(
            std::string(back ? "gradient" : "term") + std::to_string(k * slide_.window + l), count);
        lowering.zero(count, term);
        CopyRegion region = shared(lowering, k, l);
        if (back) {
          std::swap(region.source_offset, region.destination_offset);
          std::swap(region.source_strides, region.destination_strides);
        }
        lowering.emit(CopySpec{ElementType::float32, {region}},
                      {back ? lowering.output_gradient() : lowering.input(0), term});
        lowering.emit(AffineSpec{count, static_cast<float>(1 + k + slide_.window * l) / 16, 0},
                      {term, term});
        terms.push_back(term);
      }
    }
    const int inputs = static_cast<int>(terms.size());
    terms.push_back(back ? lowering.input_gradient(0) : lowering.output());
    lowering.emit(SumSpec{count, inputs}, terms);
  }

  // From x to y: the outputs whose place (k, l) lies in this rank's box of x.
  CopyRegion shared(Lowering& lowering, std::int64_t k, std::int64_t l) const {
    const Block& x = lowering.block(0);
    const Block& y = lowering.output_block();
    const std::int64_t place[] = {0, k, l};
    CopyRegion region{.extents = {x[0].length()},
                      .source_strides = {x[1].length() * x[2].length()},
                      .destination_strides = {y[1].length() * y[2].length()}};
    for (std::size_t d = 1; d < 3; ++d) {
      const std::int64_t shift =
          place[d] * slide_.dilation - slide_.padding(lowering.global_shape(0)[d]);
      std::int64_t first = y[d].begin;
      while (first < y[d].end && first * slide_.stride + shift < x[d].begin) {
        ++first;
      }
      std::int64_t behind = first;
      while (behind < y[d].end && behind * slide_.stride + shift < x[d].end) {
        ++behind;
      }
      const std::int64_t from = d == 1 ? x[2].length() : 1;
      const std::int64_t to = d == 1 ? y[2].length() : 1;
      region.extents.push_back(behind - first);
      region.source_strides.push_back(from * slide_.stride);
      region.destination_strides.push_back(to);
      if (behind > first) {
        region.source_offset += (first * slide_.stride + shift - x[d].begin) * from;
        region.destination_offset += (first - y[d].begin) * to;
      }
    }
    return region;
  }

  Slide slide_;
};

/// Calls visit(index in x, index in y, weight) for every term of every sum.
template <class Visit>
void for_each_window_term(const Slide& slide, const Shape& x, const Shape& y, const Visit& visit) {
  for (std::int64_t b = 0; b < y[0]; ++b) {
    for (std::int64_t o = 0; o < y[1]; ++o) {
      for (std::int64_t p = 0; p < y[2]; ++p) {
        for (std::int64_t k = 0; k < slide.window; ++k) {
          for (std::int64_t l = 0; l < slide.window; ++l) {
            const std::int64_t row = o * slide.stride - slide.padding(x[1]) + k * slide.dilation;
            const std::int64_t column = p * slide.stride - slide.padding(x[2]) + l * slide.dilation;
            if (row >= 0 && row < x[1] && column >= 0 && column < x[2]) {
              visit((b * x[1] + row) * x[2] + column, (b * y[1] + o) * y[2] + p,
                    static_cast<double>(1 + k + slide.window * l) / 16);
            }
          }
        }
      }
    }
  }
}

inline Tensor expected_window_sum(const Slide& slide, const Tensor& x) {
  Tensor y({x.shape[0], slide.outputs(x.shape[1]), slide.outputs(x.shape[2])});
  for_each_window_term(slide, x.shape, y.shape, [&](auto from, auto to, double weight) {
    y.values[to] += weight * x.values[from];
  });
  return y;
}

inline Tensor expected_window_sum_gradient(const Slide& slide, const Shape& x, const Tensor& dy) {
  Tensor dx(x);
  for_each_window_term(slide, x, dy.shape, [&](auto from, auto to, double weight) {
    dx.values[from] += weight * dy.values[to];
  });
  return dx;
}

}  // namespace meshwork::test
