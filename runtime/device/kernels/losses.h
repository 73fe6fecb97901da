// Losses and metrics of values taken one by one, summed.
//
// Where rows have weights, what a value gives to a sum is multiplied by one of them, float32, in an
// operand behind the targets: of each `values_a_weight` values in turn one.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/device/kernels/page.h"

namespace meshwork {

namespace spec {
/// What reads predictions and targets, and weights if there are any, makes of a loss.
[[nodiscard]] constexpr KernelWork of_loss(std::int64_t count, std::int64_t values_a_weight) {
  const std::int64_t weights = values_a_weight > 0 ? count / values_a_weight : 0;
  return elements(2 * static_cast<double>(count) + static_cast<double>(weights));
}
}  // namespace spec

/// loss (float64 scalar) = scale * sum of (p - t)^2. Operands: p, t, [weights], loss.
struct SquaredErrorSpec {
  std::int64_t count = 0;
  double scale = 1;
  std::int64_t values_a_weight = 0;  // 0: no weights
  [[nodiscard]] std::string text() const {
    return spec::sized("squared error", {count}) + spec::words({{values_a_weight > 0, "weighted"}});
  }
  [[nodiscard]] KernelWork work() const { return spec::of_loss(count, values_a_weight); }
};
/// dp = scale * 2 (p - t). Operands: p, t, dp.
struct SquaredErrorGradientSpec {
  std::int64_t count = 0;
  float scale = 1;
  [[nodiscard]] std::string text() const { return spec::sized("squared error gradient", {count}); }
  [[nodiscard]] KernelWork work() const { return spec::passes(3, count); }
};
/// loss (float64 scalar) = scale * sum of |p - t|. Operands: p, t, [weights], loss.
struct AbsoluteErrorSpec {
  std::int64_t count = 0;
  double scale = 1;
  std::int64_t values_a_weight = 0;  // 0: no weights
  [[nodiscard]] std::string text() const {
    return spec::sized("absolute error", {count}) +
           spec::words({{values_a_weight > 0, "weighted"}});
  }
  [[nodiscard]] KernelWork work() const { return spec::of_loss(count, values_a_weight); }
};
/// Binary cross-entropy, t' = t (1 - smoothing) + smoothing / 2. Probabilities are clipped to
/// [1e-7, 1 - 1e-7]; logits use max(x, 0) - x t' + log(1 + exp(-|x|)).
/// loss (float64 scalar) = scale * sum. Operands: p, t, [weights], loss.
struct BinaryCrossentropySpec {
  std::int64_t count = 0;
  double scale = 1;
  bool from_logits = false;
  float smoothing = 0;
  std::int64_t values_a_weight = 0;  // 0: no weights
  [[nodiscard]] std::string text() const {
    return spec::sized("binary crossentropy", {count}) +
           spec::words({{from_logits, "from logits"}, {values_a_weight > 0, "weighted"}});
  }
  [[nodiscard]] KernelWork work() const { return spec::of_loss(count, values_a_weight); }
};
/// dp = scale * derivative; 0 where p is clipped. Operands: p, t, dp.
struct BinaryCrossentropyGradientSpec {
  std::int64_t count = 0;
  float scale = 1;
  bool from_logits = false;
  float smoothing = 0;
  [[nodiscard]] std::string text() const {
    return spec::sized("binary crossentropy gradient", {count}) +
           spec::words({{from_logits, "from logits"}});
  }
  [[nodiscard]] KernelWork work() const { return spec::passes(3, count); }
};
/// x, the gradient of a loss without weights = x times its weights, of each `values_a_weight` values
/// in turn one. Operands: weights, x.
struct WeightGradientSpec {
  std::int64_t count = 0;
  std::int64_t values_a_weight = 1;
  [[nodiscard]] std::string text() const { return spec::sized("weight gradient", {count}); }
  [[nodiscard]] KernelWork work() const { return spec::of_loss(count, values_a_weight); }
  void check() const { spec::require(values_a_weight > 0, text(), "has no weights"); }
};
/// n (float64 scalar) = scale * how often (p > threshold) equals t. Operands: p, t, [weights], n.
struct BinaryMatchSpec {
  std::int64_t count = 0;
  double scale = 1;
  float threshold = 0.5f;
  std::int64_t values_a_weight = 0;  // 0: no weights
  [[nodiscard]] std::string text() const {
    return spec::sized("binary match", {count}) + spec::words({{values_a_weight > 0, "weighted"}});
  }
  [[nodiscard]] KernelWork work() const { return spec::of_loss(count, values_a_weight); }
};

}  // namespace meshwork
