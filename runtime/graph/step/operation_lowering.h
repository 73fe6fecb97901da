// OperationLowering: the Lowering of one planned operation, for one pass over it.
//
// It finds operands where StepValues and StepGradients have them, and hands back what the pass
// gave: outputs and new values of variables after forward, raw gradients after backward. What lives
// from forward to backward is the operation's `Remains`.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/graph/lowering.h"
#include "runtime/graph/step/factors.h"
#include "runtime/graph/step/gradients.h"
#include "runtime/graph/step/sums.h"
#include "runtime/graph/step/values.h"

namespace meshwork {

/// What backward of an operation finds of its forward pass.
struct Remains {
  Operand output;                          // where it left it; no buffer before forward
  std::map<std::string, Operand> scratch;  // by name
  std::map<int, Operand> boxes;            // by input with windows: where its box stands
  std::map<int, Operand> gradients;        // by input: those that forward wrote
  NarrowFactors narrow;
};

/// The parts of a step that forward of an operation touches.
struct ForwardParts {
  StepContext& step;
  StepValues& values;
  StepSums& sums;
};
/// Books forward of an operation, and takes over its output.
void lower_forward(const ForwardParts& parts, const PlannedOperation& planned, Remains& remains);

/// Books it once more, for backward. The values are the same, and variables keep theirs.
void lower_forward_again(const ForwardParts& parts, const PlannedOperation& planned,
                         Remains& remains);

/// The parts of a step that backward of an operation touches.
struct BackwardParts {
  StepContext& step;
  StepValues& values;
  StepGradients& gradients;
};
/// Books backward of an operation whose output's gradient is complete (a sum needs none), and takes
/// over the raw gradients that it gives.
void lower_backward(const BackwardParts& parts, const PlannedOperation& planned, Remains& remains);
/// The same for gradients of values alone. The function that it gives books the rest, when the step is
/// at the same micro-batch again: what comes after `Lowering::input_gradient_is_complete`.
[[nodiscard]] std::function<void()> lower_gradients_of_values(const BackwardParts& parts,
                                                              const PlannedOperation& planned,
                                                              Remains& remains);

}  // namespace meshwork
