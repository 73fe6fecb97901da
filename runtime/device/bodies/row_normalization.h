// Rows brought to mean 0 and mean square 1. Sums are formed in double. Bound by memory traffic.
#pragma once

#include <cmath>

#include "runtime/device/body_forms.h"
#include "runtime/device/folds.h"
#include "runtime/device/kernels/row_normalization.h"

namespace meshwork::bodies {

/// What a normalization does to one row.
struct RowFactors {
  float mean, inverse;
  [[nodiscard]] MESHWORK_HOST_DEVICE float normalized(float x) const {
    return (x - mean) * inverse;
  }
};
/// How moments become factors.
struct RowStatistics {
  double count, epsilon;
  bool centered;
  explicit RowStatistics(const RowNormalization& of)
      : count(static_cast<double>(of.count)), epsilon(of.epsilon), centered(of.centered) {}
  [[nodiscard]] MESHWORK_HOST_DEVICE RowFactors operator()(const PairOfSums& moments) const {
    const double mean = centered ? moments.first / count : 0;
    const double variance = moments.second / count - mean * mean;
    const double inverse = 1 / std::sqrt((variance > 0 ? variance : 0) + epsilon);
    return {static_cast<float>(mean), static_cast<float>(inverse)};
  }
};
[[nodiscard]] MESHWORK_HOST_DEVICE inline PairOfSums moments_of(float x) {
  const double wide = static_cast<double>(x);
  return {wide, wide * wide};
}

struct RowMoments {
  using Fold = folds::Added<PairOfSums>;
  const float* x;
  PairOfSums* z;
  [[nodiscard]] MESHWORK_HOST_DEVICE PairOfSums term(std::int64_t, std::int64_t,
                                                     std::int64_t i) const {
    return moments_of(x[i]);
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t row, const PairOfSums& sums) const {
    z[row] = sums;
  }
};
struct StatisticsOfRow {
  const PairOfSums* z;
  float *mean, *inverse;
  RowStatistics statistics;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t row) const {
    const RowFactors factors = statistics(z[row]);
    mean[row] = factors.mean;
    inverse[row] = factors.inverse;
  }
};

/// y of one row. Without gamma or beta, their pointers are null.
struct NormalizedRow {
  const float *x, *gamma, *beta;
  float* y;
  RowFactors factors;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t column, std::int64_t i) const {
    const float scaled = factors.normalized(x[i]) * (gamma != nullptr ? gamma[column] : 1.0f);
    y[i] = scaled + (beta != nullptr ? beta[column] : 0.0f);
  }
};
struct RowNormalize {
  using Fold = folds::Added<PairOfSums>;
  const float* x;
  float *mean, *inverse;
  const float *gamma = nullptr, *beta = nullptr;
  float* y;
  RowStatistics statistics;
  RowNormalize(const RowNormalization& of, void* const* operands)
      : x(at(operands, 0)), mean(at(operands, 1)), inverse(at(operands, 2)), statistics(of) {
    int next = 3;
    if (of.scale) gamma = at(operands, next++);
    if (of.center) beta = at(operands, next++);
    y = at(operands, next);
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE PairOfSums term(std::int64_t, std::int64_t,
                                                     std::int64_t i) const {
    return moments_of(x[i]);
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t row, const PairOfSums& moments) const {
    const RowFactors factors = statistics(moments);
    mean[row] = factors.mean;
    inverse[row] = factors.inverse;
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE NormalizedRow row(std::int64_t,
                                                       const PairOfSums& moments) const {
    return {x, gamma, beta, y, statistics(moments)};
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE NormalizedRow row(std::int64_t row) const {
    return {x, gamma, beta, y, {mean[row], inverse[row]}};
  }
};

/// dx of one row.
struct GradientOfRow {
  const float *x, *gamma, *dy;
  float* dx;
  RowFactors factors;
  float mean_gradient, mean_product;  // w / count
  [[nodiscard]] MESHWORK_HOST_DEVICE float gradient(std::int64_t column, std::int64_t i) const {
    return gamma != nullptr ? dy[i] * gamma[column] : dy[i];
  }
  MESHWORK_HOST_DEVICE void operator()(std::int64_t column, std::int64_t i) const {
    dx[i] = factors.inverse *
            (gradient(column, i) - mean_gradient - factors.normalized(x[i]) * mean_product);
  }
};
struct RowNormalizeGradient {
  using Fold = folds::Added<PairOfSums>;
  const float *x, *mean, *inverse;
  const float *gamma = nullptr, *dy;
  PairOfSums* w = nullptr;
  float* dx = nullptr;
  double count;
  bool centered;
  /// `known`: there is a w. The operand behind it is dx, which sums alone do not use.
  RowNormalizeGradient(const RowNormalization& of, void* const* operands, bool known)
      : x(at(operands, 0)),
        mean(at(operands, 1)),
        inverse(at(operands, 2)),
        count(static_cast<double>(of.count)),
        centered(of.centered) {
    int next = 3;
    if (of.scale) gamma = at(operands, next++);
    dy = at(operands, next++);
    if (known) w = at<PairOfSums>(operands, next++);
    dx = at(operands, next);
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE PairOfSums term(std::int64_t row, std::int64_t column,
                                                     std::int64_t i) const {
    const float g = gamma != nullptr ? dy[i] * gamma[column] : dy[i];
    const RowFactors factors{mean[row], inverse[row]};
    return {static_cast<double>(g), static_cast<double>(g * factors.normalized(x[i]))};
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t, const PairOfSums&) const {}
  [[nodiscard]] MESHWORK_HOST_DEVICE GradientOfRow row(std::int64_t row,
                                                       const PairOfSums& sums) const {
    return {x,
            gamma,
            dy,
            dx,
            {mean[row], inverse[row]},
            centered ? static_cast<float>(sums.first / count) : 0.0f,
            static_cast<float>(sums.second / count)};
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE GradientOfRow row(std::int64_t of) const {
    return row(of, w[of]);
  }
};

/// The sums alone.
struct RowGradientSums {
  using Fold = folds::Added<PairOfSums>;
  RowNormalizeGradient gradient;
  [[nodiscard]] MESHWORK_HOST_DEVICE PairOfSums term(std::int64_t row, std::int64_t column,
                                                     std::int64_t i) const {
    return gradient.term(row, column, i);
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t row, const PairOfSums& sums) const {
    gradient.w[row] = sums;
  }
};

struct VariablesOfRow {
  const float *x, *dy;
  RowFactors factors;
  [[nodiscard]] MESHWORK_HOST_DEVICE PairOfSums operator()(std::int64_t, std::int64_t i) const {
    return {static_cast<double>(dy[i] * factors.normalized(x[i])), static_cast<double>(dy[i])};
  }
};
struct RowNormalizeVariables {
  const float *x, *mean, *inverse, *dy;
  float *dgamma = nullptr, *dbeta = nullptr;
  RowNormalizeVariables(const RowNormalization& of, void* const* operands)
      : x(at(operands, 0)), mean(at(operands, 1)), inverse(at(operands, 2)), dy(at(operands, 3)) {
    int next = 4;
    if (of.scale) dgamma = at(operands, next++);
    if (of.center) dbeta = at(operands, next);
  }
  [[nodiscard]] MESHWORK_HOST_DEVICE VariablesOfRow row(std::int64_t row) const {
    return {x, dy, {mean[row], inverse[row]}};
  }
  MESHWORK_HOST_DEVICE void finish(std::int64_t column, const PairOfSums& sums) const {
    if (dgamma != nullptr) dgamma[column] = static_cast<float>(sums.first);
    if (dbeta != nullptr) dbeta[column] = static_cast<float>(sums.second);
  }
};

template <class Loops>
void add_row_normalization(auto& kernels) {
  kernels.template add<RowMomentsSpec>([](const RowMomentsSpec& spec, const auto& context) {
    return Loops::rows(context, spec.rows, spec.columns, 4, [](void* const* operands) {
      return RowMoments{at(operands, 0), at<PairOfSums>(operands, 1)};
    });
  });
  kernels.template add<RowStatisticsSpec>([](const RowStatisticsSpec& spec, const auto& context) {
    return Loops::elements(context, spec.at.rows, 24, [=](void* const* operands) {
      return StatisticsOfRow{at<const PairOfSums>(operands, 0), at(operands, 1), at(operands, 2),
                             RowStatistics(spec.at)};
    });
  });
  kernels.template add<RowNormalizeSpec>([](const RowNormalizeSpec& spec, const auto& context) {
    const auto make = [=](void* const* operands) { return RowNormalize(spec.at, operands); };
    return spec.known ? Loops::grid(context, spec.at.rows, spec.at.columns, 8, make)
                      : Loops::rows_then(context, spec.at.rows, spec.at.columns, 8, make);
  });
  kernels.template add<RowGradientSumsSpec>(
      [](const RowGradientSumsSpec& spec, const auto& context) {
        return Loops::rows(context, spec.at.rows, spec.at.columns, 8, [=](void* const* operands) {
          return RowGradientSums{RowNormalizeGradient(spec.at, operands, true)};
        });
      });
  kernels.template add<RowNormalizeGradientSpec>(
      [](const RowNormalizeGradientSpec& spec, const auto& context) {
        const auto make = [=](void* const* operands) {
          return RowNormalizeGradient(spec.at, operands, spec.known);
        };
        return spec.known ? Loops::grid(context, spec.at.rows, spec.at.columns, 12, make)
                          : Loops::rows_then(context, spec.at.rows, spec.at.columns, 12, make);
      });
  kernels.template add<RowNormalizeVariablesSpec>(
      [](const RowNormalizeVariablesSpec& spec, const auto& context) {
        const int operands = 4 + (spec.at.scale ? 1 : 0) + (spec.at.center ? 1 : 0);
        return Loops::columns(
            context, spec.at.rows, spec.at.columns, 8, operands,
            [=](void* const* operands) { return RowNormalizeVariables(spec.at, operands); });
      });
}

}  // namespace meshwork::bodies
