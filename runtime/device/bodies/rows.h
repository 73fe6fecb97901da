// Rows of which a rank has a part of the columns: sums, maxima, and the parts of softmax. Sums are
// formed in double. Bound by memory traffic but for the exponential.
#pragma once

#include <cmath>

#include "runtime/device/body_forms.h"
#include "runtime/device/folds.h"
#include "runtime/device/kernels/rows.h"

namespace meshwork::bodies {

struct RowMaximum {
  using Fold = folds::Maximum;
  const float* x;
  float* m;
  [[nodiscard]] MESHWORK_HOST_DEVICE float term(std::int64_t, std::int64_t, std::int64_t i) const {
    return x[i];
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t row, float value) const { m[row] = value; }
};
struct RowSum {
  using Fold = folds::Sum;
  const float* x;
  float* s;
  [[nodiscard]] MESHWORK_HOST_DEVICE float term(std::int64_t, std::int64_t, std::int64_t i) const {
    return x[i];
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t row, double sum) const {
    s[row] = static_cast<float>(sum);
  }
};
struct RowDot {
  using Fold = folds::Sum;
  const float *a, *b;
  float* r;
  [[nodiscard]] MESHWORK_HOST_DEVICE double term(std::int64_t, std::int64_t, std::int64_t i) const {
    return static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t row, double sum) const {
    r[row] = static_cast<float>(sum);
  }
};
template <class Math>
struct RowExponential {
  using Fold = folds::Sum;
  const float *x, *m;
  float *e, *s;
  [[nodiscard]] MESHWORK_HOST_DEVICE auto row(std::int64_t row) const {
    return [x = x, e = e, maximum = m[row]](std::int64_t, std::int64_t i) {
      e[i] = Math::exp(x[i] - maximum);
    };
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE float term(std::int64_t, std::int64_t, std::int64_t i) const {
    return e[i];
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t row, double sum) const {
    s[row] = static_cast<float>(sum);
  }
};
struct RowDivide {
  const float *e, *s;
  float* y;
  [[nodiscard]] MESHWORK_HOST_DEVICE auto row(std::int64_t row) const {
    return [*this, sum = s[row]](std::int64_t, std::int64_t i) { y[i] = e[i] / sum; };
  }
};
struct SoftmaxGradient {
  const float *y, *dy, *r;
  float* dx;
  [[nodiscard]] MESHWORK_HOST_DEVICE auto row(std::int64_t row) const {
    return [*this, dot = r[row]](std::int64_t, std::int64_t i) { dx[i] = y[i] * (dy[i] - dot); };
  }
};

struct RepeatRows {
  const float* x;
  float* y;
  [[nodiscard]] MESHWORK_HOST_DEVICE auto row(std::int64_t) const {
    return [x = x, y = y](std::int64_t column, std::int64_t i) { y[i] = x[column]; };
  }
};

struct UnitRow {
  const float *x, *s;
  float* y;
  float limit;
  [[nodiscard]] MESHWORK_HOST_DEVICE float factor(std::int64_t row) const {
    const float inverse = 1.0f / std::sqrt(s[row]);
    return inverse > limit ? limit : inverse;
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE auto row(std::int64_t row) const {
    return [x = x, y = y, factor = factor(row)](std::int64_t, std::int64_t i) {
      y[i] = x[i] * factor;
    };
  }
};
struct UnitRowGradient {
  UnitRow of;
  const float *dy, *r;
  float* dx;
  [[nodiscard]] MESHWORK_HOST_DEVICE auto row(std::int64_t row) const {
    const float factor = of.factor(row);
    return [y = of.x, dy = dy, dx = dx, factor, dot = factor == of.limit ? 0.0f : r[row]](
               std::int64_t, std::int64_t i) { dx[i] = (dy[i] - y[i] * dot) * factor; };
  }
};

/// Of columns that are split: not `whole`.
template <class Loops>
auto softmax_gradient(const SoftmaxGradientSpec& spec, const auto& context) {
  return Loops::grid(context, spec.rows, spec.columns, 12, [](void* const* operands) {
    return SoftmaxGradient{at(operands, 0), at(operands, 1), at(operands, 2), at(operands, 3)};
  });
}

template <class Loops>
void add_rows(auto& kernels) {
  kernels.template add<RowMaximumSpec>([](const RowMaximumSpec& spec, const auto& context) {
    return Loops::rows(context, spec.rows, spec.columns, 4, [](void* const* operands) {
      return RowMaximum{at(operands, 0), at(operands, 1)};
    });
  });
  kernels.template add<RowSumSpec>([](const RowSumSpec& spec, const auto& context) {
    return Loops::rows(context, spec.rows, spec.columns, 4, [](void* const* operands) {
      return RowSum{at(operands, 0), at(operands, 1)};
    });
  });
  kernels.template add<RowDotSpec>([](const RowDotSpec& spec, const auto& context) {
    return Loops::rows(context, spec.rows, spec.columns, 8, [](void* const* operands) {
      return RowDot{at(operands, 0), at(operands, 1), at(operands, 2)};
    });
  });
  kernels.template add<RowExponentialSpec>([](const RowExponentialSpec& spec, const auto& context) {
    return Loops::rows(context, spec.rows, spec.columns, 16, [](void* const* operands) {
      return RowExponential<typename Loops::Math>{at(operands, 0), at(operands, 1), at(operands, 2),
                                                  at(operands, 3)};
    });
  });
  kernels.template add<RowDivideSpec>([](const RowDivideSpec& spec, const auto& context) {
    return Loops::grid(context, spec.rows, spec.columns, 8, [](void* const* operands) {
      return RowDivide{at(operands, 0), at(operands, 1), at(operands, 2)};
    });
  });
  kernels.template add<RepeatRowsSpec>([](const RepeatRowsSpec& spec, const auto& context) {
    return Loops::grid(context, spec.rows, spec.columns, 8, [](void* const* operands) {
      return RepeatRows{at(operands, 0), at(operands, 1)};
    });
  });
  kernels.template add<UnitRowSpec>([](const UnitRowSpec& spec, const auto& context) {
    return Loops::grid(context, spec.rows, spec.columns, 8, [=](void* const* operands) {
      return UnitRow{at(operands, 0), at(operands, 1), at(operands, 2), spec.limit};
    });
  });
  kernels.template add<UnitRowGradientSpec>(
      [](const UnitRowGradientSpec& spec, const auto& context) {
        return Loops::grid(context, spec.rows, spec.columns, 12, [=](void* const* operands) {
          return UnitRowGradient{{at(operands, 0), at(operands, 2), nullptr, spec.limit},
                                 at(operands, 1),
                                 at(operands, 3),
                                 at(operands, 4)};
        });
      });
}

}  // namespace meshwork::bodies
