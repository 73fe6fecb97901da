// How far ahead the right class stands: the operation behind accuracies over classes and top-k.
//
// A row counts 1 if fewer than k classes stand before the right one in descending order of the
// predictions, else 0; of equal predictions the lower class stands first. With k = 1 that is "the
// right class is the argmax". Keras's top-k counts every class that ties with the k-th instead, so
// that a constant prediction is always right there.
//
// Classes may be split over axes: the prediction for the right class is summed over them (all but
// one rank give 0), then the numbers of classes ahead. Where targets are weights, the right class
// is the lowest of those with the largest weight, found by a maximum and a minimum over the same
// axes. Where nothing splits classes, one kernel does all of it, and that of a loss too, if it
// stands before it (kernel_joins.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/train/losses/comparison.h"
#include "runtime/train/metrics/metric.h"

namespace meshwork {

struct ClassRank {
  TargetForm targets = TargetForm::classes;  // or weights
  std::int64_t k = 1;
};

/// A metric called `name`; `kind` names its operation.
[[nodiscard]] SharedMetric make_class_rank(std::string name, std::string kind,
                                           const ClassRank& rank);

}  // namespace meshwork
