// Batch normalization, in the pieces between which ranks add up.
//
// Rows are short (12 channels), so they are taken in *groups* whose lanes fill vectors: a group is as
// many rows as make the number of its elements, its lanes, a multiple of the vector's. Passes that
// write run over groups, with their constants repeated for every lane in the workspace. Passes that
// sum up keep some lanes in registers, in double, over a stretch of rows that the first cache holds;
// then they go to the lanes of a part, and parts are added in order. Parts depend on the number of
// rows and channels alone.
//
// The writing passes are bound by memory traffic: 24 GB/s for normalizing 50176x12 and 12544x24 with
// relu, out of the third cache, and 37 GB/s for 3136x32 in the second (one Cascade Lake core at 2.5
// GHz on a busy machine, fastest runs). The sums are bound by conversions to double: 12 GB/s, which four
// lanes in place of eight or one sum in place of four do not better (10 and 11.5); those of the gradient
// 12 GB/s, after 9 with every term converted.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "collectives/error.h"
#include "runtime/device/cpu/loops.h"

namespace meshwork::cpu {

namespace {

/// Rows of a group, such that rows * channels is a multiple of `lanes` and at least `least`; from 64
/// channels on a group is one row, whatever it leaves over.
std::int64_t rows_of_group(std::int64_t channels, std::int64_t lanes, std::int64_t least) {
  if (channels >= 64 || channels == 0) return 1;
  const std::int64_t rows = lanes / std::gcd(channels, lanes);
  return rows * std::max<std::int64_t>(1, (least + rows * channels - 1) / (rows * channels));
}

// ---- sums ----------------------------------------------------------------------------------------

template <int width>
using Floats [[gnu::vector_size(width * sizeof(float))]] = float;
template <int width>
using Doubles [[gnu::vector_size(width * sizeof(double))]] = double;

template <class Vector>
[[gnu::always_inline]] inline void load(Vector& to, const float* from) {
  std::memcpy(&to, from, sizeof(Vector));
}

/// Where the rows of a sum are cut.
struct SumPlan {
  SumPlan(std::int64_t rows_given, std::int64_t channels_given, std::int64_t inputs)
      : rows(rows_given), channels(channels_given), group(rows_of_group(channels, 8, 0)) {
    constexpr std::int64_t bytes_a_part = 64 * 1024, bytes_a_stretch = 16 * 1024;
    const std::int64_t row_bytes = std::max<std::int64_t>(1, 4 * inputs * channels);
    groups = rows / group;
    parts = std::clamp<std::int64_t>(rows * row_bytes / bytes_a_part, 1, 64);
    stretch = std::max<std::int64_t>(1, bytes_a_stretch / (row_bytes * group));
  }
  [[nodiscard]] std::int64_t lanes() const { return group * channels; }
  [[nodiscard]] std::int64_t bytes() const {
    // Never 0, lest there be no workspace to ask for.
    return parts * 2 * std::max<std::int64_t>(1, lanes()) *
           static_cast<std::int64_t>(sizeof(double));
  }

  std::int64_t rows, channels;
  std::int64_t group, groups;  // rows of one; whole ones
  std::int64_t parts, stretch;
};

/// Sums of the two terms of some lanes.
template <int width>
struct Sums {
  Doubles<width> a{}, b{};
};

/// sums[0 .. stride) and sums[stride .. 2 stride) += the two terms, for `width` lanes from `lane` on,
/// over `count` groups from `first` on. `terms.template at<width>(lane)` holds the lanes' constants;
/// its `add` takes the elements of one group, its `add_four` those of four.
template <int width, class Terms>
void add_lanes(const Terms& terms, std::int64_t stride, std::int64_t lane, std::int64_t first,
               std::int64_t count, double* sums) {
  const auto term = terms.template at<width>(lane);
  // Four side by side: one would wait for its own last addition.
  Sums<width> s0, s1, s2, s3;
  std::int64_t element = first * stride + lane;
  std::int64_t g = 0;
  for (; g + 4 <= count; g += 4, element += 4 * stride) {
    term.add_four(element, stride, s0, s1, s2, s3);
  }
  for (; g < count; ++g, element += stride) term.add(element, s0);
  const Doubles<width> a = (s0.a + s1.a) + (s2.a + s3.a), b = (s0.b + s1.b) + (s2.b + s3.b);
  for (int i = 0; i < width; ++i) {
    sums[lane + i] += a[i];
    sums[stride + lane + i] += b[i];
  }
}

template <class Terms>
void add_stretch(const Terms& terms, std::int64_t lanes, std::int64_t stride, std::int64_t first,
                 std::int64_t count, double* sums) {
  std::int64_t lane = 0;
  for (; lane + Terms::lanes <= lanes; lane += Terms::lanes) {
    add_lanes<Terms::lanes>(terms, stride, lane, first, count, sums);
  }
  for (; lane < lanes; ++lane) add_lanes<1>(terms, stride, lane, first, count, sums);
}

/// z (2, channels) = the sums of both terms over the rows.
template <class Terms>
void sum_channels(int threads, const SumPlan& plan, const Terms& terms, double* partial,
                  double* z) {
  const std::int64_t lanes = plan.lanes();
  for_rows(threads, plan.parts, plan.groups * lanes * 4 / plan.parts, [&](std::int64_t part) {
    double* sums = partial + part * 2 * lanes;
    std::fill_n(sums, 2 * lanes, 0.0);
    const Range range =
        block_range(plan.groups, static_cast<int>(plan.parts), static_cast<int>(part));
    for (std::int64_t g = range.begin; g < range.end; g += plan.stretch) {
      add_stretch(terms, lanes, lanes, g, std::min(plan.stretch, range.end - g), sums);
    }
    // What is less than a group.
    if (part + 1 == plan.parts) {
      add_stretch(terms, (plan.rows - plan.groups * plan.group) * plan.channels, lanes, plan.groups,
                  1, sums);
    }
  });
  for (std::int64_t c = 0; c < plan.channels; ++c) {
    double first = 0, second = 0;
    for (std::int64_t part = 0; part < plan.parts; ++part) {
      const double* sums = partial + part * 2 * lanes;
      for (std::int64_t lane = c; lane < lanes; lane += plan.channels) {
        first += sums[lane];
        second += sums[lanes + lane];
      }
    }
    z[c] = first;
    z[plan.channels + c] = second;
  }
}

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
    Parameters p{cpu::at(operands, first), cpu::at(operands, first + 1), nullptr, nullptr};
    next = first + 2;
    if (at.scale) p.gamma = cpu::at(operands, next++);
    if (at.center) p.beta = cpu::at(operands, next++);
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

// ---- passes that write ---------------------------------------------------------------------------

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
        const float* x = cpu::at(operands, 0);
        const Parameters parameters = Parameters::of(at, operands, 1, next);
        float* y = cpu::at(operands, next);
        float* means = cpu::at(operands, next + 1);
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
        const GradientTerms<relu> terms{cpu::at(operands, 0), cpu::at(operands, 1), parameters,
                                        at.channels};
        sum_channels(threads, plan, terms, cpu::at<double>(operands, next + 1),
                     cpu::at<double>(operands, next));
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
        const float* x = cpu::at(operands, 0);
        const float* dy = cpu::at(operands, 1);
        const Parameters parameters = Parameters::of(at, operands, 2, next);
        const double* z = spec.frozen ? nullptr : cpu::at<double>(operands, next++);
        float* dx = cpu::at(operands, next);
        float* means = cpu::at(operands, next + 1);
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

void check_activation(Activation activation, const std::string& name) {
  if (activation != Activation::linear && activation != Activation::relu) {
    internal_error(fmt::format("{} fuses an activation that is neither linear nor relu", name));
  }
}

}  // namespace

KernelPointer compile(const ChannelMomentsSpec& spec, const Context& context) {
  const SumPlan plan(spec.rows, spec.channels, 1);
  return make_kernel(
      [=, threads = context.threads](void* const* operands) {
        sum_channels(threads, plan, Moments{at(operands, 0)}, at<double>(operands, 2),
                     at<double>(operands, 1));
      },
      plan.bytes());
}

KernelPointer compile(const ChannelStatisticsSpec& spec, const Context&) {
  return make_kernel([=](void* const* operands) {
    const double* z = at<double>(operands, 0);
    const float* moving_mean = at(operands, 1);
    const float* moving_variance = at(operands, 2);
    float* means = at(operands, 3);
    float* inverses = at(operands, 4);
    float* new_mean = at(operands, 5);
    float* new_variance = at(operands, 6);
    const double share = spec.count > 0 ? 1.0 / static_cast<double>(spec.count) : 0.0;
    // Of no rows nothing is learnt.
    const double momentum = spec.count > 0 ? spec.momentum : 1.0;
    for (std::int64_t c = 0; c < spec.channels; ++c) {
      const double mean = z[c] * share;
      // A NaN stays one.
      const double difference = z[spec.channels + c] * share - mean * mean;
      const double variance = difference < 0 ? 0.0 : difference;
      means[c] = static_cast<float>(mean);
      inverses[c] = static_cast<float>(1 / std::sqrt(variance + spec.epsilon));
      new_mean[c] = static_cast<float>(momentum * static_cast<double>(moving_mean[c]) +
                                       (1 - momentum) * mean);
      new_variance[c] = static_cast<float>(momentum * static_cast<double>(moving_variance[c]) +
                                           (1 - momentum) * variance);
    }
  });
}

KernelPointer compile(const InverseDeviationSpec& spec, const Context&) {
  return make_kernel([=](void* const* operands) {
    const float* variance = at(operands, 0);
    float* inverse = at(operands, 1);
    for (std::int64_t c = 0; c < spec.channels; ++c) {
      inverse[c] =
          static_cast<float>(1 / std::sqrt(static_cast<double>(variance[c]) + spec.epsilon));
    }
  });
}

KernelPointer compile(const NormalizeSpec& spec, const Context& context) {
  check_activation(spec.at.activation, describe(spec));
  return spec.at.activation == Activation::relu ? normalize<true>(spec.at, context)
                                                : normalize<false>(spec.at, context);
}

KernelPointer compile(const NormalizeGradientSumsSpec& spec, const Context& context) {
  check_activation(spec.at.activation, describe(spec));
  return spec.at.activation == Activation::relu ? gradient_sums<true>(spec.at, context)
                                                : gradient_sums<false>(spec.at, context);
}

KernelPointer compile(const NormalizeGradientSpec& spec, const Context& context) {
  check_activation(spec.at.activation, describe(spec));
  return spec.at.activation == Activation::relu ? normalize_gradient<true>(spec, context)
                                                : normalize_gradient<false>(spec, context);
}

}  // namespace meshwork::cpu
