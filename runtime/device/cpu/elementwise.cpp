// Kernels that compute each element by itself. They are bound by memory traffic, 8 to 12 bytes an
// element, but for the activations that need an exponential.
#include <cmath>
#include <vector>

#include "collectives/error.h"
#include "runtime/device/cpu/loops.h"
#include "runtime/device/cpu/vector_math.h"
#include "runtime/device/kernels/copies.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/device/kernels/norms.h"
#include "runtime/device/kernels/products.h"
#include "runtime/device/with_type.h"

namespace meshwork::cpu {

namespace {

float linear(float x) {
  return x;
}

// A NaN passes, so that a diverged run shows.
float relu(float x) {
  return x < 0.0f ? 0.0f : x;
}

float gelu(float x) {
  return x * vector_normal_cdf(x);
}

/// Calls make(f) with the function of `activation`, as a type of its own, so that loops inline it.
template <class Make>
KernelPointer with_activation(Activation activation, std::string_view kernel, const Make& make) {
  switch (activation) {
    case Activation::linear:
      return make([](float x) { return linear(x); });
    case Activation::relu:
      return make([](float x) { return relu(x); });
    case Activation::gelu:
      return make([](float x) { return gelu(x); });
    case Activation::sigmoid:
      return make([](float x) { return vector_sigmoid(x); });
    case Activation::tanh:
      return make([](float x) { return vector_tanh(x); });
    case Activation::softmax:
      break;
  }
  fail("{}: softmax is not elementwise", kernel);
}

/// Calls make(f) with f(value, dy) = dx.
template <class Make>
KernelPointer with_activation_gradient(Activation activation, const Make& make) {
  switch (activation) {
    case Activation::linear:
      return make([](float, float dy) { return dy; });
    case Activation::relu:
      return make([](float y, float dy) { return y > 0.0f ? dy : 0.0f; });
    case Activation::gelu:
      return make([](float x, float dy) {
        constexpr float density_at_zero = 0.398942280401432678f;
        const float density = density_at_zero * vector_exp(-0.5f * x * x);
        return dy * (vector_normal_cdf(x) + x * density);
      });
    case Activation::sigmoid:
      return make([](float y, float dy) { return dy * (y * (1.0f - y)); });
    case Activation::tanh:
      return make([](float y, float dy) { return dy * (1.0f - y * y); });
    case Activation::softmax:
      break;
  }
  fail("activation gradient: softmax is not elementwise");
}

/// y[i] = f(x[i]). Operands: x, y.
template <class Function>
KernelPointer map(const Context& context, std::int64_t count, Function f) {
  return make_kernel([=, threads = context.threads](void* const* operands) {
    const float* x = at(operands, 0);
    float* y = at(operands, 1);
    for_ranges(threads, count, 8, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) y[i] = f(x[i]);
    });
  });
}

/// dx[i] = f(value[i], dy[i]). Operands: value, dy, dx.
template <class Function>
KernelPointer map_gradient(const Context& context, std::int64_t count, Function f) {
  return make_kernel([=, threads = context.threads](void* const* operands) {
    const float* value = at(operands, 0);
    const float* dy = at(operands, 1);
    float* dx = at(operands, 2);
    for_ranges(threads, count, 12, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) dx[i] = f(value[i], dy[i]);
    });
  });
}

/// Calls make(f) with the function that scales and shifts what was converted, if `spec` does.
template <class Make>
KernelPointer with_scaling(const auto& spec, const Make& make) {
  if (spec.scale == 1.0f && spec.offset == 0.0f) return make([](float x) { return linear(x); });
  return make([scale = spec.scale, offset = spec.offset](float x) { return x * scale + offset; });
}

template <class From, class Function>
KernelPointer convert(const Context& context, std::int64_t count, Function f) {
  return make_kernel([=, threads = context.threads](void* const* operands) {
    const From* x = at<const From>(operands, 0);
    float* y = at(operands, 1);
    for_ranges(threads, count, sizeof(From) + 4, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) y[i] = f(static_cast<float>(x[i]));
    });
  });
}

template <class From, class Function>
KernelPointer gather(const Context& context, const GatherSpec& spec, Function f) {
  return make_kernel([=, threads = context.threads](void* const* operands) {
    const From* table = *at<const From* const>(operands, 0);
    const std::int64_t* rows = at<const std::int64_t>(operands, 1);
    float* y = at(operands, 2);
    for_rows(threads, spec.rows, spec.columns * (sizeof(From) + 4), [=](std::int64_t row) {
      const From* from = table + rows[row] * spec.columns;
      float* to = y + row * spec.columns;
#pragma omp simd
      for (std::int64_t j = 0; j < spec.columns; ++j) to[j] = f(static_cast<float>(from[j]));
    });
  });
}

KernelPointer compile(const BiasAddSpec& spec, const Context& context) {
  return with_activation(spec.activation, "bias add", [&](auto f) {
    return make_kernel([=, threads = context.threads](void* const* operands) {
      const float* x = at(operands, 0);
      const float* bias = at(operands, 1);
      float* y = at(operands, 2);
      const std::int64_t columns = spec.columns;
      for_rows(threads, spec.rows, columns * 8, [=](std::int64_t row) {
        const float* from = x + row * columns;
        float* to = y + row * columns;
#pragma omp simd
        for (std::int64_t j = 0; j < columns; ++j) to[j] = f(from[j] + bias[j]);
      });
    });
  });
}

KernelPointer compile(const ActivationSpec& spec, const Context& context) {
  return with_activation(spec.activation, "activation",
                         [&](auto f) { return map(context, spec.count, f); });
}

KernelPointer compile(const ActivationGradientSpec& spec, const Context& context) {
  return with_activation_gradient(spec.activation, [&](auto f) {
    if (spec.divisor == 1.0f) return map_gradient(context, spec.count, f);
    return map_gradient(context, spec.count, [f, divisor = spec.divisor](float value, float dy) {
      return f(value, dy / divisor);
    });
  });
}

KernelPointer compile(const RectifySpec& spec, const Context& context) {
  const auto [slope, threshold, limit] = spec.rectifier;
  if (slope == 0.0f) {
    // By itself, since 0 * -infinity is no 0.
    return map(context, spec.count, [threshold = threshold, limit = limit](float x) {
      return x <= threshold ? 0.0f : (x >= limit ? limit : x);
    });
  }
  return map(context, spec.count, [slope = slope, threshold = threshold, limit = limit](float x) {
    return x <= threshold ? slope * (x - threshold) : (x >= limit ? limit : x);
  });
}

KernelPointer compile(const RectifyGradientSpec& spec, const Context& context) {
  return map_gradient(context, spec.count, [r = spec.rectifier](float x, float dy) {
    return x <= r.threshold ? r.slope * dy : (x >= r.limit ? 0.0f : dy);
  });
}

KernelPointer compile(const AffineSpec& spec, const Context& context) {
  return map(context, spec.count,
             [scale = spec.scale, offset = spec.offset](float x) { return x * scale + offset; });
}

KernelPointer compile(const ConvertSpec& spec, const Context& context) {
  return with_type(spec.from, [&](auto of) {
    return with_scaling(spec,
                        [&](auto f) { return convert<decltype(of)>(context, spec.count, f); });
  });
}

KernelPointer compile(const GatherSpec& spec, const Context& context) {
  return with_type(spec.from, [&](auto of) {
    return with_scaling(spec, [&](auto f) { return gather<decltype(of)>(context, spec, f); });
  });
}

KernelPointer compile(const SumSpec& spec, const Context& context) {
  const int inputs = spec.inputs;
  if (inputs == 1) {
    return map(context, spec.count, [](float x) { return x; });
  }
  return make_kernel([=, threads = context.threads](void* const* operands) {
    float* y = at(operands, inputs);
    for_ranges(threads, spec.count, 4 * (inputs + 1), [=](std::int64_t begin, std::int64_t end) {
      // Stretches that stay in the first cache from one input to the next.
      constexpr std::int64_t stretch = 2048;
      for (std::int64_t from = begin; from < end; from += stretch) {
        const std::int64_t to = std::min(from + stretch, end);
        const float* a = at(operands, 0);
        for (int input = 1; input < inputs; ++input) {
          const float* b = at(operands, input);
#pragma omp simd
          for (std::int64_t i = from; i < to; ++i) y[i] = a[i] + b[i];
          a = y;
        }
      }
    });
  });
}

KernelPointer compile(const ScaleBySpec& spec, const Context& context) {
  return make_kernel([=, threads = context.threads](void* const* operands) {
    const float factor = *at(operands, 0);
    float* x = at(operands, 1);
    for_ranges(threads, spec.count, 8, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) x[i] *= factor;
    });
  });
}

KernelPointer compile(const ClampSpec& spec, const Context& context) {
  return make_kernel([=, limit = spec.limit, threads = context.threads](void* const* operands) {
    float* x = at(operands, 0);
    for_ranges(threads, spec.count, 8, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) {
        const float raised = x[i] < -limit ? -limit : x[i];
        x[i] = raised > limit ? limit : raised;
      }
    });
  });
}

KernelPointer compile(const PenaltyGradientSpec& spec, const Context& context) {
  return make_kernel(
      [=, l1 = spec.l1, twice_l2 = 2 * spec.l2, threads = context.threads](void* const* operands) {
        const float* w = at(operands, 0);
        float* dw = at(operands, 1);
        for_ranges(threads, spec.count, 12, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
          for (std::int64_t i = begin; i < end; ++i) {
            const float sign = w[i] > 0.0f ? 1.0f : (w[i] < 0.0f ? -1.0f : 0.0f);
            dw[i] += l1 * sign + twice_l2 * w[i];
          }
        });
      });
}

}  // namespace

void add_elementwise(Kernels& kernels) {
  kernels.add<BiasAddSpec, ActivationSpec, ActivationGradientSpec, RectifySpec, RectifyGradientSpec,
              AffineSpec, ConvertSpec, GatherSpec, SumSpec, ScaleBySpec, ClampSpec,
              PenaltyGradientSpec>(
      [](const auto& spec, const Context& context) { return compile(spec, context); });
}

}  // namespace meshwork::cpu
