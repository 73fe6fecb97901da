// Scores of keys that a query does not look at, replaced. Bound by memory traffic.
#pragma once

#include "runtime/device/body_forms.h"
#include "runtime/device/kernels/causal_mask.h"

namespace meshwork::bodies {

struct CausalMask {
  const float* x;
  float* y;
  std::int64_t queries, first_query, first_key, window;
  float fill;
  struct Row {
    const float* x;
    float* y;
    std::int64_t begin, end;  // of the columns that are kept
    float fill;
    MESHWORK_HOST_DEVICE void operator()(std::int64_t column, std::int64_t i) const {
      y[i] = begin <= column && column < end ? x[i] : fill;
    }
  };
  [[nodiscard]] MESHWORK_HOST_DEVICE Row row(std::int64_t row) const {
    const std::int64_t end = first_query + row % queries + 1 - first_key;
    return {x, y, window > 0 ? end - window : -first_key, end, fill};
  }
};

template <class Loops>
void add_causal_mask(auto& kernels) {
  kernels.template add<CausalMaskSpec>([](const CausalMaskSpec& spec, const auto& context) {
    return Loops::grid(
        context, spec.batches * spec.queries, spec.keys, 8, [=](void* const* operands) {
          return CausalMask{at(operands, 0), at(operands, 1), spec.queries, spec.first_query,
                            spec.first_key,  spec.window,     spec.fill};
        });
  });
}

}  // namespace meshwork::bodies
