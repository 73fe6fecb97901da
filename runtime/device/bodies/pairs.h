// Functions of two tensors, and PReLU, for the loops of any device (body_forms.h). Bound by memory
// traffic, 12 to 16 bytes an element.
#pragma once

#include "runtime/device/body_forms.h"
#include "runtime/device/kernels/pairs.h"

namespace meshwork::bodies {

/// Whether function(a, b) is a.
template <PairFunction function>
[[nodiscard]] MESHWORK_HOST_DEVICE bool takes_first(float a, float b) {
  return (function == PairFunction::maximum ? a >= b : a <= b) || a != a;
}
template <PairFunction function>
struct OfPair {
  MESHWORK_HOST_DEVICE float operator()(float a, float b) const {
    if constexpr (function == PairFunction::product) {
      return a * b;
    } else if constexpr (function == PairFunction::difference) {
      return a - b;
    } else {
      return takes_first<function>(a, b) ? a : b;
    }
  }
};
template <PairFunction function, bool first>
struct PairGradient {
  const float *a, *b, *dy;
  float* dx;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    dx[i] = takes_first<function>(a[i], b[i]) == first ? dy[i] : 0.0f;
  }
};
struct ColumnScale {
  const float *x, *factor;
  float* y;
  [[nodiscard]] MESHWORK_HOST_DEVICE auto row(std::int64_t) const {
    return [*this](std::int64_t column, std::int64_t i) { y[i] = x[i] * factor[column]; };
  }
};
struct Slope {
  const float *x, *slope;
  float* y;
  [[nodiscard]] MESHWORK_HOST_DEVICE auto row(std::int64_t) const {
    return [*this](std::int64_t column, std::int64_t i) {
      y[i] = x[i] > 0.0f ? x[i] : slope[column] * x[i];
    };
  }
};
struct SlopeGradient {
  const float *x, *slope, *dy;
  float* dx;
  [[nodiscard]] MESHWORK_HOST_DEVICE auto row(std::int64_t) const {
    return [*this](std::int64_t column, std::int64_t i) {
      dx[i] = x[i] > 0.0f ? dy[i] : slope[column] * dy[i];
    };
  }
};
struct SlopeTerm {
  MESHWORK_HOST_DEVICE float operator()(float x, float dy) const {
    return x > 0.0f ? 0.0f : x * dy;
  }
};

template <class Loops>
void add_pairs(auto& kernels) {
  kernels.template add<PairSpec>([](const PairSpec& spec, const auto& context) {
    const auto map = [&](auto f) { return map_two<Loops>(context, spec.count, f); };
    switch (spec.function) {
      case PairFunction::product:
        return map(OfPair<PairFunction::product>{});
      case PairFunction::difference:
        return map(OfPair<PairFunction::difference>{});
      case PairFunction::maximum:
        return map(OfPair<PairFunction::maximum>{});
      case PairFunction::minimum:
        break;
    }
    return map(OfPair<PairFunction::minimum>{});
  });
  kernels.template add<PairGradientSpec>([](const PairGradientSpec& spec, const auto& context) {
    const auto map = [&]<class Body>(Body) {
      return Loops::elements(context, spec.count, 16, [](void* const* operands) {
        return Body{at(operands, 0), at(operands, 1), at(operands, 2), at(operands, 3)};
      });
    };
    if (spec.function == PairFunction::maximum) {
      return spec.first ? map(PairGradient<PairFunction::maximum, true>{})
                        : map(PairGradient<PairFunction::maximum, false>{});
    }
    return spec.first ? map(PairGradient<PairFunction::minimum, true>{})
                      : map(PairGradient<PairFunction::minimum, false>{});
  });
  kernels.template add<ColumnScaleSpec>([](const ColumnScaleSpec& spec, const auto& context) {
    return Loops::grid(context, spec.rows, spec.columns, 8, [](void* const* operands) {
      return ColumnScale{at(operands, 0), at(operands, 1), at(operands, 2)};
    });
  });
  kernels.template add<SlopeSpec>([](const SlopeSpec& spec, const auto& context) {
    return Loops::grid(context, spec.rows, spec.columns, 8, [](void* const* operands) {
      return Slope{at(operands, 0), at(operands, 1), at(operands, 2)};
    });
  });
  kernels.template add<SlopeGradientSpec>([](const SlopeGradientSpec& spec, const auto& context) {
    return Loops::grid(context, spec.rows, spec.columns, 12, [](void* const* operands) {
      return SlopeGradient{at(operands, 0), at(operands, 1), at(operands, 2), at(operands, 3)};
    });
  });
  kernels.template add<SlopeTermSpec>([](const SlopeTermSpec& spec, const auto& context) {
    return map_two<Loops>(context, spec.count, SlopeTerm{});
  });
}

}  // namespace meshwork::bodies
