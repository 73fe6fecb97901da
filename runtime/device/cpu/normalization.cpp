// Batch normalization, in the pieces between which ranks add up.
//
// Passes that sum up are those of channel_sums.h. Passes that write run over its groups of rows
// too, with their constants repeated for every lane in the workspace.
//
// The writing passes are bound by memory traffic: 24 GB/s for normalizing 50176x12 and 12544x24
// with relu, out of the third cache, and 37 GB/s for 3136x32 in the second (one Cascade Lake core
// at 2.5 GHz on a busy machine, fastest runs). The sums are bound by conversions to double: 12
// GB/s, which four lanes in place of eight or one sum in place of four do not better (10 and 11.5);
// those of the gradient 12 GB/s, after 9 with every term converted.
#include <algorithm>

#include "runtime/device/cpu/channel_sums.h"
#include "runtime/device/cpu/loops.h"
#include "runtime/device/kernels/normalization.h"

namespace meshwork::cpu {

namespace {

// ---- sums
// ----------------------------------------------------------------------------------------

/// The terms x and x^2.
struct Moments {
  static constexpr int lanes = 8;
  const float* x;

  template <int width>
  struct Lanes {
    const float* x;
    [[gnu::always_inline]] void add(std::int64_t element, Sums<width>& s) const {
      Floats<width> values;
      load(values, x + element);
      const Doubles<width> wide = __builtin_convertvector(values, Doubles<width>);
      s.a += wide;
      s.b += wide * wide;
    }
    [[gnu::always_inline]] void add_four(std::int64_t element, std::int64_t stride, Sums<width>& s0,
                                         Sums<width>& s1, Sums<width>& s2, Sums<width>& s3) const {
      add(element, s0);
      add(element + stride, s1);
      add(element + 2 * stride, s2);
      add(element + 3 * stride, s3);
    }
  };
  template <int width>
  [[nodiscard]] Lanes<width> at(std::int64_t) const {
    return {x};
  }
};

/// What a normalization does to one channel.
struct Channel {
  float mean, inverse, factor, beta;  // factor = gamma * inverse
};

/// Where the constants of a normalization lie.
struct Parameters {
  const float *mean, *inverse, *gamma, *beta;  // gamma, beta: may be null

  /// Of the operands from `first` on; `next` becomes the operand behind them.
  static Parameters of(const NormalizationShape& at, void* const* operands, int first, int& next) {
    Parameters p{meshwork::at(operands, first), meshwork::at(operands, first + 1), nullptr,
                 nullptr};
    next = first + 2;
    if (at.scale) p.gamma = meshwork::at(operands, next++);
    if (at.center) p.beta = meshwork::at(operands, next++);
    return p;
  }
  [[nodiscard]] Channel channel(std::int64_t c) const {
    return {mean[c], inverse[c], gamma != nullptr ? gamma[c] * inverse[c] : inverse[c],
            beta != nullptr ? beta[c] : 0.0f};
  }
};

/// What stands before the activation, computed alike by all that ask whether relu was open.
template <class Value>
[[gnu::always_inline]] inline Value normalized(Value centered, Value factor, Value beta) {
  return centered * factor + beta;
}

/// The terms g and g * (x - mean) * inverse. They are float32, the second one rounded; four of them
/// are added up as such before they go to double, which costs no accuracy that they have and saves
/// conversions.
template <bool relu>
struct GradientTerms {
  static constexpr int lanes = 8;
  const float *x, *dy;
  Parameters parameters;
  std::int64_t channels;

  template <int width>
  struct Lanes {
    struct Terms {
      Floats<width> gradient, product;
    };
    const float *x, *dy;
    Floats<width> mean, inverse, factor, beta;

    [[gnu::always_inline]] [[nodiscard]] Terms terms(std::int64_t element) const {
      Floats<width> values, gradient;
      load(values, x + element);
      load(gradient, dy + element);
      const Floats<width> centered = values - mean;
      if constexpr (relu) {
        gradient = normalized(centered, factor, beta) > 0.0f ? gradient : Floats<width>{};
      }
      return {gradient, gradient * (centered * inverse)};
    }
    [[gnu::always_inline]] void add(std::int64_t element, Sums<width>& s) const {
      const Terms one = terms(element);
      s.a += __builtin_convertvector(one.gradient, Doubles<width>);
      s.b += __builtin_convertvector(one.product, Doubles<width>);
    }
    [[gnu::always_inline]] void add_four(std::int64_t element, std::int64_t stride, Sums<width>& s,
                                         Sums<width>&, Sums<width>&, Sums<width>&) const {
      const Terms t0 = terms(element), t1 = terms(element + stride);
      const Terms t2 = terms(element + 2 * stride), t3 = terms(element + 3 * stride);
      s.a += __builtin_convertvector((t0.gradient + t1.gradient) + (t2.gradient + t3.gradient),
                                     Doubles<width>);
      s.b += __builtin_convertvector((t0.product + t1.product) + (t2.product + t3.product),
                                     Doubles<width>);
    }
  };
  template <int width>
  [[nodiscard]] Lanes<width> at(std::int64_t lane) const {
    Lanes<width> lanes{x, dy, {}, {}, {}, {}};
    for (int i = 0; i < width; ++i) {
      const Channel c = parameters.channel((lane + i) % channels);
      lanes.mean[i] = c.mean;
      lanes.inverse[i] = c.inverse;
      lanes.factor[i] = c.factor;
      lanes.beta[i] = c.beta;
    }
    return lanes;
  }
};

// ---- passes that write
// ---------------------------------------------------------------------------

/// Rows in groups of `lanes` elements, with tables of one constant a lane in the workspace.
struct GroupPlan {
  GroupPlan(std::int64_t rows, std::int64_t channels_given)
      : channels(channels_given),
        count(rows * channels),
        lanes(std::max<std::int64_t>(1, rows_of_group(channels, 16, 256) * channels)),
        groups((count + lanes - 1) / lanes) {}
  [[nodiscard]] std::int64_t bytes(std::int64_t tables) const { return tables * lanes * 4; }

  /// table[lane] = value(channel) for every lane.
  template <class Value>
  void repeat(float* table, const Value& value) const {
    for (std::int64_t c = 0; c < channels; ++c) {
      const float one = value(c);
      for (std::int64_t lane = c; lane < lanes; lane += channels) table[lane] = one;
    }
  }
  /// body(first element, lanes) for each group, the last one perhaps shorter.
  template <class Body>
  void for_groups(int threads, std::int64_t bytes_an_element, const Body& body) const {
    for_rows(threads, groups, lanes * bytes_an_element, [&](std::int64_t group) {
      const std::int64_t first = group * lanes;
      body(first, std::min(lanes, count - first));
    });
  }

  std::int64_t channels, count, lanes, groups;
};

template <bool relu>
KernelPointer normalize(const NormalizationShape& at, const Context& context) {
  const GroupPlan plan(at.rows, at.channels);
  return make_kernel(
      [=, threads = context.threads](void* const* operands) {
        int next = 0;
        const float* x = meshwork::at(operands, 0);
        const Parameters parameters = Parameters::of(at, operands, 1, next);
        float* y = meshwork::at(operands, next);
        float* means = meshwork::at(operands, next + 1);
        float* factors = means + plan.lanes;
        float* betas = factors + plan.lanes;
        plan.repeat(means, [&](std::int64_t c) { return parameters.channel(c).mean; });
        plan.repeat(factors, [&](std::int64_t c) { return parameters.channel(c).factor; });
        plan.repeat(betas, [&](std::int64_t c) { return parameters.channel(c).beta; });
        plan.for_groups(threads, 8, [=](std::int64_t first, std::int64_t lanes) {
          const float* from = x + first;
          float* to = y + first;
#pragma omp simd
          for (std::int64_t i = 0; i < lanes; ++i) {
            const float value = normalized(from[i] - means[i], factors[i], betas[i]);
            to[i] = relu && value < 0.0f ? 0.0f : value;
          }
        });
      },
      plan.bytes(3));
}

template <bool relu>
KernelPointer gradient_sums(const NormalizationShape& at, const Context& context) {
  const SumPlan plan(at.rows, at.channels, 2);
  return make_kernel(
      [=, threads = context.threads](void* const* operands) {
        int next = 0;
        const Parameters parameters = Parameters::of(at, operands, 2, next);
        const GradientTerms<relu> terms{meshwork::at(operands, 0), meshwork::at(operands, 1),
                                        parameters, at.channels};
        sum_channels(threads, plan, terms, meshwork::at<double>(operands, next + 1),
                     meshwork::at<double>(operands, next));
      },
      plan.bytes());
}

template <bool relu>
KernelPointer normalize_gradient(const NormalizeGradientSpec& spec, const Context& context) {
  const NormalizationShape& at = spec.at;
  const GroupPlan plan(at.rows, at.channels);
  return make_kernel(
      [=, threads = context.threads](void* const* operands) {
        int next = 0;
        const float* x = meshwork::at(operands, 0);
        const float* dy = meshwork::at(operands, 1);
        const Parameters parameters = Parameters::of(at, operands, 2, next);
        const double* z = spec.frozen ? nullptr : meshwork::at<double>(operands, next++);
        float* dx = meshwork::at(operands, next);
        float* means = meshwork::at(operands, next + 1);
        float* factors = means + plan.lanes;
        float* betas = factors + plan.lanes;
        float* shifts = betas + plan.lanes;   // z0 / count
        float* slopes = shifts + plan.lanes;  // inverse * z1 / count
        const double share = spec.count > 0 ? 1.0 / static_cast<double>(spec.count) : 0.0;
        plan.repeat(means, [&](std::int64_t c) { return parameters.channel(c).mean; });
        plan.repeat(factors, [&](std::int64_t c) { return parameters.channel(c).factor; });
        plan.repeat(betas, [&](std::int64_t c) { return parameters.channel(c).beta; });
        plan.repeat(shifts, [&](std::int64_t c) {
          return z != nullptr ? static_cast<float>(z[c] * share) : 0.0f;
        });
        plan.repeat(slopes, [&](std::int64_t c) {
          return z != nullptr ? static_cast<float>(z[at.channels + c] * share *
                                                   static_cast<double>(parameters.inverse[c]))
                              : 0.0f;
        });
        plan.for_groups(threads, 12, [=](std::int64_t first, std::int64_t lanes) {
          const float* value = x + first;
          const float* gradient = dy + first;
          float* to = dx + first;
#pragma omp simd
          for (std::int64_t i = 0; i < lanes; ++i) {
            const float centered = value[i] - means[i];
            const bool open = !relu || normalized(centered, factors[i], betas[i]) > 0.0f;
            const float g = open ? gradient[i] : 0.0f;
            to[i] = factors[i] * (g - shifts[i] - centered * slopes[i]);
          }
        });
      },
      plan.bytes(5));
}

KernelPointer compile(const ChannelMomentsSpec& spec, const Context& context) {
  const SumPlan plan(spec.rows, spec.channels, 1);
  return make_kernel(
      [=, threads = context.threads](void* const* operands) {
        sum_channels(threads, plan, Moments{at(operands, 0)}, at<double>(operands, 2),
                     at<double>(operands, 1));
      },
      plan.bytes());
}

KernelPointer compile(const NormalizeSpec& spec, const Context& context) {
  return spec.at.activation == Activation::relu ? normalize<true>(spec.at, context)
                                                : normalize<false>(spec.at, context);
}

KernelPointer compile(const NormalizeGradientSumsSpec& spec, const Context& context) {
  return spec.at.activation == Activation::relu ? gradient_sums<true>(spec.at, context)
                                                : gradient_sums<false>(spec.at, context);
}

KernelPointer compile(const NormalizeGradientSpec& spec, const Context& context) {
  return spec.at.activation == Activation::relu ? normalize_gradient<true>(spec, context)
                                                : normalize_gradient<false>(spec, context);
}

}  // namespace

void add_normalization(Kernels& kernels) {
  kernels.add<ChannelMomentsSpec, NormalizeSpec, NormalizeGradientSumsSpec, NormalizeGradientSpec>(
      [](const auto& spec, const Context& context) { return compile(spec, context); });
}

}  // namespace meshwork::cpu
