// Masks: which places of a tensor count.
//
// A mask is float32 and has the first dimensions of its tensor: 1 for a place that counts, else 0.
// Layers make masks (Embedding with `mask_zero`, Masking), tensors carry
// them along (GraphTensor::mask), and attention, means over places, losses and metrics read them. No
// gradient goes through a mask.
//
// `MaskOperation` makes one: rule "btk->bt". A place counts if any of what it has there differs from
// a value. The letters that fall away are its own: where axes split them, the ranks' masks are
// reduced to their maximum. With a second input "bt", or the first of its letters, only what counts
// there can count.
#pragma once

#include <algorithm>
#include <string>

#include "collectives/error.h"
#include "runtime/device/kernels/masks.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"
#include "runtime/graph/operations/dimensions.h"

namespace meshwork {

/// How many of `rows` share an element of a tensor of their first dimensions: at least 1.
[[nodiscard]] inline std::int64_t rows_an_element(const Shape& rows, std::size_t dimensions) {
  std::int64_t count = 1;
  for (std::size_t d = dimensions; d < rows.size(); ++d)
    count *= std::max<std::int64_t>(rows[d], 1);
  return count;
}

/// Throws `Error` unless `mask` is the shape of a mask of `tensor`.
inline void check_mask(const Shape& tensor, const Shape& mask) {
  if (!mask.empty() && mask.size() <= tensor.size() &&
      std::equal(mask.begin(), mask.end(), tensor.begin())) {
    return;
  }
  fail("expected a mask of the first dimensions of {}, found {}", to_string(tensor),
       to_string(mask));
}

struct MaskOptions {
  ElementType type = ElementType::float32;  // of what is masked
  double value = 0;                         // what has it everywhere does not count
  std::size_t dimensions = 0;               // of the mask
  bool masked = false;                      // there is a second input
};

class MaskOperation final : public Operation {
 public:
  explicit MaskOperation(const MaskOptions& options) : options_(options) {}

  std::string kind() const override { return "mask"; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    check_input_count(inputs, options_.masked ? 2 : 1);
    const auto dimensions = static_cast<std::ptrdiff_t>(options_.dimensions);
    if (inputs[0].size() < options_.dimensions) {
      fail("expected a tensor of {} dimensions or more, found shape {}", dimensions,
           to_string(inputs[0]));
    }
    const Shape rows(inputs[0].begin(), inputs[0].begin() + dimensions);
    if (options_.masked) check_mask(rows, inputs[1]);
    return rows;
  }
  ElementType output_type(std::span<const ElementType> inputs) const override {
    if (inputs[0] != options_.type) {
      fail("expected numbers of {}, found {}", name_of(options_.type), name_of(inputs[0]));
    }
    return ElementType::float32;
  }
  Rule rule(std::span<const Shape> inputs) const override {
    const std::string letters = dimension_letters(inputs[0].size());
    Rule rule{.inputs = {letters}, .output = letters.substr(0, options_.dimensions)};
    rule.own = letters.substr(options_.dimensions);
    if (options_.masked) rule.inputs.push_back(letters.substr(0, inputs[1].size()));
    return rule;
  }
  std::vector<OwnReduction> own_reductions(const Rule& rule) const override {
    if (rule.own.empty()) return {};
    return {{.over = rule.own, .of = rule.output}};
  }
  double flops(std::span<const Shape>, const Shape&) const override { return 0; }
  ValueKind output_values() const override { return ValueKind::mask; }

  void forward(Lowering& lowering) const override {
    const Shape x = lowering.local_shape(0), rows = lowering.local_output_shape();
    MaskSpec spec{.rows = element_count(rows),
                  .columns = element_count(std::span(x).subspan(options_.dimensions)),
                  .type = options_.type,
                  .value = options_.value};
    std::vector<Operand> operands{lowering.input(0)};
    if (options_.masked) {
      spec.rows_a_mask = rows_an_element(rows, lowering.local_shape(1).size());
      operands.push_back(lowering.input(1));
    }
    operands.push_back(lowering.output());
    lowering.emit(spec, std::move(operands));
    if (x.size() == options_.dimensions) return;
    lowering.all_reduce(dimension_letters(x.size()).substr(options_.dimensions),
                        ElementType::float32, Reduction::maximum, lowering.output(), spec.rows,
                        element_count(lowering.global_output_shape()), "mask");
  }
  void backward(Lowering&) const override {}

 private:
  MaskOptions options_;
};

/// x where its mask counts, else 0. Rule "btk,bt->btk".
class MaskedRowsOperation final : public Operation {
 public:
  std::string kind() const override { return "masked"; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    check_input_count(inputs, 2);
    check_mask(inputs[0], inputs[1]);
    return inputs[0];
  }
  Rule rule(std::span<const Shape> inputs) const override {
    const std::string letters = dimension_letters(inputs[0].size());
    return {.inputs = {letters, letters.substr(0, inputs[1].size())}, .output = letters};
  }
  double flops(std::span<const Shape>, const Shape&) const override { return 0; }
  bool backward_reads(int input) const override { return input == 1; }

  void forward(Lowering& lowering) const override {
    lowering.emit(extents(lowering), {lowering.input(0), lowering.input(1), lowering.output()});
  }
  void backward(Lowering& lowering) const override {
    if (!lowering.needs_gradient(0)) return;
    lowering.emit(extents(lowering),
                  {lowering.output_gradient(), lowering.input(1), lowering.input_gradient(0)});
  }

 private:
  static MaskedRowsSpec extents(const Lowering& lowering) {
    const Shape x = lowering.local_shape(0);
    const std::size_t masked = lowering.local_shape(1).size();
    return {element_count(std::span(x).first(masked)), element_count(std::span(x).subspan(masked))};
  }
};

}  // namespace meshwork
