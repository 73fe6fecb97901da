// Losses of values as functions (kernels/value_losses.h), for the loops of any device. Bound by
// memory traffic.
#pragma once

#include "runtime/device/bodies/losses.h"
#include "runtime/device/kernels/value_losses.h"

namespace meshwork::bodies {

template <class Math, class Function>
struct ValueTerm {
  Function function;
  MESHWORK_HOST_DEVICE double operator()(float p, float t) const {
    return function.template term<Math>(p, t);
  }
};
template <class Math, class Function>
struct ValueSlope {
  float scale;
  Function function;
  MESHWORK_HOST_DEVICE float operator()(float p, float t) const {
    return scale * function.template slope<Math>(p, t);
  }
};

template <class Loops, class Function>
void add_value_loss(auto& kernels) {
  using Math = typename Loops::Math;
  using Loss = ValueLossSpec<Function>;
  using Slope = ValueSlopeSpec<Function>;
  kernels.template add<Loss>([](const Loss& spec, const auto& context) {
    return sum_of_loss<Loops>(context, spec, ValueTerm<Math, Function>{spec.function});
  });
  kernels.template add<Slope>([](const Slope& spec, const auto& context) {
    return map_two<Loops>(context, spec.count,
                          ValueSlope<Math, Function>{spec.scale, spec.function});
  });
}

template <class Loops>
void add_value_losses(auto& kernels) {
  EveryValueLoss::each(
      [&]<class Function>(const Function&) { add_value_loss<Loops, Function>(kernels); });
}

}  // namespace meshwork::bodies
