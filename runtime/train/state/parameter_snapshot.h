// ParameterSnapshot: the values of a model's variables at some moment, on each rank its own blocks.
// The optimizer's slots are not among them.
#pragma once

#include <vector>

#include "runtime/graph/parameters.h"
#include "runtime/train/loop/training.h"

namespace meshwork {

class ParameterSnapshot final : public WeightsSnapshot {
 public:
  /// Zeros, to be filled.
  explicit ParameterSnapshot(const ParameterForm& form)
      : values(static_cast<std::size_t>(form.trainable_count)),
        fixed(static_cast<std::size_t>(form.fixed_count)) {}
  /// A copy of what `parameters` are now.
  explicit ParameterSnapshot(const Parameters& parameters) : ParameterSnapshot(parameters.form()) {
    parameters.read_values(values, fixed);
  }

  /// The block of one variable.
  [[nodiscard]] const float* value(const ParameterSpan& span) const {
    return (span.trainable ? values : fixed).data() + span.offset;
  }
  [[nodiscard]] float* value(const ParameterSpan& span) {
    return (span.trainable ? values : fixed).data() + span.offset;
  }

  std::vector<float> values;  // the stretches of Parameters
  std::vector<float> fixed;
};

}  // namespace meshwork
