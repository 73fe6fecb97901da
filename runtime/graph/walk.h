// How a training step walks through its batch.
//
// A batch is worked on in *micro-batches*: equal ranges of its rows, whatever the mesh, as block_range
// divides them. Each goes forward and backward by itself, so that the activations of one are there
// at a time; their gradients are added in this order, and reduced and used once. Losses and metrics
// are those of the whole batch, and so is what is drawn for a row. Statistics over a batch
// (BatchNormalization) are those of a micro-batch, and moving ones follow in order.
//
// What is *recomputed* is forgotten after forward and made again just before its backward. Layers
// and blocks whose paths a pattern matches are recomputed each as a whole: what lies between two of
// them stays. Draws are the same, moving statistics follow once, and so results are the same bits.
//
// Both are one mechanism: the step is a list of instructions without branches, and a walk books the
// same operations again, for other rows or at another time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/shape/partition.h"

namespace meshwork {

struct StepWalk {
  std::int64_t micro_batches = 1;  // of fewer rows than that each has one
  std::string recompute;           // a regular expression of paths; "": nothing
  auto operator<=>(const StepWalk&) const = default;

  /// The micro-batches of a batch of `rows`; one at least.
  [[nodiscard]] std::vector<Range> of(std::int64_t rows) const;
  /// The most rows that are worked on at once.
  [[nodiscard]] std::int64_t rows_at_once(std::int64_t rows) const;
};

}  // namespace meshwork
