// The backend for ranks of several nodes: shared memory inside nodes, MPI between them.
//
// A communicator with equally many consecutive ranks on each of its nodes has two *levels*: the
// ranks of a node, which share memory, and the *peers*, those with the same number on every node,
// which talk through MPI. Every rank sends, each its own part, so that each byte goes from node to
// node once and all ranks of a node share the work:
//
//   all-reduce      the node reduces in parts; the peers reduce their part; the node gathers
//   in parts        the same without the last: a part for each rank of the node
//   reduce-scatter  the node, for each node in turn, then the peers
//   all-gather      the peers, then the node, for each node in turn
//
// Everything else over two levels is MPI's, as it is over ranks that are each on a node of their
// own; over ranks of one node all of it is shared memory's.
//
// Replicas of a value are computed over sibling communicators, each of which has to add in one way
// for the replicas to stay alike. So siblings (Transport::prepare) have levels if all of them have
// them, with equally many ranks on each node; otherwise they are MPI's alone, as a communicator is
// that has not been prepared. On nodes that hold consecutive ranks, equally many, and a mesh whose
// last axes fill a node, that never happens.
//
// Started operations go on beside what is computed. As soon as a rank has reduced its part on the
// node, which it does itself, at the next start, wait or `advance`, it hands the part over to MPI,
// which brings it on (mpi_reductions.h). Parts are handed over in the order of their start, so that
// all peers do it in the same order, whatever they wait for first. What ends a whole all-reduce,
// the gathering on the node, is done when it or a later one is waited for, or when another
// operation over two levels comes, likewise in the order of their start. A reduction in parts ends
// without it, so nobody but who waits for it waits for it: a whole one that backward needs is not
// held up by the gradients that were started before. And a rank waits in MPI only when what it has
// started on its node is done, since others there, who may wait for that, get nothing more from it
// meanwhile.
#pragma once

#include <memory>

#include "collectives/mpi_reductions.h"
#include "collectives/shared_transport.h"

namespace meshwork {

/// For communicators of `ranks` or of part of them. Every rank of `ranks` calls it. Throws, on all
/// ranks of a node, if they cannot share memory.
[[nodiscard]] std::unique_ptr<Transport> make_hierarchical_transport(
    const Communicator& ranks, const SharedTransportOptions& options = {},
    Progress progress = Progress::automatic);

}  // namespace meshwork
