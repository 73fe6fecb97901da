// Sums over columns, and batch normalization in the pieces between which ranks add up.
//
// Sums: blocks of tiles of up to 32 columns by parts of the rows, then a warp a column; two
// launches, or one where there are few rows. Passes that write: a thread an element, which reads
// the constants of its channel from cache. All are bound by memory traffic.
#include <cmath>
#include <cstdint>

#include "runtime/device/body_kernel.h"
#include "runtime/device/cuda/functions.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/sums.h"
#include "runtime/device/kernels/normalization.h"
#include "runtime/device/kernels/products.h"

namespace meshwork::cuda {

namespace {

struct ColumnSum {
  const float* x;
  float* s;
  std::int64_t width;
  [[nodiscard]] MESHWORK_HOST_DEVICE PairOfSums term(std::int64_t row, std::int64_t column) const {
    return {static_cast<double>(x[row * width + column]), 0};
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t column, const PairOfSums& sums) const {
    s[column] = static_cast<float>(sums.first);
  }
};

/// z (2, channels) gets both sums.
struct Moments {
  const float* x;
  double* z;
  std::int64_t channels;
  [[nodiscard]] MESHWORK_HOST_DEVICE PairOfSums term(std::int64_t row, std::int64_t c) const {
    const double value = static_cast<double>(x[row * channels + c]);
    return {value, value * value};
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t c, const PairOfSums& sums) const {
    z[c] = sums.first;
    z[channels + c] = sums.second;
  }
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
  [[nodiscard]] MESHWORK_HOST_DEVICE float factor(std::int64_t c) const {
    return gamma != nullptr ? gamma[c] * inverse[c] : inverse[c];
  }
  /// What stands before the activation: rounded once, alike for all that ask whether relu was open.
  [[nodiscard]] MESHWORK_HOST_DEVICE float normalized(float x, std::int64_t c) const {
    return fmaf(x - mean[c], factor(c), beta != nullptr ? beta[c] : 0.0f);
  }
};

template <bool relu>
struct Normalize {
  const float* x;
  float* y;
  std::int64_t channels;
  Parameters parameters;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    const float value = parameters.normalized(x[i], i % channels);
    y[i] = relu && value < 0.0f ? 0.0f : value;
  }
};

template <bool relu>
struct GradientSums {
  const float *x, *dy;
  double* z;
  std::int64_t channels;
  Parameters parameters;
  [[nodiscard]] MESHWORK_HOST_DEVICE PairOfSums term(std::int64_t row, std::int64_t c) const {
    const std::int64_t i = row * channels + c;
    const bool open = !relu || parameters.normalized(x[i], c) > 0.0f;
    const float g = open ? dy[i] : 0.0f;
    return {static_cast<double>(g),
            static_cast<double>(g * ((x[i] - parameters.mean[c]) * parameters.inverse[c]))};
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t c, const PairOfSums& sums) const {
    z[c] = sums.first;
    z[channels + c] = sums.second;
  }
};

template <bool relu>
struct NormalizeGradient {
  const float *x, *dy;
  const double* z;  // null if frozen
  float* dx;
  std::int64_t channels;
  double share;  // 1 / count
  Parameters parameters;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t c = i % channels;
    const bool open = !relu || parameters.normalized(x[i], c) > 0.0f;
    float g = open ? dy[i] : 0.0f;
    if (z != nullptr) {
      const auto shift = static_cast<float>(z[c] * share);
      const auto slope =
          static_cast<float>(z[channels + c] * share * static_cast<double>(parameters.inverse[c]));
      g = g - shift - (x[i] - parameters.mean[c]) * slope;
    }
    dx[i] = parameters.factor(c) * g;
  }
};

template <bool relu>
KernelPointer normalize(const NormalizationShape& at, const Context& context) {
  return make_kernel([=, launcher = context.launcher](void* const* operands) {
    int next = 0;
    const Parameters parameters = Parameters::of(at, operands, 1, next);
    for_elements(launcher, at.rows * at.channels,
                 Normalize<relu>{meshwork::at(operands, 0), meshwork::at(operands, next),
                                 at.channels, parameters});
  });
}

template <bool relu>
KernelPointer gradient_sums(const NormalizationShape& at, const Context& context) {
  const ColumnParts parts(at.rows, at.channels);
  const std::int64_t bytes = column_sum_bytes(parts);
  return make_kernel(
      [=, launcher = context.launcher](void* const* operands) {
        int next = 0;
        const Parameters parameters = Parameters::of(at, operands, 2, next);
        reduce_columns(
            launcher, parts,
            GradientSums<relu>{meshwork::at(operands, 0), meshwork::at(operands, 1),
                               meshwork::at<double>(operands, next), at.channels, parameters},
            bytes > 0 ? operands[next + 1] : nullptr);
      },
      bytes);
}

template <bool relu>
KernelPointer normalize_gradient(const NormalizeGradientSpec& spec, const Context& context) {
  return make_kernel([=, launcher = context.launcher](void* const* operands) {
    int next = 0;
    const Parameters parameters = Parameters::of(spec.at, operands, 2, next);
    const double* z = spec.frozen ? nullptr : at<const double>(operands, next++);
    const double share = spec.count > 0 ? 1.0 / static_cast<double>(spec.count) : 0.0;
    for_elements(launcher, spec.at.rows * spec.at.channels,
                 NormalizeGradient<relu>{at(operands, 0), at(operands, 1), z, at(operands, next),
                                         spec.at.channels, share, parameters});
  });
}

KernelPointer compile(const ColumnSumSpec& spec, const Context& context) {
  const ColumnParts parts(spec.rows, spec.columns);
  const std::int64_t bytes = column_sum_bytes(parts);
  return make_kernel(
      [=, launcher = context.launcher](void* const* operands) {
        const ColumnSum sum{at(operands, 0), at(operands, 1), spec.columns};
        reduce_columns(launcher, parts, sum, bytes > 0 ? operands[2] : nullptr);
      },
      bytes);
}

KernelPointer compile(const ChannelMomentsSpec& spec, const Context& context) {
  const ColumnParts parts(spec.rows, spec.channels);
  const std::int64_t bytes = column_sum_bytes(parts);
  return make_kernel(
      [=, launcher = context.launcher](void* const* operands) {
        reduce_columns(launcher, parts,
                       Moments{at(operands, 0), at<double>(operands, 1), spec.channels},
                       bytes > 0 ? operands[2] : nullptr);
      },
      bytes);
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
  kernels.add<ColumnSumSpec, ChannelMomentsSpec, NormalizeSpec, NormalizeGradientSumsSpec,
              NormalizeGradientSpec>(
      [](const auto& spec, const Context& context) { return compile(spec, context); });
}

}  // namespace meshwork::cuda
