// Circle loss (kernels/circle.h), for the loops of any device. Bound by exponentials.
#pragma once

#include <cmath>

#include "runtime/device/body_forms.h"
#include "runtime/device/kernels/circle.h"

namespace meshwork::bodies {

struct CircleSums {
  const float* s;
  const std::int32_t* labels;
  float* l;
  std::int64_t samples;
  CircleFunction function;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    for (int repulsion = 0; repulsion < 2; ++repulsion) {
      float most = -INFINITY;
      double sum = 0;
      each(i, repulsion == 0, [&](float value) {
        if (value > most) most = value;
      });
      each(i, repulsion == 0, [&](float value) { sum += static_cast<double>(expf(value - most)); });
      l[2 * i + repulsion] = most + static_cast<float>(log(sum));
    }
  }

 private:
  /// f(what the pair of sample i and another one adds).
  template <class Function>
  MESHWORK_HOST_DEVICE void each(std::int64_t i, bool attracts, const Function& f) const {
    for (std::int64_t j = 0; j < samples; ++j) {
      if ((labels[i] == labels[j]) != attracts || !function.counts(i, j)) continue;
      f(function.pair(s[i * samples + j], attracts).value);
    }
  }
};

// By the logarithms of a sample's two sums.
[[nodiscard]] MESHWORK_HOST_DEVICE inline double circle_loss(const float* l) {
  const double sum = static_cast<double>(l[0]) + static_cast<double>(l[1]);
  return (sum < 0 ? 0.0 : sum) + log1p(exp(-fabs(sum)));
}

struct CircleLoss {
  const float *l, *weights;  // null: none
  float* share;
  double* loss;
  std::int64_t samples;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t) const {
    double sum = 0;
    std::int64_t above = 0;
    for (std::int64_t i = 0; i < samples; ++i) {
      const double one = circle_loss(l + 2 * i);
      if (one == 0) continue;  // a NaN counts
      sum += weights == nullptr ? one : one * static_cast<double>(weights[i]);
      ++above;
    }
    *share = above > 0 ? static_cast<float>(1.0 / static_cast<double>(above)) : 0.0f;
    *loss = above > 0 ? sum * static_cast<double>(samples) / static_cast<double>(above) : 0.0;
  }
};

struct CircleGradientRow {
  const std::int32_t* labels;
  float* s;
  CircleFunction function;
  std::int64_t row;
  float sums[2];
  float factor;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t column, std::int64_t i) const {
    const bool attracts = labels[row] == labels[column];
    if (factor == 0.0f || !function.counts(row, column)) {
      s[i] = 0.0f;
      return;
    }
    const CircleFunction::Pair pair = function.pair(s[i], attracts);
    s[i] = factor * expf(pair.value - sums[attracts ? 0 : 1]) * pair.slope;
  }
};
struct CircleGradient {
  const std::int32_t* labels;
  const float *l, *weights, *share;
  float* s;
  CircleFunction function;
  float scale;
  [[nodiscard]] MESHWORK_HOST_DEVICE CircleGradientRow row(std::int64_t row) const {
    const float *of_row = l + 2 * row, sum = of_row[0] + of_row[1];
    const float weight = weights == nullptr ? 1.0f : weights[row];
    return {labels,
            s,
            function,
            row,
            {of_row[0], of_row[1]},
            scale * *share * weight / (1 + expf(-sum))};
  }
};

template <class Loops>
void add_circle(auto& kernels) {
  kernels.template add<CircleSumsSpec>([](const CircleSumsSpec& spec, const auto& context) {
    return Loops::elements(context, spec.samples, 64 * spec.samples, [=](void* const* operands) {
      return CircleSums{at(operands, 0), at<const std::int32_t>(operands, 1), at(operands, 2),
                        spec.samples, spec.function};
    });
  });
  kernels.template add<CircleLossSpec>([](const CircleLossSpec& spec, const auto& context) {
    return Loops::elements(context, 1, 64 * spec.samples, [=](void* const* operands) {
      const int behind = spec.weighted ? 2 : 1;
      return CircleLoss{at(operands, 0), spec.weighted ? at(operands, 1) : nullptr,
                        at(operands, behind), at<double>(operands, behind + 1), spec.samples};
    });
  });
  kernels.template add<CircleGradientSpec>([](const CircleGradientSpec& spec, const auto& context) {
    return Loops::grid(context, spec.samples, spec.samples, 64, [=](void* const* operands) {
      const int behind = spec.weighted ? 3 : 2;
      return CircleGradient{at<const std::int32_t>(operands, 0),
                            at(operands, 1),
                            spec.weighted ? at(operands, 2) : nullptr,
                            at(operands, behind),
                            at(operands, behind + 1),
                            spec.function,
                            spec.scale};
    });
  });
}

}  // namespace meshwork::bodies
