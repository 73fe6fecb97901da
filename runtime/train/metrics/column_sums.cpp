#include "runtime/train/metrics/column_sums.h"

#include "runtime/device/kernels/elementwise.h"
#include "runtime/graph/operations/dimensions.h"

namespace meshwork {

double ColumnSumsOperation::flops(std::span<const Shape> inputs, const Shape&) const {
  return 6.0 * static_cast<double>(element_count(inputs[0]));
}

std::vector<OwnReduction> ColumnSumsOperation::own_reductions(const Rule& rule) const {
  if (form() == TargetForm::values) return {};
  return {row_reduction(rule, 1, false),
          {std::string(class_letter), "", sum_count() * element_bytes(ElementType::float64)}};
}

void ColumnSumsOperation::forward(Lowering& lowering) const {
  const std::int64_t bytes = element_bytes(ElementType::float64);
  const LocalColumns at = local_columns(lowering);
  const Operand output = lowering.output();
  lowering.emit(ZeroSpec{sum_count() * bytes}, {output});
  emit_(lowering, {.outer = 1, .middle = at.rows, .inner = at.count},
        output.after(3 * at.first, ElementType::float64));
  // What completes a letter of its own leaves nothing partial over it.
  if (form() != TargetForm::values) {
    lowering.all_reduce(class_letter, ElementType::float64, Reduction::sum, output, sum_count(),
                        sum_count(), "sums of columns");
  }
}

}  // namespace meshwork
