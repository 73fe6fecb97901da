#include "runtime/train/losses/class_weights.h"
#include "runtime/config/float_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "collectives/error.h"
#include "runtime/config/nearest.h"
#include "runtime/config/range.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operations/dimensions.h"
#include "runtime/graph/operations/mask.h"
#include "runtime/train/losses/comparison.h"

namespace meshwork {
namespace {

// Rule "b->b", or "bk->b" of targets that have a last dimension, "b,b->b" with weights, "b,b,->b"
// with a mask and its count: every row by itself.
class RowWeightsOperation final : public Operation {
 public:
  RowWeightsOperation(std::vector<float> table, RowClass of_row, std::size_t dimensions,
                      RowWeightInputs inputs)
      : table_(std::move(table)),
        of_row_(of_row),
        dimensions_(dimensions),
        weights_(has_target() ? 1 : 0),
        mask_(weights_ + (inputs.weighted ? 1 : 0)),
        weighted_(inputs.weighted),
        masked_(inputs.masked),
        rows_an_element_(inputs.rows_an_element) {}

  std::string kind() const override { return "row_weights"; }

  Shape output_shape(std::span<const Shape> inputs) const override {
    check_input_count(inputs, static_cast<std::size_t>(input_count()));
    const Shape* longest = &inputs[0];
    for (const Shape& input : inputs) {
      if (input.size() > longest->size()) longest = &input;
    }
    const Shape& of = has_target() ? inputs[0] : *longest;
    Shape rows(of.begin(), of.begin() + static_cast<std::ptrdiff_t>(dimensions_));
    if (weighted_) check_weights_of_rows(rows, inputs[weights_]);
    if (masked_) check_mask(rows, inputs[mask_]);
    return rows;
  }

  ElementType output_type(std::span<const ElementType> inputs) const override {
    const ElementType target =
        of_row_ == RowClass::number ? ElementType::int32 : ElementType::float32;
    if ((has_target() && inputs[0] != target) ||
        (weighted_ && inputs[weights_] != ElementType::float32) ||
        (masked_ &&
         (inputs[mask_] != ElementType::float32 || inputs.back() != ElementType::float64))) {
      fail("expected targets of {}, weights and a mask of float32, and a count of float64",
           name_of(target));
    }
    return ElementType::float32;
  }

  Rule rule(std::span<const Shape> inputs) const override {
    Rule rule;
    rule.output = dimension_letters(dimensions_);
    if (has_target()) {
      if (inputs[0].size() > dimensions_) rule.whole = class_letter;
      rule.inputs.push_back(rule.output + rule.whole);
    }
    if (weighted_) rule.inputs.push_back(rule.output.substr(0, inputs[weights_].size()));
    if (masked_) {
      rule.inputs.push_back(rule.output.substr(0, inputs[mask_].size()));
      rule.inputs.emplace_back();
    }
    return rule;
  }

  double flops(std::span<const Shape> inputs, const Shape&) const override {
    return static_cast<double>(element_count(inputs[0]));
  }

  void forward(Lowering& lowering) const override {
    const Shape rows = lowering.local_output_shape();
    RowWeightSpec spec{.rows = element_count(rows), .of_row = of_row_};
    std::vector<Operand> operands;
    if (has_target()) {
      if (lowering.local_shape(0).size() > dimensions_)
        spec.columns = lowering.local_shape(0).back();
      if (lowering.training()) spec.table = table_;
      operands.push_back(lowering.input(0));
    }
    if (weighted_) {
      spec.rows_a_weight = rows_an_element(rows, lowering.block(weights_).size());
      operands.push_back(lowering.input(weights_));
    }
    if (masked_) {
      const Shape& mask = lowering.global_shape(mask_);
      spec.rows_a_mask = rows_an_element(rows, mask.size());
      const auto at_hand = static_cast<double>(element_count(mask) * rows_an_element_);
      spec.rows_in_all = std::max(std::round(at_hand / lowering.share_of_batch()), 1.0);
      operands.push_back(lowering.input(mask_));
      operands.push_back(lowering.input(mask_ + 1));
    }
    operands.push_back(lowering.output());
    lowering.emit(spec, std::move(operands));
  }
  void backward(Lowering&) const override {}

 private:
  [[nodiscard]] bool has_target() const { return of_row_ != RowClass::none; }
  [[nodiscard]] int input_count() const { return mask_ + (masked_ ? 2 : 0); }

  std::vector<float> table_;  // by class, up to the last that has a weight
  RowClass of_row_;
  std::size_t dimensions_;
  int weights_, mask_;  // inputs
  bool weighted_, masked_;
  std::int64_t rows_an_element_;
};

// Rule "b->".
class MaskCountOperation final : public Operation {
 public:
  explicit MaskCountOperation(std::int64_t rows_an_element) : rows_an_element_(rows_an_element) {}

  std::string kind() const override { return "mask_count"; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    check_input_count(inputs, 1);
    return {};
  }
  ElementType output_type(std::span<const ElementType>) const override {
    return ElementType::float64;
  }
  Rule rule(std::span<const Shape> inputs) const override {
    return {.inputs = {dimension_letters(inputs[0].size())}, .output = ""};
  }
  double flops(std::span<const Shape> inputs, const Shape&) const override {
    return static_cast<double>(element_count(inputs[0]));
  }
  void forward(Lowering& lowering) const override {
    lowering.emit(MaskCountSpec{element_count(lowering.local_shape(0)),
                                static_cast<double>(rows_an_element_)},
                  {lowering.input(0), lowering.output()});
  }
  void backward(Lowering&) const override {}

 private:
  std::int64_t rows_an_element_;
};

// Rule "bt,b->bt".
class MaskedClassOperation final : public Operation {
 public:
  std::string kind() const override { return "masked_class"; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    check_input_count(inputs, 2);
    check_mask(inputs[0], inputs[1]);
    return inputs[0];
  }
  ElementType output_type(std::span<const ElementType> inputs) const override {
    if (inputs[0] != ElementType::int32) {
      fail("expected class numbers, found {}", name_of(inputs[0]));
    }
    return ElementType::int32;
  }
  Rule rule(std::span<const Shape> inputs) const override {
    const std::string letters = dimension_letters(inputs[0].size());
    return {.inputs = {letters, letters.substr(0, inputs[1].size())}, .output = letters};
  }
  void forward(Lowering& lowering) const override {
    const Shape rows = lowering.local_output_shape();
    lowering.emit(
        MaskedClassSpec{element_count(rows), rows_an_element(rows, lowering.block(1).size())},
        {lowering.input(0), lowering.input(1), lowering.output()});
  }
  void backward(Lowering&) const override {}
};

}  // namespace

std::unique_ptr<Operation> make_mask_count(std::int64_t rows_an_element) {
  return std::make_unique<MaskCountOperation>(rows_an_element);
}

std::unique_ptr<Operation> make_masked_class() {
  return std::make_unique<MaskedClassOperation>();
}

ClassName::ClassName(std::string text) : text_(std::move(text)) {
  std::int64_t number = -1;
  const char* const end = text_.data() + text_.size();
  const auto read = std::from_chars(text_.data(), end, number);
  if (read.ec == std::errc() && read.ptr == end) number_ = number;
}

void from_config(const ConfigNode& node, ClassWeights& weights) {
  ConfigErrors errors;
  for (const ConfigEntry& entry : node.entries()) {
    errors.check([&] {
      const auto weight = entry.value.as<double>(float_not_negative);
      if (!weights.emplace(entry.name, weight).second) {
        entry.key.fail("class {} has a weight already", entry.name);
      }
    });
  }
  errors.raise();
}

std::string to_text(const ClassWeights& weights) {
  std::string text;
  for (const auto& [name, weight] : weights) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", name.text(), weight);
  }
  return text.empty() ? "none" : "{" + text + "}";
}

std::vector<double> numbers_of(const ClassWeights& weights) {
  std::vector<double> numbers;
  for (const auto& [name, weight] : weights) numbers.push_back(weight);
  return numbers;
}

std::int64_t class_number(const ClassName& name, std::span<const std::string> texts) {
  const auto found = std::find(texts.begin(), texts.end(), name.text());
  if (found != texts.end()) return found - texts.begin();
  const bool numbers = std::any_of(texts.begin(), texts.end(), [](const std::string& text) {
    return ClassName(text).number().has_value();
  });
  if (name.number() && *name.number() >= 0 && !numbers) return *name.number();
  if (texts.empty()) {
    fail("expected the number of a class, counted from 0, found {}", in_quotes(name.text()));
  }
  const std::string nearest = did_you_mean(name.text(), texts);
  fail("there is no class {}{}", in_quotes(name.text()),
       nearest.empty()
           ? fmt::format("; there are {}", quoted_list(nearest_names(name.text(), texts, 5)))
           : nearest);
}

WeightsByNumber numbered(const ClassWeights& weights, std::span<const std::string> texts) {
  WeightsByNumber numbers;
  for (const auto& [name, weight] : weights) {
    const std::int64_t number = class_number(name, texts);
    if (!numbers.emplace(number, weight).second) {
      fail("class {} has two weights, one of them as {}", number, in_quotes(name.text()));
    }
  }
  return numbers;
}

std::unique_ptr<Operation> make_row_weights(const WeightsByNumber& weights, RowClass of_row,
                                            std::int64_t classes, std::size_t dimensions,
                                            RowWeightInputs inputs) {
  std::vector<float> table;
  for (const auto& [number, weight] : weights) {
    if (number < 0 || number >= classes) {
      fail("class {} has a weight, but there {} {} class{}, from 0 to {}", number,
           classes == 1 ? "is" : "are", classes, classes == 1 ? "" : "es", classes - 1);
    }
    table.resize(static_cast<std::size_t>(number), 1.0f);
    table.push_back(static_cast<float>(weight));
  }
  return std::make_unique<RowWeightsOperation>(std::move(table), of_row, dimensions, inputs);
}

}  // namespace meshwork
