// Predictions in pieces of positions (graph/sequences.h), as the tester of layers compares them with
// those of whole sequences.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/graph/plan.h"
#include "runtime/train/model.h"

namespace meshwork {

/// How outputs of whole sequences follow from those of pieces.
struct InPieces {
  std::int64_t length = 0;              // positions of a sequence; 0: the model takes no pieces
  std::vector<Shape> shapes;            // by output: of whole sequences, with an open batch
  std::vector<std::size_t> dimensions;  // by output: which one counts positions
};
/// Of the model of `plan`. One position is no piece.
[[nodiscard]] InPieces in_pieces(const Plan& plan);

/// What `predict_step` gives for `batch`, from half of its positions, then one, then the others: a
/// first piece, one of a single position, and one that goes on behind several. Collective.
[[nodiscard]] std::vector<std::vector<float>> predict_in_pieces(Model& model, const InPieces& of,
                                                                const BatchView& batch);

}  // namespace meshwork
