// Metrics of columns: three sums of each column of predictions and targets, of which each rank
// gives those of its columns, and zeros for others.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "runtime/device/kernels/middle.h"
#include "runtime/train/losses/comparison.h"

namespace meshwork {

class ColumnSumsOperation final : public ComparisonOperation {
 public:
  /// Books the kernels that write `sums` (columns of this rank, 3) of (1, rows, columns).
  using Emit =
      std::function<void(Lowering& lowering, const MiddleExtents& at, const Operand& sums)>;

  /// Of `form` weights the kernels may reduce the largest of rows over the classes.
  ColumnSumsOperation(std::string kind, TargetForm form, std::int64_t columns, Emit emit)
      : ComparisonOperation(std::move(kind), form), columns_(columns), emit_(std::move(emit)) {}

  std::int64_t sum_count() const override { return 3 * columns_; }
  double flops(std::span<const Shape> inputs, const Shape& output) const override;
  std::vector<OwnReduction> own_reductions(const Rule& rule) const override;
  void forward(Lowering& lowering) const override;
  void backward(Lowering& lowering) const override { give_no_gradient(lowering); }

 private:
  std::int64_t columns_;
  Emit emit_;
};

}  // namespace meshwork
