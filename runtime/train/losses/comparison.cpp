#include "runtime/train/losses/comparison.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "collectives/error.h"
#include "runtime/device/kernels/rows.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operations/dimensions.h"
#include "runtime/graph/operations/mask.h"

namespace meshwork {
namespace {

Shape without_last(const Shape& shape) {
  return Shape(shape.begin(), shape.end() - 1);
}

Shape with_last(const Shape& shape, std::int64_t last) {
  Shape other = shape;
  other.back() = last;
  return other;
}

void check_prediction(TargetForm form, const Shape& prediction) {
  if (prediction.empty()) {
    fail("expected a prediction with a batch dimension, found a scalar");
  }
  if (form == TargetForm::values) {
    return;
  }
  if (prediction.size() < 2) {
    fail("expected a prediction of at least two dimensions, batch and classes, found shape {}",
         to_string(prediction));
  }
  if (prediction.back() < 1) {
    fail("a prediction of shape {} has no classes", to_string(prediction));
  }
  if (form == TargetForm::classes && prediction.back() > std::numeric_limits<std::int32_t>::max()) {
    fail("a prediction of shape {} has too many classes: targets are class numbers in int32",
         to_string(prediction));
  }
}

/// Whether a row has one number, in place of numbers for its last dimension.
bool is_number(TargetForm form) {
  return form == TargetForm::classes || form == TargetForm::labels;
}

ElementType type_of(TargetForm form) {
  return is_number(form) ? ElementType::int32 : ElementType::float32;
}

// A loss or a metric, as `Base` is one.
template <class Base>
class Compared : public Base {
 public:
  Compared(std::string name, TargetForm form, MakeOperation make, bool weighs)
      : form_(form), make_(std::move(make)), weighs_(weighs), name_(std::move(name)) {}

  std::string name() const final { return name_; }
  std::unique_ptr<Operation> operation(const Shape& prediction, const Shape& target) const final {
    check_target(form_, prediction, target);
    return make_(false);
  }
  std::unique_ptr<Operation> weighted_operation(const Shape& prediction, const Shape& target,
                                                const Shape& weights) const final {
    if (!weighs_) return nullptr;
    check_target(form_, prediction, target);
    check_weights_of_rows(shape_of_rows(prediction), weights);
    return make_(true);
  }
  ElementType target_type() const final { return type_of(form_); }
  std::int64_t target_classes(const Shape& prediction, const Shape&) const final {
    return form_ == TargetForm::classes ? class_count(prediction) : 0;
  }

 protected:
  TargetForm form_;

 private:
  MakeOperation make_;
  bool weighs_;
  std::string name_;
};

class ComparedLoss final : public Compared<Loss> {
 public:
  ComparedLoss(std::string name, TargetForm form, MakeOperation make, Predictions predictions,
               bool binary, std::optional<std::int64_t> ignored)
      : Compared(std::move(name), form, std::move(make), true),
        predictions_(predictions),
        binary_(binary),
        ignored_(ignored) {}
  Shape target_shape(const Shape& prediction) const override {
    return target_shape_of(form_, prediction);
  }
  std::unique_ptr<Operation> class_weights(const Shape& prediction, const Shape& target,
                                           const WeightsByNumber& weights,
                                           RowWeightInputs inputs) const override {
    check_target(form_, prediction, target);
    const std::size_t row_dimensions = shape_of_rows(prediction).size();
    if (form_ == TargetForm::labels)
      return Loss::class_weights(prediction, target, weights, inputs);
    if (form_ != TargetForm::values) {
      const RowClass of_row = form_ == TargetForm::classes ? RowClass::number : RowClass::largest;
      return make_row_weights(weights, of_row, class_count(prediction), row_dimensions, inputs);
    }
    if (!binary_) return Loss::class_weights(prediction, target, weights, inputs);
    if (values_in_row(prediction) != 1) {
      fail(
          "predictions of shape {} have {} yes-or-no values a row; only where a row has one does "
          "its target stand for a class that can have a weight",
          to_string(prediction), values_in_row(prediction));
    }
    return make_row_weights(weights, RowClass::binary, 2, row_dimensions, inputs);
  }
  Predictions predictions(const Shape&) const override { return predictions_; }
  std::optional<std::int64_t> ignored_class() const override { return ignored_; }

 private:
  Predictions predictions_;
  bool binary_;
  std::optional<std::int64_t> ignored_;
};

class ComparedMetric final : public Compared<Metric> {
 public:
  ComparedMetric(std::string name, TargetForm form, MakeOperation make, Closing closing)
      : Compared(std::move(name), form, std::move(make), closing.weighs),
        closing_(std::move(closing)) {}
  Better better() const override { return closing_.better; }
  Predictions predictions(const Shape&) const override { return closing_.predictions; }
  std::int64_t results(const Shape& prediction) const override {
    return closing_.results ? closing_.results(prediction) : 1;
  }
  double value(std::span<const double> sums, double rows, std::int64_t result) const override {
    return closing_.value ? closing_.value(sums, rows, result) : Metric::value(sums, rows, result);
  }

 private:
  Closing closing_;
};

}  // namespace

std::unique_ptr<Operation> Loss::class_weights(const Shape&, const Shape&, const WeightsByNumber&,
                                               RowWeightInputs) const {
  fail(
      "the targets of the loss \"{}\" are no classes, which could have weights: those of "
      "cross-entropies are",
      name());
}

SharedLoss make_loss(std::string name, TargetForm form, MakeOperation make, Predictions predictions,
                     bool binary, std::optional<std::int64_t> ignored) {
  return std::make_shared<ComparedLoss>(std::move(name), form, std::move(make), predictions, binary,
                                        ignored);
}

SharedMetric make_metric(std::string name, TargetForm form, MakeOperation make) {
  return make_metric(std::move(name), form, std::move(make), {Better::higher, {}});
}

SharedMetric make_metric(std::string name, TargetForm form, MakeOperation make, Closing closing) {
  return std::make_shared<ComparedMetric>(std::move(name), form, std::move(make),
                                          std::move(closing));
}

Shape shape_of_rows(const Shape& prediction) {
  return prediction.size() == 1 ? prediction : without_last(prediction);
}

Shape target_shape_of(TargetForm form, const Shape& prediction) {
  check_prediction(form, prediction);
  return is_number(form) ? without_last(prediction) : prediction;
}

void check_target(TargetForm form, const Shape& prediction, const Shape& target) {
  check_prediction(form, prediction);
  const std::string found = fmt::format("for predictions of shape {}, found {}",
                                        to_string(prediction), to_string(target));
  switch (form) {
    case TargetForm::values:
      if (target == prediction ||
          (prediction.size() > 1 && prediction.back() == 1 && target == without_last(prediction))) {
        return;
      }
      fail("expected targets of shape {} {}", to_string(prediction), found);
    case TargetForm::classes:
      if (target == without_last(prediction) || target == with_last(prediction, 1)) {
        return;
      }
      fail("expected class numbers as targets, of shape {} or {} {}{}",
           to_string(without_last(prediction)), to_string(with_last(prediction, 1)), found,
           target == prediction
               ? "; the categorical class without \"Sparse\" takes a weight for each class"
               : "");
    case TargetForm::labels:
      if (target == without_last(prediction) || target == with_last(prediction, 1)) {
        return;
      }
      fail("expected a whole number for each sample as targets, of shape {} {}",
           to_string(without_last(prediction)), found);
    case TargetForm::weights:
      if (target == prediction) {
        return;
      }
      fail("expected a weight for each class as targets, of shape {} {}{}", to_string(prediction),
           found,
           target == without_last(prediction) || target == with_last(prediction, 1)
               ? "; the class with \"Sparse\" before its name takes class numbers, and `data: "
                 "{one_hot: true}` turns them into weights"
               : "");
  }
  internal_error("unknown form of target");
}

void check_weights_of_rows(const Shape& rows, const Shape& weights) {
  if (!weights.empty() && weights.size() <= rows.size() &&
      std::equal(weights.begin(), weights.end(), rows.begin())) {
    return;
  }
  fail("expected a weight for each sample, of shape {}{}, found {}", to_string(Shape{rows.front()}),
       rows.size() > 1 ? fmt::format(", or for each row, of shape {}", to_string(rows)) : "",
       to_string(weights));
}

std::int64_t class_count(const Shape& prediction) {
  return columns_of(prediction);
}

Shape ComparisonOperation::output_shape(std::span<const Shape> inputs) const {
  check_input_count(inputs, weighted_ ? 3 : 2);
  check_target(form_, inputs[0], inputs[1]);
  if (weighted_) check_weights_of_rows(shape_of_rows(inputs[0]), inputs[2]);
  // These throw for dimensions that there are not.
  (void)own_letters(letters_of(inputs[0]));
  (void)whole_letters(letters_of(inputs[0]));
  return {};
}

ElementType ComparisonOperation::output_type(std::span<const ElementType> inputs) const {
  if (inputs[0] != ElementType::float32 || inputs[1] != type_of(form_)) {
    fail("expected predictions of float32 and targets of {}, found {} and {}{}",
         name_of(type_of(form_)), name_of(inputs[0]), name_of(inputs[1]),
         is_number(form_) || inputs[1] == ElementType::int32
             ? "; class numbers, which are int32, are compared with by losses and metrics of "
               "classes "
               "alone"
             : "");
  }
  if (weighted_ && inputs[2] != ElementType::float32) {
    fail("expected weights of float32, found {}", name_of(inputs[2]));
  }
  return ElementType::float64;
}

std::string ComparisonOperation::letters_of(const Shape& prediction) {
  return prediction.size() == 1 ? "b" : dimension_letters(prediction.size(), class_letter.front());
}

std::string ComparisonOperation::own_letters(const std::string&) const {
  return form_ == TargetForm::values ? "" : std::string(class_letter);
}

Rule ComparisonOperation::rule(std::span<const Shape> inputs) const {
  const Shape& prediction = inputs[0];
  const Shape& target = inputs[1];
  const TargetForm form = form_;
  const std::string letters = letters_of(prediction);
  const std::string own = own_letters(letters);
  if (prediction.size() == 1) {
    return {.inputs = std::vector<std::string>(inputs.size(), letters), .output = "", .own = own};
  }
  Rule rule{.inputs = {letters, letters}, .output = "", .own = own};
  if (is_number(form) || target.size() < prediction.size()) {
    rule.inputs[1].pop_back();
    if (target.size() == prediction.size()) {
      rule.inputs[1] += 'o';  // the 1 in the place of the classes
      rule.whole += 'o';
    }
  }
  if (form == TargetForm::values && target.size() < prediction.size()) {
    rule.whole += class_letter;  // of length 1, and the target lacks it
  }
  rule.whole += whole_letters(letters);
  if (weighted_) {
    rule.inputs.push_back(letters.substr(0, inputs[2].size()));
  }
  return rule;
}

std::vector<Operand> ComparisonOperation::compared(Lowering& lowering) const {
  std::vector<Operand> operands{lowering.input(0), lowering.input(1)};
  if (weighted_) operands.push_back(lowering.input(2));
  return operands;
}

std::int64_t ComparisonOperation::rows_a_weight(const Lowering& lowering) const {
  if (!weighted_) return 0;
  return rows_an_element(shape_of_rows(lowering.local_shape(0)), lowering.block(2).size());
}

OwnReduction row_reduction(const Rule& rule, std::int64_t values, bool backward) {
  std::string rows = rule.inputs[0];
  rows.pop_back();
  return {std::string(class_letter), rows, values * float32_bytes, backward};
}

double row_count(const Shape& prediction) {
  return static_cast<double>(prediction.size() == 1 ? prediction[0] : rows_of(prediction));
}

std::int64_t values_in_row(const Shape& prediction) {
  return prediction.size() == 1 ? 1 : columns_of(prediction);
}

double mean_factor(const Lowering& lowering) {
  const double rows = row_count(lowering.global_shape(0));
  return rows > 0 ? lowering.loss_weight() / rows : 0;
}

void reduce_over_classes(Lowering& lowering, Reduction reduction, Operand buffer,
                         std::int64_t values, const std::string& what, ElementType type) {
  lowering.all_reduce(class_letter, type, reduction, buffer,
                      rows_of(lowering.local_shape(0)) * values,
                      rows_of(lowering.global_shape(0)) * values, what);
}

void give_no_gradient(Lowering& lowering) {
  if (lowering.needs_gradient(0)) {
    lowering.zero(element_count(lowering.local_shape(0)), lowering.input_gradient(0));
  }
}

LocalColumns local_columns(const Lowering& lowering) {
  const Shape local = lowering.local_shape(0);
  if (local.size() == 1) return {.rows = local[0], .first = 0, .count = 1};
  return {rows_of(local), lowering.block(0).back().begin, columns_of(local)};
}

Operand largest_classes(Lowering& lowering, int input, const std::string& what) {
  const ClassColumns at = class_columns(lowering, TargetForm::weights);
  const Operand values = lowering.input(input);
  const Operand maxima = lowering.scratch("largest " + what, at.rows);
  const Operand numbers =
      lowering.scratch("classes of the largest " + what, at.rows, ElementType::int32);
  lowering.emit(RowMaximumSpec{at.rows, at.columns}, {values, maxima});
  reduce_over_classes(lowering, Reduction::maximum, maxima, 1, "largest " + what);
  lowering.emit(FirstMaximumSpec{at}, {values, maxima, numbers});
  reduce_over_classes(lowering, Reduction::minimum, numbers, 1, "classes of the largest " + what,
                      ElementType::int32);
  return numbers;
}

ClassColumns class_columns(const Lowering& lowering, TargetForm form, double smoothing) {
  const Shape local = lowering.local_shape(0);
  return {.rows = rows_of(local),
          .columns = columns_of(local),
          .first_class = lowering.block(0).back().begin,
          .classes = class_count(lowering.global_shape(0)),
          .target = form == TargetForm::classes ? TargetKind::sparse : TargetKind::dense,
          .smoothing = static_cast<float>(smoothing)};
}

}  // namespace meshwork
