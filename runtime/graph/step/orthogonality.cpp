#include "runtime/graph/step/orthogonality.h"

#include <string>
#include <vector>

#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/middle.h"
#include "runtime/device/kernels/norms.h"
#include "runtime/device/kernels/pairs.h"
#include "runtime/device/kernels/products.h"
#include "runtime/device/narrowing.h"

namespace meshwork {
namespace {

// A variable as so many vectors.
struct Vectors {
  bool are_rows;
  std::int64_t rows, columns;

  explicit Vectors(const Variable& variable)
      : are_rows(variable.options.regularizer.of_rows),
        rows(variable.options.shape[0]),
        columns(variable.options.shape[1]) {}
  [[nodiscard]] std::int64_t count() const { return are_rows ? rows : columns; }
  [[nodiscard]] std::int64_t length() const { return are_rows ? columns : rows; }
  [[nodiscard]] std::int64_t elements() const { return rows * columns; }
  [[nodiscard]] MiddleExtents extents() const {
    return are_rows ? MiddleExtents{.outer = rows, .middle = columns, .inner = 1}
                    : MiddleExtents{.outer = 1, .middle = rows, .inner = columns};
  }
};

std::string label_of(const Variable& variable) {
  return variable.path + " penalty";
}

}  // namespace

double factor_of_orthogonality(const Variable& variable) {
  const auto n = static_cast<double>(Vectors(variable).count());
  const double pairs = n * (n - 1) / 2;
  return pairs > 0 ? 0.5 * static_cast<double>(variable.options.regularizer.orthogonal) / pairs : 0;
}

Orthogonality book_orthogonality(StepContext& step, const ParameterSpan& span) {
  const Variable& variable = step.graph.variables[span.variable];
  const std::string label = label_of(variable);
  const Vectors of(variable);
  const std::int64_t n = of.count();
  const auto scratch = [&](std::int64_t elements, ElementType type = ElementType::float32) {
    return step.builder.scratch(elements * element_bytes(type), label);
  };
  const Operand w = step.move(variable.tensor, step.value_of(span.variable), span.layout,
                              Layout::replicated(2), std::nullopt, label);
  const Operand squares = scratch(n, ElementType::float64);
  const Orthogonality left{scratch(n), scratch(of.elements()), scratch(n * n), n};
  step.builder.emit(MiddleSquaresSpec{of.extents()}, {w, squares}, label);
  step.builder.emit(NormLimitsSpec{.count = n, .minimum = 1, .maximum = 1}, {squares, left.inverse},
                    label);
  step.builder.emit(MiddleScaleSpec{of.extents()}, {w, left.inverse, left.units}, label);
  step.builder.emit(MatmulSpec{.m = n,
                               .n = n,
                               .k = of.length(),
                               .transpose_a = !of.are_rows,
                               .transpose_b = of.are_rows},
                    {left.units, left.units, left.products}, label);
  step.builder.emit(ZeroDiagonalSpec{n}, {left.products}, label);
  return left;
}

// du_i = 2 factor * the sum of sign(u_i u_j) u_j over j; dw_i = (du_i - u_i (u_i du_i)) / |w_i|.
void book_orthogonality_gradient(StepContext& step, const ParameterSpan& span,
                                 const Orthogonality& of) {
  const Variable& variable = step.graph.variables[span.variable];
  const std::string label = label_of(variable);
  const Vectors vectors(variable);
  const std::int64_t n = of.vectors, elements = vectors.elements();
  const auto scratch = [&](std::int64_t count) {
    return step.builder.scratch(count * float32_bytes, label);
  };
  const auto emit = [&](const KernelSpec& spec, std::vector<Operand> operands) {
    step.builder.emit(spec, std::move(operands), label);
  };
  const Operand signs = scratch(n * n), du = scratch(elements), along = scratch(elements),
                shares = scratch(n);
  emit(ZeroSpec{n * n * float32_bytes}, {signs});
  emit(PenaltyGradientSpec{n * n, static_cast<float>(2 * factor_of_orthogonality(variable)), 0},
       {of.products, signs});
  emit(MatmulSpec{.m = vectors.rows, .n = vectors.columns, .k = n},
       vectors.are_rows ? std::vector{signs, of.units, du} : std::vector{of.units, signs, du});
  emit(PairSpec{PairFunction::product, elements}, {of.units, du, along});
  emit(MiddleSumSpec{vectors.extents()}, {along, shares});
  emit(MiddleScaleSpec{vectors.extents()}, {of.units, shares, along});
  emit(PairSpec{PairFunction::difference, elements}, {du, along, du});
  emit(MiddleScaleSpec{vectors.extents()}, {du, of.inverse, du});
  const Operand own =
      step.move(variable.tensor, du, Layout::replicated(2), span.layout, std::nullopt, label);
  const Operand gradient = step.gradient_of(span.variable);
  emit(SumSpec{span.count, 2}, {gradient, own, gradient});
}

}  // namespace meshwork
