#include "runtime/device/kernel_joins.h"

#include <algorithm>
#include <iterator>
#include <variant>

namespace meshwork {

namespace {

/// Whether two comparisons are of the same rows, but for the smoothing, which only a loss has.
bool same_rows(const BookedKernel& a, const BookedKernel& b) {
  ClassColumns of_a = std::get<ClassComparisonSpec>(a.spec).at;
  const ClassColumns& of_b = std::get<ClassComparisonSpec>(b.spec).at;
  of_a.smoothing = of_b.smoothing;
  return of_a == of_b && std::equal(a.operands.begin(), a.operands.begin() + 2, b.operands.begin());
}

std::optional<BookedKernel> joined_comparisons(const BookedKernel& first,
                                               const BookedKernel& next) {
  const auto& a = std::get<ClassComparisonSpec>(first.spec);
  const auto& b = std::get<ClassComparisonSpec>(next.spec);
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
    const auto& numbers = std::get<ClassComparisonSpec>(one->spec).within;
    operands.insert(operands.end(), std::prev(one->operands.end(), std::ssize(numbers)),
                    one->operands.end());
  }
  return BookedKernel{std::move(both), std::move(operands)};
}

}  // namespace

std::optional<BookedKernel> joined(const BookedKernel& first, const BookedKernel& next) {
  if (std::holds_alternative<ClassComparisonSpec>(first.spec) &&
      std::holds_alternative<ClassComparisonSpec>(next.spec)) {
    return joined_comparisons(first, next);
  }
  return std::nullopt;
}

}  // namespace meshwork
