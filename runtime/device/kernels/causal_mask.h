// Which keys a query of causal attention looks at: those up to its own place, or the last few.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/device/kernels/page.h"

namespace meshwork {

/// y (batches, queries, keys) = x where the key stands at the query's place or before it, and fewer
/// than `window` places before, if that is not 0; else `fill`. The first query and key stand at the
/// given places. May be in place. Operands: x, y.
struct CausalMaskSpec {
  std::int64_t batches = 0, queries = 0, keys = 0;
  std::int64_t first_query = 0, first_key = 0;
  std::int64_t window = 0;
  float fill = 0;
  [[nodiscard]] std::string text() const {
    return spec::sized("causal mask", {batches, queries, keys});
  }
  [[nodiscard]] KernelWork work() const { return spec::rows(batches * queries, 2 * keys); }
};

}  // namespace meshwork
