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
#include "runtime/train/losses/comparison.h"

namespace meshwork {
namespace {

// Rule "b->b", or "bk->b" of targets that have a last dimension, "b,b->b" with weights, "b,->b" with
// a count: every row by itself.
class ClassWeightsOperation final : public Operation {
 public:
  ClassWeightsOperation(std::vector<float> table, RowClass of_row, std::size_t row_dimensions,
                        RowWeightInputs inputs)
      : table_(std::move(table)),
        of_row_(of_row),
        row_dimensions_(row_dimensions),
        weighted_(inputs.weighted),
        counted_(inputs.counted) {}

  std::string kind() const override { return "class_weights"; }

  Shape output_shape(std::span<const Shape> inputs) const override {
    check_input_count(inputs, static_cast<std::size_t>(input_count()));
    const Shape& target = inputs[0];
    Shape rows(target.begin(), target.begin() + static_cast<std::ptrdiff_t>(row_dimensions_));
    if (weighted_) check_weights_of_rows(rows, inputs[1]);
    return rows;
  }

  ElementType output_type(std::span<const ElementType> inputs) const override {
    const ElementType target =
        of_row_ == RowClass::number ? ElementType::int32 : ElementType::float32;
    if (inputs[0] != target || (weighted_ && inputs[1] != ElementType::float32) ||
        (counted_ && inputs.back() != ElementType::float64)) {
      fail("expected targets of {}, weights of float32, and a count of float64", name_of(target));
    }
    return ElementType::float32;
  }

  Rule rule(std::span<const Shape> inputs) const override {
    Rule rule;
    rule.output = dimension_letters(row_dimensions_);
    if (inputs[0].size() > row_dimensions_) rule.whole = class_letter;
    rule.inputs.push_back(rule.output + rule.whole);
    if (weighted_) rule.inputs.push_back(rule.output.substr(0, inputs[1].size()));
    if (counted_) rule.inputs.emplace_back();
    return rule;
  }

  double flops(std::span<const Shape> inputs, const Shape&) const override {
    return static_cast<double>(element_count(inputs[0]));
  }

  void forward(Lowering& lowering) const override {
    const Shape rows = lowering.local_output_shape(), target = lowering.local_shape(0);
    ClassWeightSpec spec{.rows = element_count(rows), .of_row = of_row_};
    if (target.size() > row_dimensions_) spec.columns = target.back();
    if (lowering.training()) spec.table = table_;
    std::vector<Operand> operands{lowering.input(0)};
    if (weighted_) {
      spec.rows_a_weight = 1;
      for (std::size_t d = lowering.block(1).size(); d < rows.size(); ++d) {
        spec.rows_a_weight *= std::max<std::int64_t>(rows[d], 1);
      }
      operands.push_back(lowering.input(1));
    }
    if (counted_) {
      const auto rows_at_hand = static_cast<double>(element_count(lowering.global_output_shape()));
      spec.mean_over = std::max(std::round(rows_at_hand / lowering.share_of_batch()), 1.0);
      operands.push_back(lowering.input(input_count() - 1));
    }
    operands.push_back(lowering.output());
    lowering.emit(spec, std::move(operands));
  }
  void backward(Lowering&) const override {}

 private:
  [[nodiscard]] int input_count() const { return 1 + (weighted_ ? 1 : 0) + (counted_ ? 1 : 0); }

  std::vector<float> table_;  // by class, up to the last that has a weight
  RowClass of_row_;
  std::size_t row_dimensions_;
  bool weighted_, counted_;
};

// Rule "b->".
class ClassCountOperation final : public Operation {
 public:
  explicit ClassCountOperation(std::int64_t classes) : classes_(classes) {}

  std::string kind() const override { return "class_count"; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    check_input_count(inputs, 1);
    return {};
  }
  ElementType output_type(std::span<const ElementType> inputs) const override {
    check_class_numbers(inputs[0]);
    return ElementType::float64;
  }
  Rule rule(std::span<const Shape> inputs) const override {
    return {.inputs = {dimension_letters(inputs[0].size())}, .output = ""};
  }
  double flops(std::span<const Shape> inputs, const Shape&) const override {
    return static_cast<double>(element_count(inputs[0]));
  }
  void forward(Lowering& lowering) const override {
    lowering.emit(ClassCountSpec{element_count(lowering.local_shape(0)), classes_},
                  {lowering.input(0), lowering.output()});
  }
  void backward(Lowering&) const override {}

  static void check_class_numbers(ElementType type) {
    if (type != ElementType::int32) fail("expected class numbers, found {}", name_of(type));
  }

 private:
  std::int64_t classes_;
};

class IgnoredClassOperation final : public Operation {
 public:
  explicit IgnoredClassOperation(std::int64_t ignored) : ignored_(ignored) {}

  std::string kind() const override { return "ignored_class"; }
  ElementType output_type(std::span<const ElementType> inputs) const override {
    ClassCountOperation::check_class_numbers(inputs[0]);
    return ElementType::int32;
  }
  void forward(Lowering& lowering) const override {
    const std::int64_t rows = element_count(lowering.local_output_shape());
    lowering.emit(IgnoreClassSpec{rows, ignored_}, {lowering.input(0), lowering.output()});
  }
  void backward(Lowering&) const override {}

 private:
  std::int64_t ignored_;
};

}  // namespace

std::unique_ptr<Operation> make_class_count(std::int64_t classes) {
  return std::make_unique<ClassCountOperation>(classes);
}

std::unique_ptr<Operation> make_ignored_class(std::int64_t ignored) {
  return std::make_unique<IgnoredClassOperation>(ignored);
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

std::unique_ptr<Operation> make_class_weights(const WeightsByNumber& weights, RowClass of_row,
                                              std::int64_t classes, std::size_t row_dimensions,
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
  return std::make_unique<ClassWeightsOperation>(std::move(table), of_row, row_dimensions, inputs);
}

}  // namespace meshwork
