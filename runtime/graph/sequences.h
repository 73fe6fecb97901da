// Sequences that are worked on piece by piece: what a step has seen, later ones need not see again.
//
// The inputs of a model of sequences are (batch, positions, ...). A *piece* is some consecutive
// positions of them, and a step of prediction can work on a piece. It is booked from the plan of whole
// sequences with another number of positions, as every step is with its number of rows: layouts,
// splits and collectives follow from that plan. Where the piece begins is known when the step runs
// (StepScalars::position), so that one program serves all of a text.
//
// Which dimension of a tensor counts positions follows from the rules: an operation hands the letter on
// from its inputs to its output. What it needs at other positions follows from the letter too:
//
// - one of no special kind: nothing. The operation works on the piece. Of an input without positions
//   that has the letter, such as a table of positions, the piece is *cut* out.
// - one of windows, of which the operation takes pieces (`Operation::takes_pieces`): inputs whose
//   windows reach back are *kept*. A step puts the piece behind what earlier steps have left, and the
//   operation sees an input of all positions; it looks at none behind its own.
// - any other: the model can be run on whole sequences alone. The operation is the *obstacle*.
//
// What holds then: outputs at a position depend on positions up to it. Kept inputs lie as the operation
// needs them, a rank its heads, and whole along the positions, also where axes split these; how much
// that is does not depend on the piece, so pieces of any length go on with the same. Pieces come in
// order: who begins at a position has given those before it, in steps of as many rows. Positions that
// come again replace what was kept of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/graph/plan.h"

namespace meshwork {

/// How a model's tensors follow from sequences.
struct Sequences {
  std::int64_t length = 0;      // positions of a whole one
  std::vector<int> dimensions;  // by tensor: which one counts positions; -1: none does
  std::string obstacle;  // to pieces, in words; "": there is none, and all outputs have positions
};
[[nodiscard]] Sequences sequences_of(const Plan& plan);

/// What a step works on: so many positions of its sequences, which must outlive it.
struct Piece {
  const Sequences* of = nullptr;
  std::int64_t positions = 0;

  /// `shape`, of tensor `id`, with as many.
  [[nodiscard]] Shape shape_of(TensorId id, Shape shape) const;
  /// The letter of positions in the rule of an operation with these inputs; 0: it has none.
  [[nodiscard]] char letter(const Rule& rule, const std::vector<TensorId>& inputs) const;
  /// Whether input `input` of an operation, which has that letter, is kept.
  [[nodiscard]] bool keeps(const PlannedOperation& planned, const Graph& graph, int input) const;
};

/// By operation: whether the outputs follow from what it makes.
[[nodiscard]] std::vector<bool> operations_of_outputs(const Plan& plan);

}  // namespace meshwork
