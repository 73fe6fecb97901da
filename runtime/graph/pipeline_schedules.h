// The schedules (schedule.h) that Meshwork has.
//
// With p coordinates of v stages each, all of which take equally long, and m micro-batches, a rank is
// idle for a part of the time that it works:
//
// `1f1b` goes forward until the pipeline is full, then forward and backward in turns, then backward with
// the rest: (p - 1) / (m v). Coordinate i holds at most p - i micro-batches (Narayanan et al.,
// arXiv:1806.03377). With several stages it is interleaved: it takes p micro-batches through its first
// stage, then through its next (Narayanan et al., arXiv:2104.04473). It holds more, p v + p - 1 of a
// stage at most. Where p does not divide m, the last micro-batches leave gaps.
//
// `gpipe` goes forward with all micro-batches, then backward (Huang et al., arXiv:1811.06965). It is as
// fast, and holds all m v.
//
// `zero_bubble` puts off gradients of weights to where a rank would be idle: ZB-H1 of Qi et al.,
// arXiv:2401.10241. A rank is idle for (p - 1) / (3 m), and holds p micro-batches. Put off are those of
// products and convolutions (Lowering::input_gradient_is_complete), which take the most.
//
// `in_turn` takes one micro-batch after the other, forward and backward. One stage works at a time.
//
// A file can list the actions: a line for each coordinate, actions with commas between, nothing between
// two commas for none. So PyTorch writes them. Of micro-batches that a batch does not have the actions
// are left out.
#pragma once

#include <filesystem>

#include "runtime/graph/schedule.h"

namespace meshwork {

[[nodiscard]] PipelineSchedule one_forward_one_backward();
[[nodiscard]] PipelineSchedule gpipe();
[[nodiscard]] PipelineSchedule zero_bubble();
[[nodiscard]] PipelineSchedule in_turn();
/// Reads the file. Throws `Error` with the line for text that is no action. It is for as many
/// coordinates as the file has lines that are not empty.
[[nodiscard]] PipelineSchedule listed_actions(const std::filesystem::path& file);

}  // namespace meshwork
