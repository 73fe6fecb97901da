// Numbers of categories as columns, for the loops of any device. A thread has a row: categories of
// one column are counted without atomic additions. Bound by the latency of scattered writes.
#pragma once

#include "runtime/device/body_forms.h"
#include "runtime/device/kernels/category_encoding.h"

namespace meshwork::bodies {

template <class T, bool counts>
struct EncodedRow {
  const T* x;
  float* y;
  std::int64_t length, columns;
  T first, end;  // exact in float: categories are fewer than 2^24
  MESHWORK_HOST_DEVICE void operator()(std::int64_t row) const {
    for (std::int64_t i = row * length; i < (row + 1) * length; ++i) {
      if (!(x[i] >= first && x[i] < end)) continue;
      float& of_category = y[row * columns + static_cast<std::int64_t>(x[i] - first)];
      of_category = counts ? of_category + 1.0f : 1.0f;
    }
  }
};
template <class Loops, class T, bool counts>
auto encoded_rows(const CategoryEncodingSpec& spec, const auto& context) {
  return Loops::elements(
      context, spec.rows, 8 * spec.length,
      [length = spec.length, columns = spec.columns, first = static_cast<T>(spec.first),
       end = static_cast<T>(spec.first + spec.columns)](void* const* operands) {
        return EncodedRow<T, counts>{
            at<const T>(operands, 0), at(operands, 1), length, columns, first, end};
      });
}

template <class Loops>
void add_category_encoding(auto& kernels) {
  kernels.template add<CategoryEncodingSpec>(
      [](const CategoryEncodingSpec& spec, const auto& context) {
        if (spec.type == ElementType::int32) {
          return spec.counts ? encoded_rows<Loops, std::int32_t, true>(spec, context)
                             : encoded_rows<Loops, std::int32_t, false>(spec, context);
        }
        return spec.counts ? encoded_rows<Loops, float, true>(spec, context)
                           : encoded_rows<Loops, float, false>(spec, context);
      });
}

}  // namespace meshwork::bodies
