#include "runtime/train/losses/generalized_crossentropy.h"

#include <memory>
#include <vector>

#include "runtime/device/kernels/classes.h"
#include "runtime/device/kernels/generalized_crossentropy.h"
#include "runtime/graph/lowering.h"
#include "runtime/train/from_config.h"
#include "runtime/train/losses/comparison.h"

namespace meshwork {

template <class Visitor>
void describe(CategoricalGeneralizedCrossEntropyOptions& options, Visitor& option) {
  option.about("(1 - p^q) / q of the right class, for class numbers of which some are wrong");
  option("q", options.q, positive.below(1), "near 0: as cross-entropy; near 1: as absolute error");
  option("name", options.name, "name in the logs");
}

namespace {

class GeneralizedCrossentropyOperation final : public ComparisonOperation {
 public:
  GeneralizedCrossentropyOperation(double q, bool weighted)
      : ComparisonOperation("generalized_crossentropy", TargetForm::classes, weighted), q_(q) {}

  std::vector<OwnReduction> own_reductions(const Rule& rule) const override {
    return {row_reduction(rule, 1, false)};
  }
  double flops(std::span<const Shape> inputs, const Shape&) const override {
    return 20.0 * row_count(inputs[0]);
  }

  void forward(Lowering& lowering) const override {
    const ClassColumns at = class_columns(lowering, TargetForm::classes);
    const Operand v = probabilities(lowering);
    lowering.emit(TargetValueSpec{at}, {lowering.input(0), lowering.input(1), v});
    reduce_over_classes(lowering, Reduction::sum, v, 1, "probabilities of classes");
    std::vector<Operand> operands{lowering.input(1), v};
    if (weighted()) operands.push_back(lowering.input(2));
    operands.push_back(lowering.output());
    lowering.emit(GeneralizedCrossentropySpec{at.rows, at.classes, q_, rows_a_weight(lowering)},
                  std::move(operands));
  }
  void backward(Lowering& lowering) const override {
    if (!lowering.needs_gradient(0)) return;
    const ClassColumns at = class_columns(lowering, TargetForm::classes);
    std::vector<Operand> operands{lowering.input(1), probabilities(lowering)};
    if (weighted()) operands.push_back(lowering.input(2));
    operands.push_back(lowering.input_gradient(0));
    lowering.emit(GeneralizedCrossentropyGradientSpec{at.rows, at.columns, at.first_class, q_,
                                                      static_cast<float>(mean_factor(lowering)),
                                                      rows_a_weight(lowering)},
                  std::move(operands));
  }
  bool backward_reads(int input) const override { return input > 0; }

 private:
  static Operand probabilities(Lowering& lowering) {
    return lowering.scratch("probabilities of classes",
                            class_columns(lowering, TargetForm::classes).rows);
  }

  double q_;
};

}  // namespace

SharedLoss CategoricalGeneralizedCrossEntropy(
    const CategoricalGeneralizedCrossEntropyOptions& options) {
  check_options("CategoricalGeneralizedCrossEntropy", options);
  return make_loss(
      options.name, TargetForm::classes,
      [q = options.q](bool weighted) {
        return std::make_unique<GeneralizedCrossentropyOperation>(q, weighted);
      },
      Predictions::probabilities);
}

void add_generalized_crossentropy(Catalog& catalog) {
  catalog.add<SharedLoss, CategoricalGeneralizedCrossEntropyOptions>(
      "CategoricalGeneralizedCrossEntropy", {"categorical_generalized_cross_entropy"},
      CategoricalGeneralizedCrossEntropy);
}

}  // namespace meshwork
