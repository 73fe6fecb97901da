// How a training step walks through its batch.
//
// A *micro-batch* is a range of a batch's rows, as block_range divides them, whatever the mesh.
// Each goes forward and backward by itself, so that the activations of one are there at a time.
// Their gradients are added in this order, and reduced and used once. Losses, metrics and draws are
// those of the whole batch. Where samples are compared with one another (statistics of
// BatchNormalization, Circle, Dice over all samples), that is within the micro-batch.
//
// *Recomputed* activations are forgotten after forward and made again just before their backward.
// Each layer or block whose path a pattern matches is recomputed as a whole; values between two of
// them stay. Draws are the same, moving statistics follow once, and so results are the same bits.
//
// Where the model has stages, each walks through the micro-batches in the order of a schedule
// (schedule.h).
//
// All are one mechanism: the step is a list of instructions without branches, and a walk books the
// same operations again, for other rows or at another time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/graph/pipeline_schedules.h"
#include "runtime/shape/partition.h"

namespace meshwork {

struct StepWalk {
  std::int64_t micro_batches = 1;  // at most: each has a row
  std::string recompute;           // paths, as recomputed_spans takes them; "": nothing
  PipelineSchedule schedule = one_forward_one_backward();
  auto operator<=>(const StepWalk&) const = default;

  /// The micro-batches of a batch of `rows`; one at least.
  [[nodiscard]] std::vector<Range> of(std::int64_t rows) const;
  /// The most rows that are worked on at once.
  [[nodiscard]] std::int64_t rows_at_once(std::int64_t rows) const;
};

}  // namespace meshwork
