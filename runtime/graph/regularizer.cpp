#include "runtime/graph/regularizer.h"

#include <algorithm>

#include "collectives/error.h"

namespace meshwork {

void check_regularizer(const Regularizer& regularizer, const Shape& shape) {
  if (regularizer.active() && regularizer.name.empty()) fail("a regularizer has no name");
  if (regularizer.sums.empty() != !regularizer.slope) {
    fail("the regularizer \"{}\" has {}; it needs both or neither", regularizer.name,
         regularizer.slope ? "a slope but no sums" : "sums but no slope");
  }
  if (std::ranges::any_of(regularizer.sums, [](const PenaltySum& sum) { return !sum.kernel; })) {
    fail("the regularizer \"{}\" has a sum without a kernel", regularizer.name);
  }
  if (regularizer.whole && (!regularizer.whole->penalty || !regularizer.whole->derivative)) {
    fail("the regularizer \"{}\" has no {} of the whole", regularizer.name,
         regularizer.whole->penalty ? "derivative" : "penalty");
  }
  if (regularizer.check) regularizer.check(shape);
}

}  // namespace meshwork
