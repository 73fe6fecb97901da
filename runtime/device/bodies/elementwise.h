// Kernels that compute each element by itself, for the loops of any device (body_forms.h). They are bound
// by memory traffic, 8 to 12 bytes an element; on processors, activations that need an exponential
// are bound by that.
#pragma once

#include "runtime/device/body_forms.h"
#include "runtime/device/element_functions.h"
#include "runtime/device/kernels/copies.h"
#include "runtime/device/kernels/norms.h"
#include "runtime/device/kernels/products.h"

namespace meshwork::bodies {

template <class Function>
struct BiasAdd {
  const float *x, *bias;
  float* y;
  Function f;
  [[nodiscard]] MESHWORK_HOST_DEVICE auto row(std::int64_t) const {
    return [*this](std::int64_t column, std::int64_t i) { y[i] = f(x[i] + bias[column]); };
  }
};
template <class From, class To, class Function>
struct Gather {
  const From* const* table;
  const std::int64_t* rows;
  To* y;
  std::int64_t columns;
  Function f;
  [[nodiscard]] MESHWORK_HOST_DEVICE auto row(std::int64_t row) const {
    return [from = *table + rows[row] * columns, y = y, f = f](
               std::int64_t column, std::int64_t i) { y[i] = f(from[column]); };
  }
};
struct ScaleBy {
  const float* factor;
  float* x;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const { x[i] *= *factor; }
};
struct Clamp {
  float* x;
  float limit;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    const float raised = x[i] < -limit ? -limit : x[i];
    x[i] = raised > limit ? limit : raised;
  }
};
struct PenaltyGradient {
  const float* w;
  float* dw;
  float l1, twice_l2;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    const float sign = w[i] > 0.0f ? 1.0f : (w[i] < 0.0f ? -1.0f : 0.0f);
    dw[i] += l1 * sign + twice_l2 * w[i];
  }
};

template <class Loops>
void add_elementwise(auto& kernels) {
  using Math = typename Loops::Math;
  kernels.template add<ActivationSpec>([](const ActivationSpec& spec, const auto& context) {
    return with_activation<Math>(spec.activation, spec.alpha,
                                 [&](auto f) { return map_one<Loops>(context, spec.count, f); });
  });
  kernels.template add<ActivationGradientSpec>(
      [](const ActivationGradientSpec& spec, const auto& context) {
        return with_activation<Math>(spec.activation, spec.alpha, [&](auto f) {
          using F = decltype(f);
          return spec.divisor == 1.0f
                     ? map_two<Loops>(context, spec.count, GradientOf<F>{f})
                     : map_two<Loops>(context, spec.count, GradientOfDivided<F>{f, spec.divisor});
        });
      });
  kernels.template add<RectifySpec>([](const RectifySpec& spec, const auto& context) {
    return spec.rectifier.slope == 0.0f
               ? map_one<Loops>(context, spec.count, Rectified<false>{spec.rectifier})
               : map_one<Loops>(context, spec.count, Rectified<true>{spec.rectifier});
  });
  kernels.template add<RectifyGradientSpec>(
      [](const RectifyGradientSpec& spec, const auto& context) {
        return map_two<Loops>(context, spec.count, RectifiedGradient{spec.rectifier});
      });
  kernels.template add<AffineSpec>([](const AffineSpec& spec, const auto& context) {
    return map_one<Loops>(context, spec.count, ScaledAndShifted{spec.scale, spec.offset});
  });
  kernels.template add<ConvertSpec>([](const ConvertSpec& spec, const auto& context) {
    return with_conversion(spec, [&](auto from, auto f) {
      return map_one<Loops, decltype(from)>(context, spec.count, f);
    });
  });
  kernels.template add<BiasAddSpec>([](const BiasAddSpec& spec, const auto& context) {
    return with_activation<Math>(spec.activation, 1.0f, [&](auto f) {
      return Loops::grid(context, spec.rows, spec.columns, 8, [=](void* const* operands) {
        return BiasAdd<decltype(f)>{at(operands, 0), at(operands, 1), at(operands, 2), f};
      });
    });
  });
  kernels.template add<GatherSpec>([](const GatherSpec& spec, const auto& context) {
    return with_conversion(spec, [&](auto from, auto f) {
      using From = decltype(from);
      using To = decltype(f(from));
      return Loops::grid(
          context, spec.rows, spec.columns, sizeof(From) + sizeof(To), [=](void* const* operands) {
            return Gather<From, To, decltype(f)>{at<const From* const>(operands, 0),
                                                 at<const std::int64_t>(operands, 1),
                                                 at<To>(operands, 2), spec.columns, f};
          });
    });
  });
  kernels.template add<ScaleBySpec>([](const ScaleBySpec& spec, const auto& context) {
    return Loops::elements(context, spec.count, 8, [](void* const* operands) {
      return ScaleBy{at(operands, 0), at(operands, 1)};
    });
  });
  kernels.template add<ClampSpec>([](const ClampSpec& spec, const auto& context) {
    return Loops::elements(context, spec.count, 8, [limit = spec.limit](void* const* operands) {
      return Clamp{at(operands, 0), limit};
    });
  });
  kernels.template add<PenaltyGradientSpec>(
      [](const PenaltyGradientSpec& spec, const auto& context) {
        return Loops::elements(context, spec.count, 12, [=](void* const* operands) {
          return PenaltyGradient{at(operands, 0), at(operands, 1), spec.l1, 2 * spec.l2};
        });
      });
}

}  // namespace meshwork::bodies
