// Cross-entropy over classes: the operation behind the sparse and the dense kind.
//
// Classes are the last dimension, letter k, and may be split: no rank gathers them. Of a row with
// target weights t, and logits x with maximum m over all classes,
//
//     loss = log(z0) * z2 - z1,   z = sum over classes of { exp(x - m), t (x - m), t }
//
// so that the maxima and the three sums of the rows are all that is reduced over the axes that
// split classes. Of probabilities p with sum s over all classes
// (keras/src/backend/numpy/nn.py, categorical_crossentropy),
//
//     loss = sum over classes of -t log(clip(p / s))
//
// with s, then the loss of the batch, and for the gradient sum t [p / s not clipped] of the rows
// reduced. Either way the sum over the batch that comes out is complete over the axes of k.
//
// Where nothing splits classes, one kernel reads each row once and gives loss and gradient, and the
// builder lets metrics ride with it (kernel_joins.h).
#pragma once

#include <memory>
#include <string>

#include "runtime/graph/operation.h"
#include "runtime/train/losses/comparison.h"

namespace meshwork {

struct ClassCrossentropy {
  TargetForm targets = TargetForm::classes;  // or weights
  bool from_logits = false;
  double smoothing = 0;
};

/// `kind` names the operation.
[[nodiscard]] std::unique_ptr<Operation> make_class_crossentropy(
    std::string kind, const ClassCrossentropy& crossentropy);

}  // namespace meshwork
