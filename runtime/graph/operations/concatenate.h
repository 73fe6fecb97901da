// Tensors one behind the other along one dimension, which is not the batch.
//
// Rule "btu,btu->btu": the dimension is whole, since its blocks before and after would not be the
// same elements; the others may be split. Forward copies every input to its place, backward copies
// every gradient out of it.
#pragma once

#include "collectives/error.h"
#include "runtime/device/kernels/copies.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"
#include "runtime/graph/operations/dimensions.h"

namespace meshwork {

class ConcatenateOperation final : public Operation {
 public:
  /// `dimension` counts from 0, the batch.
  ConcatenateOperation(int inputs, int dimension) : inputs_(inputs), dimension_(dimension) {}

  std::string kind() const override { return "concatenate"; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    if (inputs.empty()) {
      fail("expected at least one input, found none");
    }
    check_input_count(inputs, static_cast<std::size_t>(inputs_));
    Shape output = inputs[0];
    if (dimension_ < 1 || dimension_ >= static_cast<int>(output.size())) {
      fail("cannot concatenate inputs of shape {} along dimension {}; it is one of 1 to {}",
           to_string(output), dimension_, output.size() - 1);
    }
    output[dimension_] = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      Shape others = inputs[i];
      if (others.size() == output.size()) {
        others[dimension_] = inputs[0][dimension_];
      }
      if (others != inputs[0]) {
        fail(
            "expected inputs that differ in dimension {} only, found {} for input 0 and {} for "
            "input {}",
            dimension_, to_string(inputs[0]), to_string(inputs[i]), i);
      }
      output[dimension_] += inputs[i][dimension_];
    }
    return output;
  }
  Rule rule(std::span<const Shape> inputs) const override {
    const std::string letters = dimension_letters(inputs[0].size());
    return {.inputs = std::vector<std::string>(inputs.size(), letters),
            .output = letters,
            .whole = letters.substr(dimension_, 1)};
  }
  double flops(std::span<const Shape>, const Shape&) const override { return 0; }

  void forward(Lowering& lowering) const override {
    const Parts parts = parts_of(lowering, inputs_, dimension_);
    for (std::size_t i = 0; i < parts.lengths.size(); ++i) {
      const CopyRegion region{.extents = {parts.outer, parts.lengths[i]},
                              .source_offset = 0,
                              .destination_offset = parts.offsets[i],
                              .source_strides = {parts.lengths[i], 1},
                              .destination_strides = {parts.row, 1}};
      lowering.emit(CopySpec{ElementType::float32, {region}},
                    {lowering.input(static_cast<int>(i)), lowering.output()});
    }
  }
  void backward(Lowering& lowering) const override {
    const Parts parts = parts_of(lowering, inputs_, dimension_);
    for (std::size_t i = 0; i < parts.lengths.size(); ++i) {
      const int input = static_cast<int>(i);
      if (!lowering.needs_gradient(input)) {
        continue;
      }
      const CopyRegion region{.extents = {parts.outer, parts.lengths[i]},
                              .source_offset = parts.offsets[i],
                              .destination_offset = 0,
                              .source_strides = {parts.row, 1},
                              .destination_strides = {parts.lengths[i], 1}};
      lowering.emit(CopySpec{ElementType::float32, {region}},
                    {lowering.output_gradient(), lowering.input_gradient(input)});
    }
  }
  bool backward_reads(int) const override { return false; }

 private:
  // Where the inputs stand in the output. Both are seen as `outer` rows: all dimensions before the
  // concatenated one together; a row is that dimension and all behind it.
  struct Parts {
    std::int64_t outer = 1;
    std::int64_t row = 0;               // elements of the output
    std::vector<std::int64_t> lengths;  // by input: elements of its row
    std::vector<std::int64_t> offsets;  // by input: where its row begins in the output's
  };

  static Parts parts_of(const Lowering& lowering, int inputs, int dimension) {
    const Shape output = lowering.local_output_shape();
    Parts parts;
    parts.outer = element_count(std::span(output).first(dimension));
    const std::int64_t inner = element_count(std::span(output).subspan(dimension + 1));
    parts.row = output[dimension] * inner;  // whole
    std::int64_t offset = 0;
    for (int input = 0; input < inputs; ++input) {
      const std::int64_t length = lowering.global_shape(input)[dimension];
      parts.offsets.push_back(offset * inner);
      parts.lengths.push_back(length * inner);
      offset += length;
    }
    return parts;
  }

  int inputs_;
  int dimension_;
};

}  // namespace meshwork
