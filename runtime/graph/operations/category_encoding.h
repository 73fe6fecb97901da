// Category encoding: numbers of categories as columns of zeros and ones, a column a category.
//
// The categories of a row, its last dimension, share columns: rule "bt->bo". A count adds up, so a
// split of t leaves the output partial. A mark does not: then t is the operation's own, and the
// marks of the ranks are joined by their maximum. A rank whose columns o are split marks its own.
//
// The columns do not move with the numbers: the gradient is 0.
#pragma once

#include <algorithm>

#include "collectives/error.h"
#include "runtime/device/kernels/category_encoding.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"
#include "runtime/graph/operations/dimensions.h"

namespace meshwork {

class CategoryEncodingOperation final : public Operation {
 public:
  /// `each`: elements have columns of their own, in a new dimension; else the last dimension shares
  /// them. Numbers are of `type`, float32 or int32.
  CategoryEncodingOperation(std::int64_t categories, bool each, bool counts,
                            ElementType type = ElementType::float32)
      : categories_(categories), each_(each), counts_(counts), type_(type) {}

  std::string kind() const override { return "category encoding"; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    check_input_count(inputs, 1);
    Shape shape = inputs[0];
    if (!each_) {
      if (shape.size() < 2) {
        fail("expected an input of at least two dimensions, batch and categories, found shape {}",
             to_string(shape));
      }
      shape.pop_back();
    }
    shape.push_back(categories_);
    return shape;
  }
  ElementType output_type(std::span<const ElementType> inputs) const override {
    if (inputs[0] != type_) {
      fail("expected categories of {}, found {}", name_of(type_), name_of(inputs[0]));
    }
    return ElementType::float32;
  }
  Rule rule(std::span<const Shape> inputs) const override {
    const std::string letters = dimension_letters(inputs[0].size());
    return {.inputs = {letters},
            .output = (each_ ? letters : letters.substr(0, letters.size() - 1)) + 'o',
            .own = each_ || counts_ ? "" : letters.substr(letters.size() - 1)};
  }
  std::vector<OwnReduction> own_reductions(const Rule& rule) const override {
    if (rule.own.empty()) return {};
    return {{.over = rule.own, .of = rule.output}};
  }
  double flops(std::span<const Shape> inputs, const Shape&) const override {
    return static_cast<double>(element_count(inputs[0]));
  }
  bool backward_reads(int) const override { return false; }
  std::int64_t classes(int) const override { return categories_; }

  void forward(Lowering& lowering) const override {
    const Shape x = lowering.local_shape(0);
    const Block& columns = lowering.output_block();
    const std::int64_t length = each_ ? 1 : x.back();
    const std::int64_t rows = element_count(each_ ? x : Shape(x.begin(), x.end() - 1));
    const std::int64_t count = rows * columns.back().length();
    const Operand y = lowering.output();
    lowering.zero(count, y);
    lowering.emit(CategoryEncodingSpec{.rows = rows,
                                       .length = length,
                                       .first = columns.back().begin,
                                       .columns = columns.back().length(),
                                       .counts = counts_,
                                       .type = type_},
                  {lowering.input(0), y});
    if (!each_ && !counts_) {
      lowering.all_reduce(dimension_letters(x.size()).substr(x.size() - 1), ElementType::float32,
                          Reduction::maximum, y, count,
                          element_count(lowering.global_output_shape()), "marks of categories");
    }
  }
  void backward(Lowering& lowering) const override {
    if (lowering.needs_gradient(0)) {
      lowering.zero(element_count(lowering.local_shape(0)), lowering.input_gradient(0));
    }
  }

 private:
  std::int64_t categories_;
  bool each_;
  bool counts_;
  ElementType type_;
};

}  // namespace meshwork
