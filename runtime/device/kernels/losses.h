// Losses and metrics of values taken one by one, summed.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/device/kernels/page.h"

namespace meshwork {

/// loss (float64 scalar) = scale * sum of (p - t)^2. Operands: p, t, loss.
struct SquaredErrorSpec {
  std::int64_t count = 0;
  double scale = 1;
  [[nodiscard]] std::string text() const { return spec::sized("squared error", {count}); }
  [[nodiscard]] KernelWork work() const { return spec::passes(2, count); }
};
/// dp = scale * 2 (p - t). Operands: p, t, dp.
struct SquaredErrorGradientSpec {
  std::int64_t count = 0;
  float scale = 1;
  [[nodiscard]] std::string text() const { return spec::sized("squared error gradient", {count}); }
  [[nodiscard]] KernelWork work() const { return spec::passes(3, count); }
};
/// loss (float64 scalar) = scale * sum of |p - t|. Operands: p, t, loss.
struct AbsoluteErrorSpec {
  std::int64_t count = 0;
  double scale = 1;
  [[nodiscard]] std::string text() const { return spec::sized("absolute error", {count}); }
  [[nodiscard]] KernelWork work() const { return spec::passes(2, count); }
};
/// Binary cross-entropy, t' = t (1 - smoothing) + smoothing / 2. Probabilities are clipped to
/// [1e-7, 1 - 1e-7]; logits use max(x, 0) - x t' + log(1 + exp(-|x|)).
/// loss (float64 scalar) = scale * sum. Operands: p, t, loss.
struct BinaryCrossentropySpec {
  std::int64_t count = 0;
  double scale = 1;
  bool from_logits = false;
  float smoothing = 0;
  [[nodiscard]] std::string text() const {
    return spec::sized("binary crossentropy", {count}) +
           spec::words({{from_logits, "from logits"}});
  }
  [[nodiscard]] KernelWork work() const { return spec::passes(2, count); }
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
/// n (float64 scalar) = scale * how often (p > threshold) equals t. Operands: p, t, n.
struct BinaryMatchSpec {
  std::int64_t count = 0;
  double scale = 1;
  float threshold = 0.5f;
  [[nodiscard]] std::string text() const { return spec::sized("binary match", {count}); }
  [[nodiscard]] KernelWork work() const { return spec::passes(2, count); }
};

}  // namespace meshwork
