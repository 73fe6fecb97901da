// Crossing: a tensor goes from the places that hold it to others.
//
// Its layout does not change: each rank there receives the block that it is to hold from one rank that
// holds the same, in one message. The sender has the receiver's coordinates on all axes but those of
// the places. On these it has the receiver's where that holds the tensor, else the nearest lower one
// that does, else the lowest. So the pairs follow from the places alone.
//
// A rank starts its messages and goes on. It waits for what it receives where that is first used, and
// for what it has sent before the memory is used for something else. Messages of different tensors
// are matched apart (`Exchange::channel`), those of one tensor in their order.
#pragma once

#include <vector>

#include "runtime/mesh/layout.h"

namespace meshwork {

/// What one rank has to do with a crossing.
struct Crossing {
  std::vector<Axis> axes;  // of the places, ascending: ranks are numbered over them
  std::vector<int> sends_to;
  int receives_from = -1;  // -1: it receives nothing
  [[nodiscard]] bool concerns_rank() const { return receives_from >= 0 || !sends_to.empty(); }
};

/// The part of `rank` where a tensor that is held at `from` goes to those of `to` that do not hold it.
[[nodiscard]] Crossing crossing_of(const Places& from, const Places& to, const MeshShape& mesh,
                                   std::int64_t rank);

/// Those at one of the two or at both: for each axis, the coordinates of either.
[[nodiscard]] Places joined(const Places& a, const Places& b);

}  // namespace meshwork
