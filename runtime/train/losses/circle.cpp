#include "runtime/train/losses/circle.h"

#include <memory>
#include <vector>

#include "collectives/error.h"
#include "runtime/config/float_range.h"
#include "runtime/device/kernels/circle.h"
#include "runtime/device/kernels/products.h"
#include "runtime/graph/lowering.h"
#include "runtime/train/from_config.h"
#include "runtime/train/losses/comparison.h"

namespace meshwork {

template <class Visitor>
void describe(CircleOptions& options, Visitor& option) {
  option.about("draws vectors of one label together and others apart, for similarity search");
  option("gamma", options.gamma, float_positive, "scale of similarities");
  option("margin", options.margin, float_not_negative,
         "largest distance between vectors of one label");
  option("remove_diagonal", options.remove_diagonal, "leave out each sample's pair with itself");
  option("name", options.name, "name in the logs");
}

namespace {

class CircleOperation final : public ComparisonOperation {
 public:
  CircleOperation(const CircleFunction& function, bool weighted)
      : ComparisonOperation("circle", TargetForm::labels, weighted), function_(function) {}

  double flops(std::span<const Shape> inputs, const Shape&) const override {
    const auto samples = static_cast<double>(inputs[0][0]);
    return samples * samples * (2.0 * static_cast<double>(inputs[0][1]) + 20.0);
  }

  void forward(Lowering& lowering) const override {
    const std::int64_t samples = lowering.local_shape(0)[0], features = lowering.local_shape(0)[1];
    const Operand x = lowering.input(0), cosines = this->cosines(lowering);
    lowering.emit(MatmulSpec{.m = samples, .n = samples, .k = features, .transpose_b = true},
                  {x, x, cosines});
    lowering.emit(CircleSumsSpec{samples, function_}, {cosines, lowering.input(1), sums(lowering)});
    lowering.emit(CircleLossSpec{samples, weighted()},
                  with_weights(lowering, {sums(lowering)}, {share(lowering), lowering.output()}));
  }
  void backward(Lowering& lowering) const override {
    if (!lowering.needs_gradient(0)) return;
    const std::int64_t samples = lowering.local_shape(0)[0], features = lowering.local_shape(0)[1];
    const Operand x = lowering.input(0), dx = lowering.input_gradient(0);
    const Operand slopes = cosines(lowering);
    lowering.emit(
        CircleGradientSpec{samples, function_, static_cast<float>(lowering.loss_weight()),
                           weighted()},
        with_weights(lowering, {lowering.input(1), sums(lowering)}, {share(lowering), slopes}));
    // A cosine is of its row and of its column.
    MatmulSpec product{.m = samples, .n = features, .k = samples};
    lowering.emit(product, {slopes, x, dx});
    product.transpose_a = product.accumulate = true;
    lowering.emit(product, {slopes, x, dx});
  }

 protected:
  std::string own_letters(const std::string&) const override { return ""; }
  std::string whole_letters(const std::string& letters) const override {
    if (letters.size() != 2) {
      fail(
          "the loss \"{}\" compares vectors, (batch, features); Flatten makes such of more "
          "dimensions",
          kind());
    }
    return letters;
  }

 private:
  // Of backward their slopes.
  static Operand cosines(Lowering& lowering) {
    const std::int64_t samples = lowering.local_shape(0)[0];
    return lowering.scratch("cosines", samples * samples);
  }
  static Operand sums(Lowering& lowering) {
    return lowering.scratch("sums of pairs", 2 * lowering.local_shape(0)[0]);
  }
  static Operand share(Lowering& lowering) { return lowering.scratch("share of a sample", 1); }
  [[nodiscard]] std::vector<Operand> with_weights(Lowering& lowering, std::vector<Operand> operands,
                                                  const std::vector<Operand>& behind) const {
    if (weighted()) operands.push_back(lowering.input(2));
    operands.insert(operands.end(), behind.begin(), behind.end());
    return operands;
  }

  CircleFunction function_;
};

}  // namespace

SharedLoss Circle(const CircleOptions& options) {
  check_options("Circle", options);
  const CircleFunction function{static_cast<float>(options.gamma),
                                static_cast<float>(options.margin), options.remove_diagonal};
  return make_loss(options.name, TargetForm::labels, [function](bool weighted) {
    return std::make_unique<CircleOperation>(function, weighted);
  });
}

void add_circle(Catalog& catalog) {
  catalog.add<SharedLoss, CircleOptions>("Circle", {"circle"}, Circle);
}

}  // namespace meshwork
