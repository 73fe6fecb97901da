// Reshape: the same elements in the same order, with other dimensions behind the batch.
//
// No data moves. In the rule, a dimension of the input that is also one of the output, with all
// before it and all behind it the same in number, keeps its letter and may be split: (b, 7, 4, 5)
// to (b, 7, 20) is "btuv->btw" with u, v and w whole. Dimensions that are merged or divided have to
// be whole, because blocks by the floor rule do not nest through a product. Dimensions of length 1
// may come and go anywhere.
#pragma once

#include "collectives/error.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"
#include "runtime/graph/operations/dimensions.h"

namespace meshwork {

class ReshapeOperation final : public Operation {
 public:
  /// `sample` is the output's shape without dimension 0, which stays what it is.
  explicit ReshapeOperation(Shape sample) : sample_(std::move(sample)) {}

  std::string kind() const override { return "reshape"; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    check_input_count(inputs, 1);
    const Shape& x = inputs[0];
    if (x.empty()) {
      fail("expected a tensor with a batch dimension, found a scalar");
    }
    for (const std::int64_t length : sample_) {
      if (length < 1) {
        fail("cannot give an input of shape {} the shape {}: lengths are positive", to_string(x),
             to_string(sample_));
      }
    }
    const std::int64_t before = element_count(std::span(x).subspan(1));
    if (before != element_count(sample_)) {
      fail(
          "cannot give an input of shape {}, which has {} elements a sample, the shape {}, which "
          "has "
          "{}",
          to_string(x), before, to_string(sample_), element_count(sample_));
    }
    Shape output = sample_;
    output.insert(output.begin(), x[0]);
    return output;
  }
  Rule rule(std::span<const Shape> inputs) const override {
    const Shape& x = inputs[0];
    const Shape y = output_shape(inputs);
    const std::string letters = dimension_letters(x.size() + y.size() - 1);
    Rule rule{.inputs = {letters.substr(0, x.size())}, .output = letters.substr(0, 1)};
    rule.output += letters.substr(x.size());
    std::string corresponding = letters.substr(0, 1);

    // Both shapes are walked side by side, in groups of equal products; a group of one dimension each
    // is the same dimension.
    Side from{x, 1, 1, {}};
    Side to{y, 1, 1, {}};
    while (true) {
      from.skip_ones();
      to.skip_ones();
      if (from.next == x.size() || to.next == y.size()) {
        break;
      }
      from.take();
      to.take();
      while (from.product != to.product) {
        (from.product < to.product ? from : to).take();
      }
      if (from.group.size() == 1 && to.group.size() == 1) {
        const char letter = rule.inputs[0][from.group[0]];
        rule.output[to.group[0]] = letter;
        corresponding += letter;
      }
      from.group.clear();
      to.group.clear();
      from.product = to.product = 1;
    }
    for (const char letter : rule.inputs[0] + rule.output) {
      if (corresponding.find(letter) == std::string::npos &&
          rule.whole.find(letter) == std::string::npos) {
        rule.whole += letter;
      }
    }
    return rule;
  }
  double flops(std::span<const Shape>, const Shape&) const override { return 0; }
  void forward(Lowering& lowering) const override { lowering.output_is_input(0); }
  void backward(Lowering& lowering) const override {
    if (lowering.needs_gradient(0)) {
      lowering.input_gradient_is_output_gradient(0);
    }
  }
  bool backward_reads(int) const override { return false; }
  ValueKind output_values() const override { return ValueKind::as_input; }

 private:
  // One of the two shapes on the walk: what comes next, and the group being made.
  struct Side {
    const Shape& shape;
    std::size_t next = 1;
    std::int64_t product = 1;
    std::vector<std::size_t> group;

    void take() {
      product *= shape[next];
      group.push_back(next++);
    }
    void skip_ones() {
      while (next < shape.size() && shape[next] == 1) {
        ++next;
      }
    }
  };

  Shape sample_;
};

}  // namespace meshwork
