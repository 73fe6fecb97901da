// The backend that is there always: MPI's own collectives.
//
// MPI counts with an `int`. A call whose bytes exceed `largest_bytes` is therefore done in pieces
// that do not: reductions and broadcasts piece by piece; a reduce-scatter or an all-gather, whose
// blocks lie too far apart for one call, as one rooted reduction or broadcast for each block. The
// choice follows from arguments that are the same on all ranks. An all-to-all, whose counts are
// not, and an exchange between few are always made of messages between pairs.
//
// Open MPI offers several algorithms for a started all-reduce, and its default for one in place
// (reduce to one rank, then broadcast) sends nearly twice what is needed. `MpiEnvironment` asks for
// the one that scatters the reduction, which is as fast as the blocking call.
//
// Over a prepared communicator that spans nodes, started all-reduces go on beside what the rank
// computes (mpi_reductions.h), through a duplicate of it that nothing else uses: so they and the
// blocking ones need not begin in one order. Over any other they make progress inside MPI calls
// only: between ranks of a node there is no waiting to hide, but work. Started all-gathers go on in
// `advance`, between nodes; within one they are done at once.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>

#include "collectives/mpi_reductions.h"
#include "collectives/nodes.h"
#include "collectives/transport.h"

namespace meshwork {

struct MpiTransportOptions {
  /// The largest extent of memory, in bytes, that is handed to one MPI call; at least 8.
  std::int64_t largest_bytes = std::numeric_limits<int>::max();
  /// Where the ranks are. Null: on one node, as far as is known.
  std::shared_ptr<const Nodes> nodes;
  /// How started operations between nodes go on.
  Progress progress = Progress::automatic;
};

[[nodiscard]] std::unique_ptr<Transport> make_mpi_transport(
    const MpiTransportOptions& options = {});

}  // namespace meshwork
