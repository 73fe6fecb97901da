#include "runtime/train/losses/comparison.h"

#include <limits>
#include <utility>

#include "collectives/error.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operations/dimensions.h"

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

ElementType type_of(TargetForm form) {
  return form == TargetForm::classes ? ElementType::int32 : ElementType::float32;
}

// A loss or a metric, as `Base` is one.
template <class Base>
class Compared : public Base {
 public:
  Compared(std::string name, TargetForm form, MakeOperation make)
      : form_(form), name_(std::move(name)), make_(std::move(make)) {}

  std::string name() const final { return name_; }
  std::unique_ptr<Operation> operation(const Shape& prediction, const Shape& target) const final {
    check_target(form_, prediction, target);
    return make_();
  }
  ElementType target_type() const final { return type_of(form_); }
  std::int64_t target_classes(const Shape& prediction, const Shape&) const final {
    return form_ == TargetForm::classes ? class_count(prediction) : 0;
  }

 protected:
  TargetForm form_;

 private:
  std::string name_;
  MakeOperation make_;
};

class ComparedLoss final : public Compared<Loss> {
 public:
  ComparedLoss(std::string name, TargetForm form, MakeOperation make, Predictions predictions)
      : Compared(std::move(name), form, std::move(make)), predictions_(predictions) {}
  Shape target_shape(const Shape& prediction) const override {
    return target_shape_of(form_, prediction);
  }
  Predictions predictions() const override { return predictions_; }

 private:
  Predictions predictions_;
};

class ComparedMetric final : public Compared<Metric> {
 public:
  using Compared::Compared;
  Better better() const override { return Better::higher; }
};

}  // namespace

SharedLoss make_loss(std::string name, TargetForm form, MakeOperation make,
                     Predictions predictions) {
  return std::make_shared<ComparedLoss>(std::move(name), form, std::move(make), predictions);
}

SharedMetric make_metric(std::string name, TargetForm form, MakeOperation make) {
  return std::make_shared<ComparedMetric>(std::move(name), form, std::move(make));
}

Shape target_shape_of(TargetForm form, const Shape& prediction) {
  check_prediction(form, prediction);
  return form == TargetForm::classes ? without_last(prediction) : prediction;
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
               ? "; a weight for each class is what the categorical kind without \"Sparse\" takes"
               : "");
    case TargetForm::weights:
      if (target == prediction) {
        return;
      }
      fail("expected a weight for each class as targets, of shape {} {}{}", to_string(prediction),
           found,
           target == without_last(prediction) || target == with_last(prediction, 1)
               ? "; class numbers are what the kind with \"Sparse\" before its name takes"
               : "");
  }
  internal_error("unknown form of target");
}

std::int64_t class_count(const Shape& prediction) {
  return columns_of(prediction);
}

Shape ComparisonOperation::output_shape(std::span<const Shape> inputs) const {
  check_input_count(inputs, 2);
  check_target(form_, inputs[0], inputs[1]);
  return {};
}

ElementType ComparisonOperation::output_type(std::span<const ElementType> inputs) const {
  if (inputs[0] != ElementType::float32 || inputs[1] != type_of(form_)) {
    fail("expected predictions of float32 and targets of {}, found {} and {}{}",
         name_of(type_of(form_)), name_of(inputs[0]), name_of(inputs[1]),
         form_ == TargetForm::classes || inputs[1] == ElementType::int32
             ? "; class numbers, which are int32, are compared with by losses and metrics of "
               "classes "
               "alone"
             : "");
  }
  return ElementType::float64;
}

Rule ComparisonOperation::rule(std::span<const Shape> inputs) const {
  const Shape& prediction = inputs[0];
  const Shape& target = inputs[1];
  const TargetForm form = form_;
  if (prediction.size() == 1) {
    return {.inputs = {"b", "b"}, .output = ""};
  }
  const std::string letters = dimension_letters(prediction.size(), class_letter.front());
  Rule rule{.inputs = {letters, letters}, .output = ""};
  if (form != TargetForm::values) {
    rule.own = class_letter;
  }
  if (form == TargetForm::classes || target.size() < prediction.size()) {
    rule.inputs[1].pop_back();
    if (target.size() == prediction.size()) {
      rule.inputs[1] += 'o';  // the 1 in the place of the classes
      rule.whole += 'o';
    }
  }
  if (form == TargetForm::values && target.size() < prediction.size()) {
    rule.whole += class_letter;  // of length 1, and the target lacks it
  }
  return rule;
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
  return rows > 0 ? 1 / rows : 0;
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
