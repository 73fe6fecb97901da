// Generalized cross-entropy, for the loops of any device. Bound by memory traffic.
#pragma once

#include <cmath>

#include "runtime/device/body_forms.h"
#include "runtime/device/class_functions.h"
#include "runtime/device/kernels/generalized_crossentropy.h"

namespace meshwork::bodies {

struct GeneralizedCrossentropy {
  const std::int32_t* classes;
  const float* v;
  std::int64_t class_count;
  double q;
  RowWeights weights;
  MESHWORK_HOST_DEVICE double operator()(std::int64_t row) const {
    if (!is_class(classes[row], class_count)) return 0.0;
    return weights.of(row, (1.0 - pow(static_cast<double>(v[row]), q)) / q);
  }
};
struct GeneralizedCrossentropyRow {
  float* dp;
  std::int64_t column;
  float slope;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t j, std::int64_t i) const {
    dp[i] = j == column ? slope : 0.0f;
  }
};
struct GeneralizedCrossentropyGradient {
  const std::int32_t* classes;
  const float* v;
  float* dp;
  std::int64_t first_class;
  double q;
  float scale;
  RowWeights weights;
  [[nodiscard]] MESHWORK_HOST_DEVICE GeneralizedCrossentropyRow row(std::int64_t row) const {
    // The slope at 0 is infinite. Of a softmax that gave 0 it is multiplied by that: a finite one
    // gives the limit, 0, and no NaN.
    const double at = v[row] == 0.0f ? 1.17549435e-38 : static_cast<double>(v[row]);
    const auto power = static_cast<float>(pow(at, q - 1.0));
    return {dp, classes[row] - first_class, weights.of(row, -scale * power)};
  }
};

template <class Loops>
void add_generalized_crossentropy(auto& kernels) {
  kernels.template add<GeneralizedCrossentropySpec>([](const GeneralizedCrossentropySpec& spec,
                                                       const auto& context) {
    const bool weighted = spec.rows_a_weight > 0;
    return Loops::sum(context, spec.rows, 32, weighted ? 4 : 3, 1.0, [=](void* const* operands) {
      return GeneralizedCrossentropy{at<const std::int32_t>(operands, 0),
                                     at(operands, 1),
                                     spec.classes,
                                     spec.q,
                                     {weighted ? at(operands, 2) : nullptr, spec.rows_a_weight}};
    });
  });
  kernels.template add<GeneralizedCrossentropyGradientSpec>(
      [](const GeneralizedCrossentropyGradientSpec& spec, const auto& context) {
        return Loops::grid(context, spec.rows, spec.columns, 4, [=](void* const* operands) {
          const bool weighted = spec.rows_a_weight > 0;
          return GeneralizedCrossentropyGradient{
              at<const std::int32_t>(operands, 0),
              at(operands, 1),
              at(operands, weighted ? 3 : 2),
              spec.first_class,
              spec.q,
              spec.scale,
              {weighted ? at(operands, 2) : nullptr, spec.rows_a_weight}};
        });
      });
}

}  // namespace meshwork::bodies
