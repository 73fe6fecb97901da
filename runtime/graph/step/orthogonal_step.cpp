// Newton and Schulz's iteration, as Keras's Muon has it: X = M / (|M| + 1e-7), then over and over
//
//     A = X X^T    X = a X + (b A + c A A) X
//
// or, of a matrix higher than wide, the same of its transpose: A = X^T X, X = a X + X (b A + c A
// A).
#include "runtime/graph/step/orthogonal_step.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/middle.h"
#include "runtime/device/kernels/norms.h"
#include "runtime/device/kernels/products.h"
#include "runtime/device/narrowing.h"

namespace meshwork {

Operand book_orthogonal(StepContext& step, const ParameterSpan& span, const Operand& matrix,
                        const MatrixSteps& steps) {
  const Variable& variable = step.graph.variables[span.variable];
  const Layout whole = Layout::replicated(2);
  const std::string label = "orthogonal step of " + variable.path;
  const std::int64_t rows = variable.options.shape[0], columns = variable.options.shape[1];
  const std::int64_t count = rows * columns, side = std::min(rows, columns);
  const bool high = rows > columns;
  const auto scratch = [&](std::int64_t elements) {
    return step.builder.scratch(elements * float32_bytes, label);
  };
  const auto emit = [&](const KernelSpec& spec, std::vector<Operand> operands) {
    step.builder.emit(spec, std::move(operands), label);
  };
  const Operand gathered =
      step.move(variable.tensor, matrix, span.layout, whole, std::nullopt, label);
  Operand x = scratch(count), next = scratch(count);
  const Operand a = scratch(side * side), b = scratch(side * side), factor = scratch(1);
  const Buffer square = step.builder.scratch(element_bytes(ElementType::float64), label);
  emit(PowerSumSpec{count, 2}, {gathered, square});
  emit(NormLimitsSpec{.count = 1, .minimum = 1, .maximum = 1}, {square, factor});
  emit(MiddleScaleSpec{{.outer = 1, .middle = count, .inner = 1}}, {gathered, factor, x});
  for (std::int64_t i = 0; i < steps.iterations; ++i) {
    emit(MatmulSpec{.m = side,
                    .n = side,
                    .k = std::max(rows, columns),
                    .transpose_a = high,
                    .transpose_b = !high},
         {x, x, a});
    emit(MatmulSpec{.m = side, .n = side, .k = side}, {a, a, b});
    emit(AffineSpec{side * side, steps.b, 0}, {a, a});
    emit(AffineSpec{side * side, steps.c, 0}, {b, b});
    emit(SumSpec{side * side, 2}, {b, a, b});
    emit(AffineSpec{count, steps.a, 0}, {x, next});
    emit(MatmulSpec{.m = rows, .n = columns, .k = side, .accumulate = true},
         high ? std::vector{x, b, next} : std::vector{b, x, next});
    std::swap(x, next);
  }
  if (steps.size) {
    const auto longer = static_cast<float>(std::max(rows, columns));
    emit(AffineSpec{count, *steps.size * std::sqrt(longer), 0}, {x, x});
  }
  return step.move(variable.tensor, x, whole, span.layout, std::nullopt, label);
}

}  // namespace meshwork
