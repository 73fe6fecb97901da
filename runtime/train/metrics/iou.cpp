#include "runtime/train/metrics/iou.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "runtime/device/kernels/counts.h"
#include "runtime/graph/lowering.h"
#include "runtime/train/from_config.h"
#include "runtime/train/losses/comparison.h"
#include "runtime/train/metrics/threshold_metric.h"

namespace meshwork {

template <class Options, class Visitor>
requires requires(Options options) {
  options.num_classes;
}
void describe(Options& options, Visitor& option) {
  constexpr bool of_some = requires {
    options.target_class_ids;
  };
  option.about(of_some ? "mean intersection over union of some predicted and right classes"
                       : "mean intersection over union of predicted and right classes");
  option.required("num_classes", options.num_classes, between(1, 1000000), "number of classes");
  if constexpr (of_some) {
    option.required("target_class_ids", options.target_class_ids, at_least(0),
                    "classes that count, one at least");
  }
  option("ignore_class", options.ignore_class, "class of target rows to ignore");
  if constexpr (requires { options.sparse_y_true; }) {
    option("sparse_y_true", options.sparse_y_true, "targets are class numbers");
    option("sparse_y_pred", options.sparse_y_pred, "predictions are class numbers");
  }
  option("name", options.name, "name in the logs");
}

namespace {

// Three counts a class (ClassPairsSpec). Ranks among which classes are split count the same.
class ClassPairsOperation final : public ComparisonOperation {
 public:
  ClassPairsOperation(TargetForm targets, std::int64_t classes, std::int64_t ignored)
      : ComparisonOperation("class_pairs", targets), classes_(classes), ignored_(ignored) {}

  Shape output_shape(std::span<const Shape> inputs) const override {
    Shape shape = ComparisonOperation::output_shape(inputs);
    if (form() != TargetForm::values && class_count(inputs[0]) > classes_) {
      fail("num_classes: predictions of shape {} have {} classes, found {}", to_string(inputs[0]),
           class_count(inputs[0]), classes_);
    }
    return shape;
  }
  std::int64_t sum_count() const override { return 3 * classes_; }
  double flops(std::span<const Shape> inputs, const Shape&) const override {
    return 2.0 * static_cast<double>(element_count(inputs[0]));
  }
  std::vector<OwnReduction> own_reductions(const Rule& rule) const override {
    const int reductions = form() == TargetForm::values ? 0 : form() == TargetForm::classes ? 2 : 4;
    return std::vector<OwnReduction>(reductions, row_reduction(rule, 1, false));
  }
  void forward(Lowering& lowering) const override {
    const bool of_values = form() == TargetForm::values;
    const LocalColumns at = local_columns(lowering);
    const Operand said =
        of_values ? lowering.input(0) : largest_classes(lowering, 0, "predictions");
    const Operand right =
        form() == TargetForm::weights ? largest_classes(lowering, 1, "weights") : lowering.input(1);
    lowering.emit(ClassPairsSpec{.count = of_values ? at.rows * at.count : at.rows,
                                 .classes = classes_,
                                 .ignored = ignored_,
                                 .of_values = of_values},
                  {said, right, lowering.output()});
  }
  void backward(Lowering& lowering) const override { give_no_gradient(lowering); }

 private:
  std::int64_t classes_, ignored_;
};

struct IoUForm {
  bool sparse_y_true = false, sparse_y_pred = false;
};

TargetForm targets_of(const char* class_name, const IoUForm& form) {
  if (!form.sparse_y_pred) return form.sparse_y_true ? TargetForm::classes : TargetForm::weights;
  if (!form.sparse_y_true) {
    fail(
        "{}: predictions that are class numbers (sparse_y_pred: true) go with targets that are; "
        "set "
        "sparse_y_true: true, or sparse_y_pred: false",
        class_name);
  }
  return TargetForm::values;
}

template <class Options>
SharedMetric mean_over(const char* class_name, const Options& options, const IoUForm& form) {
  check_options(class_name, options);
  std::vector<std::int64_t> classes;
  if constexpr (requires { options.target_class_ids; }) {
    classes = options.target_class_ids;
    check_classes_that_count(class_name, classes, options.num_classes);
  } else {
    classes.resize(static_cast<std::size_t>(options.num_classes));
    std::iota(classes.begin(), classes.end(), 0);
  }
  const TargetForm targets = targets_of(class_name, form);
  return make_metric(options.name, targets,
                     [=, count = options.num_classes, ignored = options.ignore_class](bool) {
                       return std::make_unique<ClassPairsOperation>(targets, count,
                                                                    ignored.value_or(-1));
                     },
                     {.better = Better::higher,
                      .value = [classes](std::span<const double> sums, double, std::int64_t) {
                        double total = 0, count = 0;
                        for (const std::int64_t one : classes) {
                          const auto at = static_cast<std::size_t>(3 * one);
                          const double either = sums[at + 1] + sums[at + 2] - sums[at];
                          total += ratio(sums[at], either);
                          count += either > 0 ? 1 : 0;
                        }
                        return ratio(total, count);
                      }});
}

}  // namespace

void check_classes_that_count(const char* class_name, const std::vector<std::int64_t>& classes,
                              std::int64_t count) {
  if (classes.empty()) fail("{}: target_class_ids: expected one class at least", class_name);
  for (const std::int64_t one : classes) {
    if (one >= count) {
      fail("{}: target_class_ids: expected classes below {} (num_classes), found {}", class_name,
           count, one);
    }
  }
}

SharedMetric MeanIoU(const MeanIoUOptions& options) {
  return mean_over("MeanIoU", options, {options.sparse_y_true, options.sparse_y_pred});
}

SharedMetric IoU(const IoUOptions& options) {
  return mean_over("IoU", options, {options.sparse_y_true, options.sparse_y_pred});
}

SharedMetric OneHotMeanIoU(const OneHotMeanIoUOptions& options) {
  return mean_over("OneHotMeanIoU", options, {});
}

SharedMetric OneHotIoU(const OneHotIoUOptions& options) {
  return mean_over("OneHotIoU", options, {});
}

void add_iou(Catalog& catalog) {
  catalog.add<SharedMetric, MeanIoUOptions>("MeanIoU", {"mean_io_u"}, MeanIoU);
  catalog.add<SharedMetric, IoUOptions>("IoU", {"io_u"}, IoU);
  catalog.add<SharedMetric, OneHotMeanIoUOptions>("OneHotMeanIoU", {"one_hot_mean_io_u"},
                                                  OneHotMeanIoU);
  catalog.add<SharedMetric, OneHotIoUOptions>("OneHotIoU", {"one_hot_io_u"}, OneHotIoU);
}

}  // namespace meshwork
