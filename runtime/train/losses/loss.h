// Loss: what training makes small. See metric.h, of which it is the kind that has a gradient.
#pragma once

#include <memory>

#include "runtime/train/metrics/metric.h"

namespace meshwork {

class Loss : public Metric {
 public:
  [[nodiscard]] Better better() const final { return Better::lower; }
  /// The shape of the targets that go with predictions of this one, where it can be chosen. Throws
  /// `Error` for predictions that the loss cannot take.
  [[nodiscard]] virtual Shape target_shape(const Shape& prediction) const = 0;
};

using SharedLoss = std::shared_ptr<const Loss>;

}  // namespace meshwork
