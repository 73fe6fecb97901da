#include "runtime/graph/step/factors.h"

#include <utility>

#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/products.h"
#include "runtime/device/narrowing.h"

namespace meshwork {
namespace {

// Precision is that of products alone: sums that one would take along of rounded numbers have a
// kernel of their own.
void sum_as_stored(StepContext& step, MatmulSpec& product, std::vector<Operand>& operands,
                   const std::string& path) {
  if (product.column_sums && product.precision != Precision::float32) {
    product.column_sums = false;
    step.builder.emit(ColumnSumSpec{product.k, product.n}, {operands[1], operands.back()}, path);
    operands.pop_back();
  }
}

Operand newly_narrowed(StepContext& step, const Operand& wide, std::int64_t count,
                       const std::string& path) {
  const Operand stored = step.builder.scratch(count * bfloat16_bytes, path + " narrow");
  step.builder.emit(NarrowSpec{count}, {wide, stored}, path);
  return stored;
}

Operand narrowed(StepContext& step, NarrowFactors& narrow, const Operand& wide, std::int64_t count,
                 const std::string& path) {
  if (const auto kept = step.narrow_copy_of(wide)) {
    return *kept;
  }
  if (step.is_joined(wide.buffer)) {
    return newly_narrowed(step, wide, count, path);
  }
  auto [at, added] =
      narrow.try_emplace(std::array{std::int64_t{wide.buffer.id}, wide.offset, count});
  if (added) {
    at->second = newly_narrowed(step, wide, count, path);
  }
  return at->second;
}

}  // namespace

void book_kernel(StepContext& step, NarrowFactors& narrow, const KernelSpec& spec,
                 std::vector<Operand> operands, const std::string& path) {
  KernelSpec kernel = spec.in(step.request.precision);
  if (const auto* booked = kernel.get_if<MatmulSpec>()) {
    MatmulSpec product = *booked;
    sum_as_stored(step, product, operands, path);
    if (step.request.device.reads_narrow_operands && product.precision == Precision::bfloat16 &&
        has_terms(product)) {
      product.narrow = true;
      operands[0] = narrowed(step, narrow, operands[0], product.a_count(), path);
      operands[1] = narrowed(step, narrow, operands[1], product.b_count(), path);
    }
    kernel = product;
  }
  step.builder.emit(kernel, std::move(operands), path);
}

}  // namespace meshwork
