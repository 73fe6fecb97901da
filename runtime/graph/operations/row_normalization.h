// Layer normalization and its kin: y = (x - mean) * gamma / sqrt(variance + epsilon) + beta, with
// mean and population variance of each row: of the last dimension, or of all behind the first
// `row_dimensions` together.
//
// Inputs: x, [gamma], [beta], which have the row's shape. RMS normalization takes 0 for the mean and
// the mean square for the variance.
//
// Rule "btu,u,u->btu". The letters of the row, here u, are its own. Where an axis splits them, the
// ranks add up {sum of x, sum of x^2} of each row in float64. Backward adds up {sum of g, sum of g *
// xhat}, with g = gamma * dy. Under any other split, rows are normalized where they lie; the gradients
// of gamma and beta, which lack its letter, are added up.
#pragma once

#include <string>
#include <vector>

#include "collectives/error.h"
#include "runtime/device/kernels/row_normalization.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"
#include "runtime/graph/operations/dimensions.h"

namespace meshwork {

struct RowNormalizationOptions {
  std::size_t row_dimensions = 0;  // in front of what is normalized together; 0: all but the last
  bool centered = true;            // subtract the mean
  bool scale = true;               // multiply by gamma
  bool center = true;              // add beta
  double epsilon = 1e-3;
};

class RowNormalizationOperation final : public Operation {
 public:
  explicit RowNormalizationOperation(const RowNormalizationOptions& options) : options_(options) {}

  std::string kind() const override { return "row normalization"; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    check_input_count(inputs, static_cast<std::size_t>(input_count()));
    for (std::size_t i = 1; i < inputs.size(); ++i) {
      if (inputs[i] != row_of(inputs[0])) {
        fail("an input of shape {} needs factors of shape {}, found {}", to_string(inputs[0]),
             to_string(row_of(inputs[0])), to_string(inputs[i]));
      }
    }
    return inputs[0];
  }
  Rule rule(std::span<const Shape> inputs) const override {
    const std::string letters = dimension_letters(inputs[0].size());
    const std::string row = letters_of_row(inputs[0]);
    Rule rule{.inputs = {letters}, .output = letters, .own = row};
    rule.inputs.resize(inputs.size(), row);
    return rule;
  }
  std::vector<OwnReduction> own_reductions(const Rule& rule) const override {
    const std::string rows = rule.output.substr(0, rule.output.size() - rule.own.size());
    return {{.over = rule.own, .of = rows, .bytes_per_element = 16},
            {.over = rule.own, .of = rows, .bytes_per_element = 16, .backward = true}};
  }
  // Two passes over x: sums, and the result.
  double flops(std::span<const Shape>, const Shape& output) const override {
    return 8.0 * static_cast<double>(element_count(output));
  }

  void forward(Lowering& lowering) const override {
    const RowNormalization at = normalized(lowering);
    const bool known = lowering.splits(letters_of_row(lowering.global_shape(0)));
    const Operand x = lowering.input(0);
    const Operand mean = this->mean(lowering);
    const Operand inverse = this->inverse(lowering);
    if (known) {
      const Operand z = lowering.scratch("sums", 2 * at.rows, ElementType::float64);
      lowering.emit(RowMomentsSpec{at.rows, at.columns}, {x, z});
      add_up(lowering, z, "sums of rows");
      lowering.emit(RowStatisticsSpec{at}, {z, mean, inverse});
    }
    std::vector<Operand> operands{x, mean, inverse};
    for (int input = 1; input < input_count(); ++input) operands.push_back(lowering.input(input));
    operands.push_back(lowering.output());
    lowering.emit(RowNormalizeSpec{at, known}, operands);
  }
  void backward(Lowering& lowering) const override {
    const RowNormalization at = normalized(lowering);
    const Operand x = lowering.input(0);
    const Operand dy = lowering.output_gradient();
    const std::vector<Operand> of_rows{x, mean(lowering), inverse(lowering)};
    if (lowering.needs_gradient(0)) {
      const bool known = lowering.splits(letters_of_row(lowering.global_shape(0)));
      std::vector<Operand> operands = of_rows;
      if (options_.scale) operands.push_back(lowering.input(gamma));
      operands.push_back(dy);
      if (known) {
        operands.push_back(lowering.scratch("sums", 2 * at.rows, ElementType::float64));
        lowering.emit(RowGradientSumsSpec{at}, operands);
        add_up(lowering, operands.back(), "sums of gradients");
      }
      operands.push_back(lowering.input_gradient(0));
      lowering.emit(RowNormalizeGradientSpec{at, known}, operands);
    }
    RowNormalization wanted = at;
    wanted.scale = at.scale && lowering.needs_gradient(gamma);
    wanted.center = at.center && lowering.needs_gradient(beta());
    if (wanted.scale || wanted.center) {
      std::vector<Operand> operands = of_rows;
      operands.push_back(dy);
      if (wanted.scale) operands.push_back(lowering.input_gradient(gamma));
      if (wanted.center) operands.push_back(lowering.input_gradient(beta()));
      lowering.emit(RowNormalizeVariablesSpec{wanted}, operands);
    }
  }
  bool backward_reads(int input) const override {
    return input == 0 || (options_.scale && input == gamma);
  }

 private:
  static constexpr int gamma = 1;  // if there is one
  int beta() const { return options_.scale ? 2 : 1; }
  int input_count() const { return 1 + (options_.scale ? 1 : 0) + (options_.center ? 1 : 0); }

  std::size_t row_dimensions(const Shape& x) const {
    return options_.row_dimensions > 0 ? options_.row_dimensions : x.size() - 1;
  }
  Shape row_of(const Shape& x) const {
    return {x.begin() + static_cast<std::ptrdiff_t>(row_dimensions(x)), x.end()};
  }
  std::string letters_of_row(const Shape& x) const {
    return dimension_letters(x.size()).substr(row_dimensions(x));
  }
  std::int64_t row_count(const Shape& x) const {
    return element_count(std::span(x).first(row_dimensions(x)));
  }

  RowNormalization normalized(const Lowering& lowering) const {
    const Shape x = lowering.local_shape(0);
    return {.rows = row_count(x),
            .columns = element_count(row_of(x)),
            .count = element_count(row_of(lowering.global_shape(0))),
            .centered = options_.centered,
            .scale = options_.scale,
            .center = options_.center,
            .epsilon = options_.epsilon};
  }
  Operand mean(Lowering& lowering) const {
    return lowering.scratch("mean", row_count(lowering.local_shape(0)));
  }
  // 1 / sqrt(variance + epsilon).
  Operand inverse(Lowering& lowering) const {
    return lowering.scratch("inverse deviation", row_count(lowering.local_shape(0)));
  }
  void add_up(Lowering& lowering, Operand sums, const std::string& what) const {
    const Shape& global = lowering.global_shape(0);
    lowering.all_reduce(letters_of_row(global), ElementType::float64, Reduction::sum, sums,
                        2 * row_count(lowering.local_shape(0)), 2 * row_count(global), what);
  }

  RowNormalizationOptions options_;
};

}  // namespace meshwork
