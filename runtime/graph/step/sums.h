// StepSums: the float64 sums of a step, and the one reduction that completes them.
//
// Losses and metrics are sums over the global batch: those of its micro-batches, added in order.
// A sum that an operation reads, such as the number of rows over which a loss is a mean, is *early*:
// it is complete, over micro-batches and ranks, before anything else is computed.
// The penalty of the regularizers is a sum over whole variables, that of activity the mean over the
// batch. The squared norm of the gradients, where it is reported, is a sum over whole gradients.
// Prediction has none of them. Each rank writes its part, or zero where another rank counts the
// same part, into one row of scalars, which is reduced once, at the end of the step.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/graph/step/context.h"
#include "runtime/graph/step/whole_penalty.h"

namespace meshwork {

class StepSums {
 public:
  explicit StepSums(StepContext& step);

  /// Where the operation that computes the sum `id` of the micro-batch at hand writes it.
  [[nodiscard]] Operand place_of(TensorId id) const;

  /// Whether an operation reads the sum `id`.
  [[nodiscard]] bool is_early(TensorId id) const {
    return !step_.graph.tensors[id].consumers.empty();
  }
  /// Where the early sum `id` is, of all micro-batches, which have written theirs: this rank's part.
  [[nodiscard]] Operand fold(TensorId id);

  /// What operation `planned` gave is `value`: if it is penalized, that joins the penalty.
  void penalize(const PlannedOperation& planned, const Operand& value);
  /// After forward of a micro-batch: zeros the sums that another rank counts, and books what is
  /// penalized.
  void settle();
  /// What the penalty of the whole of variable `variable` has left for its gradient; null: it has none.
  [[nodiscard]] const WholePenalty* whole_penalty(int variable) const {
    const auto found = whole_.find(variable);
    return found == whole_.end() ? nullptr : &found->second;
  }
  /// Where the update writes this rank's part of the squared norm of the gradients.
  [[nodiscard]] Operand place_of_gradient_norm() const;
  /// After `settle`: whether this rank counts what lies as `layout`.
  [[nodiscard]] bool counts(const Layout& layout) const { return step_.counts(axes_, layout); }
  /// At the end of the step: the sum of micro-batches, and the reduction over ranks.
  void reduce();

  /// All sums, as LoweredStep::sums.
  [[nodiscard]] Buffer buffer() const { return sums_; }
  [[nodiscard]] std::vector<TensorId> tensors() const;
  /// How many numbers those are.
  [[nodiscard]] std::int64_t own_count() const;
  [[nodiscard]] bool has_penalty() const { return has_penalty_; }
  [[nodiscard]] bool has_gradient_norm() const { return has_gradient_norm_; }

 private:
  [[nodiscard]] std::int64_t count() const;
  void find_axes();
  void book_penalties();

  // What an operation sums up: so many numbers, behind those of others.
  struct Sum {
    TensorId tensor;
    std::int64_t first, count;
  };
  [[nodiscard]] Operand place_of(const Sum& sum) const;
  [[nodiscard]] const Sum& sum_of(TensorId id) const;
  [[nodiscard]] Operand folded(const Sum& sum) const {
    return Operand(sums_).after(sum.first, ElementType::float64);
  }
  void book_fold(const Sum& sum);
  void zero_unless_counted(const Sum& sum, Operand place);

  // A term of the penalty: `factor` times the sum of what lies so.
  struct Penalized {
    double factor;
    KernelSpec sum;
    Operand values;
    Layout layout;
    std::string path;
  };

  StepContext& step_;
  std::vector<Sum> own_;
  std::vector<Penalized> activity_;    // of the micro-batch at hand
  std::map<int, WholePenalty> whole_;  // by variable
  bool has_penalty_ = false;
  bool has_gradient_norm_ = false;
  Buffer sums_;
  Buffer parts_;   // of each own sum in turn those of micro-batches, if there are several
  Buffer powers_;  // what is penalized, a number a term
  std::vector<double> factors_;  // of the terms
  std::vector<Axis> axes_;       // over which some sum is partial
};

}  // namespace meshwork
