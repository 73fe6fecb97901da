// The backend for ranks that share memory: no system calls, no copies that are not needed.
//
// Operations over the ranks of one node go through memory that all of them map (shared_group.h says
// how). It is made, by all ranks of the communicator together, when the communicator is prepared or
// first used, and goes with the communicator. Over a single rank there is nothing to do but copy.
//
// A communicator that spans nodes, or whose ranks cannot share memory, is refused by the transport
// "shared". The transport "auto" serves a job by shared memory or by MPI, never by both, and
// decides once, when it is made, by all ranks together: shared memory if all ranks are on one node
// and can share memory there, otherwise MPI for every communicator. For replicas of a value are
// computed over sibling communicators, each of which has to add in one way for the replicas to stay
// alike. Where shared memory cannot be had later, for a communicator or a buffer, that is an error,
// not another decision.
//
// Buffers that the transport has given (`allocate`) are worked on where they are: an all-reduce
// reads and writes every element of every rank once. Others are staged through the cache in pieces.
// The ranks need not agree in this.
#pragma once

#include <memory>

#include "collectives/shared_group.h"
#include "collectives/transport.h"

namespace meshwork {

struct SharedTransportOptions {
  SharedGroupOptions group;
  /// Whether MPI serves jobs whose ranks do not share memory; otherwise they are an error.
  bool or_mpi = false;
  /// For tests: ranks of the job that count as one node, in their order. 0: those that share one.
  int ranks_a_node = 0;
};

/// For communicators of `ranks` or of part of them. Every rank of `ranks` calls it.
[[nodiscard]] std::unique_ptr<Transport> make_shared_transport(
    const Communicator& ranks, const SharedTransportOptions& options = {});

}  // namespace meshwork
