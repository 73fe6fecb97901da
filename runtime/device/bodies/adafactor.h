// What Adafactor does between its two updates, for the loops of any device. Bound by memory
// traffic.
#pragma once

#include <cmath>

#include "runtime/device/body_forms.h"
#include "runtime/device/kernels/adafactor.h"

namespace meshwork::bodies {

struct OuterProductRow {
  const float* c;  // of the matrix
  float* v;
  float share;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t column, std::int64_t i) const {
    v[i] = share * c[column];
  }
};
struct OuterProduct {
  const float *r, *c, *m;
  float* v;
  std::int64_t rows, columns;
  [[nodiscard]] MESHWORK_HOST_DEVICE OuterProductRow row(std::int64_t row) const {
    const std::int64_t matrix = row / rows;
    return {c + matrix * columns, v, r[row] / m[matrix]};
  }
};
struct RootQuotient {
  const float* v;
  float* g;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    // Squares too small for float32 may have left 0 there.
    if (g[i] != 0.0f) g[i] = g[i] / sqrtf(v[i]);
  }
};
struct RelativeSize {
  const double *of_values, *of_step;
  float* factor;
  double count, least, threshold;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t) const {
    const double size = sqrt(*of_values / count), step = sqrt(*of_step / count) / threshold;
    // Comparisons that let a NaN through.
    *factor = static_cast<float>((size < least ? least : size) / (step < 1.0 ? 1.0 : step));
  }
};

template <class Loops>
void add_adafactor(auto& kernels) {
  kernels.template add<OuterProductSpec>([](const OuterProductSpec& spec, const auto& context) {
    return Loops::grid(context, spec.outer * spec.rows, spec.columns, 8,
                       [=](void* const* operands) {
                         return OuterProduct{at(operands, 0), at(operands, 1), at(operands, 2),
                                             at(operands, 3), spec.rows,       spec.columns};
                       });
  });
  kernels.template add<RootQuotientSpec>([](const RootQuotientSpec& spec, const auto& context) {
    return Loops::elements(context, spec.count, 12, [](void* const* operands) {
      return RootQuotient{at(operands, 0), at(operands, 1)};
    });
  });
  kernels.template add<RelativeSizeSpec>([](const RelativeSizeSpec& spec, const auto& context) {
    return Loops::elements(context, 1, 20, [=](void* const* operands) {
      return RelativeSize{at<const double>(operands, 0),
                          at<const double>(operands, 1),
                          at(operands, 2),
                          static_cast<double>(spec.count),
                          spec.least,
                          spec.threshold};
    });
  });
}

}  // namespace meshwork::bodies
