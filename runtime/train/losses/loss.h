// Loss: what training makes small. See metric.h, of which it is the kind that has a gradient.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/train/metrics/metric.h"

namespace meshwork {

/// What predictions are to a loss. It computes a number from others too, but not the one meant.
enum class Predictions : std::uint8_t { any, probabilities, logits };

class Loss : public Metric {
 public:
  [[nodiscard]] Better better() const final { return Better::lower; }
  /// The shape of the targets that go with predictions of this one, where it can be chosen. Throws
  /// `Error` for predictions that the loss cannot take.
  [[nodiscard]] virtual Shape target_shape(const Shape& prediction) const = 0;
  /// What it takes its predictions for.
  [[nodiscard]] virtual Predictions predictions() const { return Predictions::any; }
};

using SharedLoss = std::shared_ptr<const Loss>;

}  // namespace meshwork
