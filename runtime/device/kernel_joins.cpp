#include "runtime/device/kernel_joins.h"

#include <algorithm>
#include <iterator>

#include "runtime/device/kernels/classes.h"

namespace meshwork {

namespace {

/// Whether two comparisons are of the same rows, but for smoothing and weights of rows, which only a
/// loss has.
bool same_rows(const BookedKernel& a, const BookedKernel& b) {
  ClassColumns of_a = a.spec.get_if<ClassComparisonSpec>()->at;
  const ClassColumns& of_b = b.spec.get_if<ClassComparisonSpec>()->at;
  of_a.smoothing = of_b.smoothing;
  of_a.rows_a_weight = of_b.rows_a_weight;
  return of_a == of_b && std::equal(a.operands.begin(), a.operands.begin() + 2, b.operands.begin());
}

std::optional<BookedKernel> joined_comparisons(const BookedKernel& first,
                                               const BookedKernel& next) {
  const auto& a = *first.spec.get_if<ClassComparisonSpec>();
  const auto& b = *next.spec.get_if<ClassComparisonSpec>();
  const bool a_loses = a.crossentropy != Crossentropy::none;
  const bool b_loses = b.crossentropy != Crossentropy::none;
  if ((a_loses && b_loses) || !same_rows(first, next)) return std::nullopt;
  ClassComparisonSpec both = b_loses ? b : a;
  both.within = a.within;
  both.within.insert(both.within.end(), b.within.begin(), b.within.end());
  // The loss and its gradient, whose they are, then the numbers of both.
  std::vector<Operand> operands = (b_loses ? next : first).operands;
  operands.resize(operands.size() - (b_loses ? b : a).within.size());
  for (const BookedKernel* one : {&first, &next}) {
    const auto& numbers = one->spec.get_if<ClassComparisonSpec>()->within;
    operands.insert(operands.end(), std::prev(one->operands.end(), std::ssize(numbers)),
                    one->operands.end());
  }
  return BookedKernel{std::move(both), std::move(operands)};
}

}  // namespace

std::optional<BookedKernel> joined(const BookedKernel& first, const BookedKernel& next) {
  const bool both_compare = first.spec.get_if<ClassComparisonSpec>() != nullptr &&
                            next.spec.get_if<ClassComparisonSpec>() != nullptr;
  return both_compare ? joined_comparisons(first, next) : std::nullopt;
}

}  // namespace meshwork
