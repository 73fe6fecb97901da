// The operations that a step books again for backward (walk.h).
#pragma once

#include <string>
#include <vector>

#include "runtime/graph/plan.h"

namespace meshwork {

/// Operations that stand one after the other, of one layer or block.
struct RecomputedSpan {
  std::size_t first = 0, last = 0;
  /// Those whose outputs nobody beyond the span takes, in order. The others' outputs stay.
  std::vector<std::size_t> operations;
};

/// The pattern that means every block, which is what layers stand within.
inline constexpr const char* all_blocks = "blocks";

/// The spans of the layers and blocks whose paths `pattern` matches, whole; none for "". `all_blocks` is no path but
/// where the model has it. Of blocks within blocks the outermost counts; each call of a layer is a span of its own.
/// Throws `Error` for a pattern that is malformed or matches nothing.
[[nodiscard]] std::vector<RecomputedSpan> recomputed_spans(const Plan& plan,
                                                           const std::string& pattern);

}  // namespace meshwork
