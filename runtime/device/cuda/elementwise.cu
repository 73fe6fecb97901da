// Kernels that compute each element by itself: a thread an element, blocks of 256 over the whole
// GPU. Bound by memory traffic, 8 to 12 bytes an element; the activations that need an exponential
// are too.
#include "runtime/device/cuda/functions.h"
#include "runtime/device/cuda/maps.h"
#include "runtime/device/kernels/copies.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/norms.h"
#include "runtime/device/kernels/products.h"
#include "runtime/device/narrowing.h"
#include "runtime/device/with_type.h"

namespace meshwork::cuda {

namespace {

/// make(f) with the function of `activation`.
template <class Make>
KernelPointer with_activation(Activation activation, const Make& make) {
  switch (activation) {
    case Activation::relu:
      return make(Relu{});
    case Activation::gelu:
      return make(Gelu{});
    case Activation::sigmoid:
      return make(Sigmoid{});
    case Activation::tanh:
      return make(Tanh{});
    case Activation::linear:
    case Activation::softmax:  // refused before
      break;
  }
  return make(Linear{});
}

template <class Function>
struct BiasAdd {
  const float *x, *bias;
  float* y;
  std::int64_t columns;
  Function f;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = f(x[i] + bias[i % columns]); }
};

/// A gradient f(value, dy) of dy divided; by 1, that is dy itself.
template <class Gradient>
struct OfDivided {
  Gradient f;
  float divisor;
  MESHWORK_HOST_DEVICE float operator()(float value, float dy) const {
    return f(value, dy / divisor);
  }
};

struct Rectified {
  Rectifier r;
  MESHWORK_HOST_DEVICE float operator()(float x) const {
    // Without a slope by itself, since 0 * -infinity is no 0.
    if (x <= r.threshold) return r.slope == 0.0f ? 0.0f : r.slope * (x - r.threshold);
    return x >= r.limit ? r.limit : x;
  }
};
struct RectifiedGradient {
  Rectifier r;
  MESHWORK_HOST_DEVICE float operator()(float x, float dy) const {
    return x <= r.threshold ? r.slope * dy : (x >= r.limit ? 0.0f : dy);
  }
};
struct ScaledAndShifted {
  float scale, offset;
  MESHWORK_HOST_DEVICE float operator()(float x) const { return x * scale + offset; }
};

/// What is scaled and shifted where it is converted, if it is.
struct Scaling {
  bool scales;
  ScaledAndShifted f;
  MESHWORK_HOST_DEVICE float operator()(float x) const { return scales ? f(x) : x; }
};
Scaling scaling_of(const auto& spec) {
  return {spec.scale != 1.0f || spec.offset != 0.0f, {spec.scale, spec.offset}};
}

template <class From>
struct Convert {
  const From* x;
  float* y;
  Scaling scaled;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    y[i] = scaled(static_cast<float>(x[i]));
  }
};

struct Narrow {
  const float* x;
  std::uint16_t* y;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = narrowed(x[i]); }
};

template <class From>
struct Gather {
  const From* const* table;
  const std::int64_t* rows;
  float* y;
  std::int64_t columns;
  Scaling scaled;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    y[i] = scaled(static_cast<float>((*table)[rows[i / columns] * columns + i % columns]));
  }
};

template <class From>
KernelPointer convert(const Context& context, const ConvertSpec& spec) {
  return make_kernel([=, launcher = context.launcher](void* const* operands) {
    for_elements(launcher, spec.count,
                 Convert<From>{at<const From>(operands, 0), at(operands, 1), scaling_of(spec)});
  });
}

/// Up to this many tensors are added in one launch.
constexpr int sum_terms = 8;

struct Sum {
  const float* x[sum_terms];
  int terms;
  float* y;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    float sum = x[0][i];
    for (int term = 1; term < terms; ++term) sum += x[term][i];
    y[i] = sum;
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

KernelPointer compile(const BiasAddSpec& spec, const Context& context) {
  return with_activation(spec.activation, [&](auto f) {
    return make_kernel([=, launcher = context.launcher](void* const* operands) {
      for_elements(
          launcher, spec.rows * spec.columns,
          BiasAdd<decltype(f)>{at(operands, 0), at(operands, 1), at(operands, 2), spec.columns, f});
    });
  });
}

KernelPointer compile(const ActivationSpec& spec, const Context& context) {
  return with_activation(spec.activation, [&](auto f) { return map_one(context, spec.count, f); });
}

KernelPointer compile(const ActivationGradientSpec& spec, const Context& context) {
  const auto make = [&](auto f) {
    return map_two(context, spec.count, OfDivided<decltype(f)>{f, spec.divisor});
  };
  switch (spec.activation) {
    case Activation::relu:
      return make(ReluGradient{});
    case Activation::gelu:
      return make(GeluGradient{});
    case Activation::sigmoid:
      return make(SigmoidGradient{});
    case Activation::tanh:
      return make(TanhGradient{});
    case Activation::linear:
    case Activation::softmax:  // refused before
      break;
  }
  return make(LinearGradient{});
}

KernelPointer compile(const RectifySpec& spec, const Context& context) {
  return map_one(context, spec.count, Rectified{spec.rectifier});
}

KernelPointer compile(const RectifyGradientSpec& spec, const Context& context) {
  return map_two(context, spec.count, RectifiedGradient{spec.rectifier});
}

KernelPointer compile(const AffineSpec& spec, const Context& context) {
  return map_one(context, spec.count, ScaledAndShifted{spec.scale, spec.offset});
}

KernelPointer compile(const ConvertSpec& spec, const Context& context) {
  return with_type(spec.from, [&](auto of) { return convert<decltype(of)>(context, spec); });
}

KernelPointer compile(const NarrowSpec& spec, const Context& context) {
  return make_kernel([=, launcher = context.launcher](void* const* operands) {
    for_elements(launcher, spec.count, Narrow{at(operands, 0), at<std::uint16_t>(operands, 1)});
  });
}

KernelPointer compile(const GatherSpec& spec, const Context& context) {
  return with_type(spec.from, [&](auto of) {
    using From = decltype(of);
    return make_kernel([=, launcher = context.launcher](void* const* operands) {
      for_elements(
          launcher, spec.rows * spec.columns,
          Gather<From>{at<const From* const>(operands, 0), at<const std::int64_t>(operands, 1),
                       at(operands, 2), spec.columns, scaling_of(spec)});
    });
  });
}

KernelPointer compile(const SumSpec& spec, const Context& context) {
  return make_kernel([=, launcher = context.launcher](void* const* operands) {
    // The first eight, then the sum so far with seven more at a time: the order stays.
    float* y = at(operands, spec.inputs);
    for (int done = 0; done < spec.inputs;) {
      Sum sum{{}, 0, y};
      if (done > 0) sum.x[sum.terms++] = y;
      while (sum.terms < sum_terms && done < spec.inputs) sum.x[sum.terms++] = at(operands, done++);
      for_elements(launcher, spec.count, sum);
    }
  });
}

KernelPointer compile(const ScaleBySpec& spec, const Context& context) {
  return make_kernel([=, launcher = context.launcher](void* const* operands) {
    for_elements(launcher, spec.count, ScaleBy{at(operands, 0), at(operands, 1)});
  });
}

KernelPointer compile(const ClampSpec& spec, const Context& context) {
  return make_kernel([=, launcher = context.launcher](void* const* operands) {
    for_elements(launcher, spec.count, Clamp{at(operands, 0), spec.limit});
  });
}

KernelPointer compile(const PenaltyGradientSpec& spec, const Context& context) {
  return make_kernel([=, launcher = context.launcher](void* const* operands) {
    for_elements(launcher, spec.count,
                 PenaltyGradient{at(operands, 0), at(operands, 1), spec.l1, 2 * spec.l2});
  });
}

}  // namespace

void add_elementwise(Kernels& kernels) {
  kernels.add<BiasAddSpec, ActivationSpec, ActivationGradientSpec, RectifySpec, RectifyGradientSpec,
              AffineSpec, ConvertSpec, NarrowSpec, GatherSpec, SumSpec, ScaleBySpec, ClampSpec,
              PenaltyGradientSpec>(
      [](const auto& spec, const Context& context) { return compile(spec, context); });
}

}  // namespace meshwork::cuda
