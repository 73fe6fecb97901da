// Loss: what training makes small. See metric.h, of which it is the kind that has a gradient.
//
// A loss can weigh its rows: what a row gives, and its gradient, are multiplied by its weight. The
// mean stays that over the number of rows, as in Keras (`sum_over_batch_size`), so that weights all
// of 2 double loss and gradient. Metrics are not weighted.
//
// Rows that do not count (metric.h) are the exception: the mean is over the others of the batch, on
// all ranks and in all micro-batches, and 0 where there are none. It is made by weights of rows,
// batch by batch; in the logs of an epoch batches count by their rows, as in Keras.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/train/losses/class_weights.h"
#include "runtime/train/metrics/metric.h"

namespace meshwork {

class Loss : public Metric {
 public:
  [[nodiscard]] Better better() const final { return Better::lower; }
  /// The shape of the targets that go with predictions of this one, where it can be chosen. Throws
  /// `Error` for predictions that the loss cannot take.
  [[nodiscard]] virtual Shape target_shape(const Shape& prediction) const = 0;
  /// The operation that gives rows the weights of their classes (class_weights.h). Throws `Error`
  /// for targets that are no classes, and for classes that there are not.
  [[nodiscard]] virtual std::unique_ptr<Operation> class_weights(const Shape& prediction,
                                                                 const Shape& target,
                                                                 const WeightsByNumber& weights,
                                                                 RowWeightInputs inputs) const;
};

using SharedLoss = std::shared_ptr<const Loss>;

}  // namespace meshwork
