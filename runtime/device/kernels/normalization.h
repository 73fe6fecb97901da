// Batch normalization.
//
// Of x (rows, channels), whose rows are this rank's part of all that are normalized together. The
// kernels leave out what the ranks have to add up: training is
//   ChannelMoments, all-reduce of z, ChannelStatistics, Normalize; backward
//   NormalizeGradientSums, all-reduce of z, NormalizeGradient;
// with frozen statistics it is InverseDeviation, Normalize; backward the same with `frozen`, which
// needs the sums for gamma and beta alone. The gradient of beta (channels) is z0, that of gamma z1:
// ConvertSpec makes them float32, before or after the all-reduce.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/device/kernels/page.h"

namespace meshwork {

/// z (2, channels; float64) = { sum of x, sum of x^2 } over the rows. Squares of float32 are exact
/// in float64, so that the variance from sums over all ranks is better than the data even where the
/// mean is a million deviations away. Operands: x, z.
struct ChannelMomentsSpec {
  std::int64_t rows = 0, channels = 0;
  [[nodiscard]] std::string text() const {
    return spec::sized("channel moments", {rows, channels});
  }
  [[nodiscard]] KernelWork work() const {
    return {0,
            spec::f32 * spec::product({rows, channels}) + spec::f64 * spec::product({2, channels})};
  }
};

/// From z, summed over all ranks, of `count` rows in all: mean = z0 / count, variance = z1 / count
/// - mean^2 (population; never below 0), inverse = 1 / sqrt(variance + epsilon), new moving value =
/// momentum * moving value + (1 - momentum) * value of the batch. All (channels); a new moving
/// value may lie where the old one does. No rows give mean 0, variance 0 and leave the moving
/// values. Operands: z, moving mean, moving variance, mean, inverse, new moving mean, new moving
/// variance.
struct ChannelStatisticsSpec {
  std::int64_t channels = 0;
  std::int64_t count = 0;
  double epsilon = 1e-3, momentum = 0.99;
  [[nodiscard]] std::string text() const { return spec::sized("channel statistics", {channels}); }
  [[nodiscard]] KernelWork work() const {
    return {0, (2 * spec::f64 + 6 * spec::f32) * static_cast<double>(channels)};
  }
};

/// inverse (channels) = 1 / sqrt(variance (channels) + epsilon). Operands: variance, inverse.
struct InverseDeviationSpec {
  std::int64_t channels = 0;
  double epsilon = 1e-3;
  [[nodiscard]] std::string text() const { return spec::sized("inverse deviation", {channels}); }
  [[nodiscard]] KernelWork work() const { return spec::passes(2, channels); }
};

/// What normalizing and its gradients share: whether there is a gamma (`scale`) and a beta
/// (`center`), each (channels), and the activation behind: linear or relu.
struct NormalizationShape {
  std::int64_t rows = 0, channels = 0;
  bool scale = true, center = true;
  Activation activation = Activation::linear;

  [[nodiscard]] std::string text(std::string_view name, std::string_view more = "") const {
    return spec::sized(name, {rows, channels}).append(more) + spec::activated(activation);
  }
};

/// y = activation((x - mean) * inverse * gamma + beta). Operands: x, mean, inverse, [gamma], [beta], y.
struct NormalizeSpec {
  NormalizationShape at;
  [[nodiscard]] std::string text() const { return at.text("normalize"); }
  [[nodiscard]] KernelWork work() const { return spec::rows(2 * at.rows, at.channels); }
  [[nodiscard]] InPlace in_place() const { return {{0}}; }
  void check() const { spec::require_fused(at.activation, text()); }
};

/// z (2, channels; float64) = this rank's { sum of g, sum of g * (x - mean) * inverse }, where g is
/// dy, with relu 0 where y (computed again from x) is not above 0. Operands: x, dy, mean, inverse,
/// [gamma], [beta], z.
struct NormalizeGradientSumsSpec {
  NormalizationShape at;
  [[nodiscard]] std::string text() const { return at.text("normalize gradient sums"); }
  [[nodiscard]] KernelWork work() const { return spec::rows(2 * at.rows, at.channels); }
  void check() const { spec::require_fused(at.activation, text()); }
};

/// dx = gamma * inverse * (g - (z0 + (x - mean) * inverse * z1) / count), g as above and z summed
/// over all ranks' `count` rows; `frozen`: dx = gamma * inverse * g, since mean and inverse do not
/// depend on x. Operands: x, dy, mean, inverse, [gamma], [beta], [z unless frozen], dx.
struct NormalizeGradientSpec {
  NormalizationShape at;
  std::int64_t count = 0;
  bool frozen = false;
  [[nodiscard]] std::string text() const {
    return at.text("normalize gradient", frozen ? " frozen" : "");
  }
  [[nodiscard]] KernelWork work() const { return spec::rows(3 * at.rows, at.channels); }
  [[nodiscard]] InPlace in_place() const { return {{1}}; }
  void check() const { spec::require_fused(at.activation, text()); }
};

}  // namespace meshwork
