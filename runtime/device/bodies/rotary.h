// Vectors turned by their places. Sines and cosines of all places are found in double when the
// kernel is made. Bound by memory traffic.
#pragma once

#include <cmath>
#include <vector>

#include "runtime/device/body_forms.h"
#include "runtime/device/kernels/rotary.h"
#include "runtime/device/kernels/step_scalars.h"

namespace meshwork::bodies {

struct Rotary {
  const float* x;
  float* y;
  const StepScalars* scalars;    // null: x begins where the tables do
  const float *cosines, *sines;  // (places, half)
  std::int64_t places, vectors, half;
  struct Row {
    const float* x;
    float* y;
    const float *cosines, *sines;
    std::int64_t half;
    MESHWORK_HOST_DEVICE void operator()(std::int64_t pair, std::int64_t) const {
      const float a = x[pair], b = x[pair + half];
      y[pair] = a * cosines[pair] - b * sines[pair];
      y[pair + half] = b * cosines[pair] + a * sines[pair];
    }
  };
  /// Of one vector, whose columns are its pairs.
  [[nodiscard]] MESHWORK_HOST_DEVICE Row row(std::int64_t row) const {
    const std::int64_t begin = scalars == nullptr ? 0 : scalars->position;
    const std::int64_t place = begin + row / vectors % places;
    return {x + 2 * row * half, y + 2 * row * half, cosines + place * half, sines + place * half,
            half};
  }
};

template <class Loops>
void add_rotary(auto& kernels) {
  kernels.template add<RotarySpec>([](const RotarySpec& spec, const auto& context) {
    const std::int64_t half = spec.length / 2;
    std::vector<float> cosines, sines;
    for (std::int64_t place = 0; place < (spec.all > 0 ? spec.all - spec.first_place : spec.places);
         ++place) {
      for (std::int64_t pair = 0; pair < half; ++pair) {
        const double angle =
            static_cast<double>(spec.first_place + place) / spec.scaling *
            std::pow(spec.wavelength, -static_cast<double>(pair) / static_cast<double>(half));
        cosines.push_back(static_cast<float>(std::cos(angle)));
        sines.push_back(static_cast<float>(spec.back ? -std::sin(angle) : std::sin(angle)));
      }
    }
    return Loops::grid(context, spec.batch * spec.places * spec.vectors, half, 16,
                       [=, cosines = Loops::table(context, cosines),
                        sines = Loops::table(context, sines)](void* const* operands) {
                         const bool piece = spec.all > 0;
                         return Rotary{at(operands, 0),
                                       at(operands, piece ? 2 : 1),
                                       piece ? at<const StepScalars>(operands, 1) : nullptr,
                                       static_cast<const float*>(cosines->data()),
                                       static_cast<const float*>(sines->data()),
                                       spec.places,
                                       spec.vectors,
                                       half};
                       });
  });
}

}  // namespace meshwork::bodies
