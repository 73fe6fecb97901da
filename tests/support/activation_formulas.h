// The activations of single elements in double precision, as keras.io/api/layers/activations has
// them, written in the plainest way.
#pragma once

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "runtime/device/kernels/activation.h"

namespace meshwork::test {

inline double activation_formula(Activation activation, double x) {
  const auto sigmoid = [](double at) { return 1 / (1 + std::exp(-at)); };
  const double softplus = std::log1p(std::exp(x));
  const double hard_sigmoid = std::clamp(x / 6 + 0.5, 0.0, 1.0);
  const double elu = x > 0 ? x : std::expm1(x);
  switch (activation) {
    case Activation::linear:
      return x;
    case Activation::relu:
      return std::max(x, 0.0);
    case Activation::relu6:
      return std::clamp(x, 0.0, 6.0);
    case Activation::leaky_relu:
      return x > 0 ? x : 0.2 * x;
    case Activation::elu:
      return elu;
    case Activation::selu:
      return 1.05070098735548049342 * (x > 0 ? x : 1.67326324235437728482 * elu);
    case Activation::gelu:
      return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
    case Activation::gelu_tanh:
      return x * 0.5 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::silu:
      return x * sigmoid(x);
    case Activation::mish:
      return x * std::tanh(softplus);
    case Activation::sigmoid:
      return sigmoid(x);
    case Activation::log_sigmoid:
      return std::log(sigmoid(x));
    case Activation::hard_sigmoid:
      return hard_sigmoid;
    case Activation::sparse_sigmoid:
      return std::clamp(0.5 * (x + 1), 0.0, 1.0);
    case Activation::hard_silu:
      return x * hard_sigmoid;
    case Activation::tanh:
      return std::tanh(x);
    case Activation::hard_tanh:
      return std::clamp(x, -1.0, 1.0);
    case Activation::tanh_shrink:
      return x - std::tanh(x);
    case Activation::softsign:
      return x / (1 + std::fabs(x));
    case Activation::softplus:
      return softplus;
    case Activation::squareplus:
      return (x + std::sqrt(x * x + 4)) / 2;
    case Activation::sparse_plus:
      return x <= -1 ? 0 : (x >= 1 ? x : 0.25 * (x + 1) * (x + 1));
    case Activation::exponential:
      return std::exp(x);
    case Activation::soft_shrink:
      return x > 0.5 ? x - 0.5 : (x < -0.5 ? x + 0.5 : 0);
    case Activation::hard_shrink:
      return std::fabs(x) > 0.5 ? x : 0;
    case Activation::softmax:
      break;
  }
  throw std::logic_error("not elementwise");
}

/// All activations of single elements.
inline std::vector<Activation> elementwise_activations() {
  std::vector<Activation> all;
  for (const Activation activation : all_activations()) {
    if (activation != Activation::softmax) all.push_back(activation);
  }
  return all;
}

}  // namespace meshwork::test
