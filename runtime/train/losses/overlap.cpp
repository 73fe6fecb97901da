#include "runtime/train/losses/overlap.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "collectives/error.h"
#include "runtime/config/float_range.h"
#include "runtime/device/kernels/overlap.h"
#include "runtime/graph/lowering.h"
#include "runtime/train/from_config.h"
#include "runtime/train/losses/comparison.h"

namespace meshwork {

template <class Visitor>
void describe(DiceOptions& options, Visitor& option) {
  option.about("1 - overlap of predictions and targets, for segmentation");
  option("axis", options.axis, "neighbouring dimensions that are summed; without, all of them");
  option("name", options.name, "name in the logs");
}

template <class Visitor>
void describe(TverskyOptions& options, Visitor& option) {
  option.about("1 - overlap of predictions and targets, with a weight for each kind of error");
  option("alpha", options.alpha, float_not_negative, "weight of false negatives");
  option("beta", options.beta, float_not_negative, "weight of false positives");
  option("axis", options.axis, "neighbouring dimensions that are summed; without, all of them");
  option("name", options.name, "name in the logs");
}

namespace {

using Dimensions = std::optional<std::vector<std::int64_t>>;

class OverlapOperation final : public ComparisonOperation {
 public:
  OverlapOperation(std::string kind, Dimensions axis, OverlapFunction function, bool weighted)
      : ComparisonOperation(std::move(kind), TargetForm::values, weighted),
        axis_(std::move(axis)),
        function_(function) {}

  double flops(std::span<const Shape> inputs, const Shape&) const override {
    return 10.0 * static_cast<double>(element_count(inputs[0]));
  }
  std::vector<OwnReduction> own_reductions(const Rule& rule) const override {
    std::string kept = rule.inputs[0];
    std::erase_if(kept, [&](char letter) { return rule.own.find(letter) != std::string::npos; });
    return {{rule.own, kept, 3 * element_bytes(ElementType::float64)}};
  }

  void forward(Lowering& lowering) const override {
    const Extents at = extents(lowering.local_shape(0));
    const Operand sums = sums_of(lowering, at);
    const std::vector<Operand> compared{lowering.input(0), lowering.input(1)};
    if (at.folded) {
      const Operand pieces =
          lowering.scratch("overlaps of samples", at.pieces() * 3, ElementType::float64);
      lowering.emit(OverlapSumsSpec{at.middle}, {compared[0], compared[1], pieces});
      lowering.emit(FoldedSumsSpec{at.middle.outer, at.middle.inner * 3}, {pieces, sums});
    } else {
      lowering.emit(OverlapSumsSpec{at.middle}, {compared[0], compared[1], sums});
    }
    const double results = global_results(lowering);
    lowering.all_reduce(own_letters(letters_of(lowering.global_shape(0))), ElementType::float64,
                        Reduction::sum, sums, at.results() * 3,
                        static_cast<std::int64_t>(results) * 3, "overlaps");
    const double rows = row_count(lowering.global_shape(0));
    lowering.emit(OverlapLossSpec{at.results(), function_, results > 0 ? rows / results : 0,
                                  results_a_weight(lowering, at)},
                  with_weights(lowering, {sums}, lowering.output()));
  }

  void backward(Lowering& lowering) const override {
    if (!lowering.needs_gradient(0)) return;
    const Extents at = extents(lowering.local_shape(0));
    const double results = global_results(lowering);
    lowering.emit(
        OverlapGradientSpec{at.middle, function_,
                            static_cast<float>(results > 0 ? lowering.loss_weight() / results : 0),
                            at.folded, results_a_weight(lowering, at)},
        with_weights(lowering, {lowering.input(1), sums_of(lowering, at)},
                     lowering.input_gradient(0)));
  }

 protected:
  std::string own_letters(const std::string& letters) const override {
    const auto [first, last] = summed(letters.size());
    return letters.substr(first, last - first + 1);
  }

 private:
  // The middle is summed; of a batch that is summed too, by sample first, so that samples are
  // worked on side by side.
  struct Extents {
    MiddleExtents middle;
    bool folded = false;
    [[nodiscard]] std::int64_t pieces() const { return middle.outer * middle.inner; }
    [[nodiscard]] std::int64_t results() const { return folded ? middle.inner : pieces(); }
  };

  // The first and the last dimension that is summed.
  [[nodiscard]] std::pair<std::size_t, std::size_t> summed(std::size_t dimensions) const {
    if (!axis_) return {0, dimensions - 1};
    std::vector<std::int64_t> sorted;
    const auto count = static_cast<std::int64_t>(dimensions);
    for (const std::int64_t one : *axis_) {
      if (one < -count || one >= count) {
        fail("axis: predictions of {} dimensions have no dimension {}", count, one);
      }
      sorted.push_back(one < 0 ? one + count : one);
    }
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 1; i < sorted.size(); ++i) {
      if (sorted[i] != sorted[i - 1] + 1) {
        fail("axis: expected neighbouring dimensions, found {} and {}", sorted[i - 1], sorted[i]);
      }
    }
    if (weighted() && sorted.front() == 0) refuse_weights();
    return {static_cast<std::size_t>(sorted.front()), static_cast<std::size_t>(sorted.back())};
  }

  [[noreturn]] void refuse_weights() const {
    fail(
        "the loss \"{}\" has one value for a whole batch, in which no sample has a weight; sum "
        "over "
        "the dimensions of a sample alone (axis: [1, ...])",
        kind());
  }

  [[nodiscard]] Extents extents(const Shape& shape) const {
    const auto [first, last] = summed(shape.size());
    const auto product = [&](std::size_t begin, std::size_t end) {
      std::int64_t count = 1;
      for (std::size_t d = begin; d < end; ++d) count *= shape[d];
      return count;
    };
    const bool folded = first == 0;
    const std::size_t begin = folded ? 1 : first;
    return {{.outer = product(0, begin),
             .middle = product(begin, last + 1),
             .inner = product(std::max(begin, last + 1), shape.size())},
            folded};
  }
  [[nodiscard]] double global_results(const Lowering& lowering) const {
    return static_cast<double>(extents(lowering.global_shape(0)).results());
  }
  static Operand sums_of(Lowering& lowering, const Extents& at) {
    return lowering.scratch("overlaps", at.results() * 3, ElementType::float64);
  }
  [[nodiscard]] std::int64_t results_a_weight(const Lowering& lowering, const Extents& at) const {
    if (!weighted()) return 0;
    if (at.folded) refuse_weights();
    if (lowering.block(2).size() > 1) {
      fail("the loss \"{}\" takes a weight for each sample, not for parts of one", kind());
    }
    const std::int64_t samples = lowering.local_shape(0).front();
    return samples > 0 ? std::max<std::int64_t>(at.results() / samples, 1) : 1;
  }
  std::vector<Operand> with_weights(Lowering& lowering, std::vector<Operand> operands,
                                    const Operand& result) const {
    if (weighted()) operands.push_back(lowering.input(2));
    operands.push_back(result);
    return operands;
  }

  Dimensions axis_;
  OverlapFunction function_;
};

template <class Options>
SharedLoss overlap_loss(const char* class_name, const char* kind, const Options& options,
                        const OverlapFunction& function) {
  check_options(class_name, options);
  if (options.axis && options.axis->empty()) {
    fail("{}: axis: expected dimensions, found none", class_name);
  }
  return make_loss(options.name, TargetForm::values,
                   [kind, axis = options.axis, function](bool weighted) {
                     return std::make_unique<OverlapOperation>(kind, axis, function, weighted);
                   });
}

constexpr double epsilon = 1e-7;  // Keras's

}  // namespace

SharedLoss Dice(const DiceOptions& options) {
  // Half of what is below, and so of epsilon.
  return overlap_loss("Dice", "dice", options, {0.5, 0.5, epsilon / 2});
}

SharedLoss Tversky(const TverskyOptions& options) {
  return overlap_loss("Tversky", "tversky", options, {options.alpha, options.beta, epsilon});
}

void add_overlap(Catalog& catalog) {
  catalog.add<SharedLoss, DiceOptions>("Dice", {"dice"}, Dice);
  catalog.add<SharedLoss, TverskyOptions>("Tversky", {"tversky"}, Tversky);
}

}  // namespace meshwork
