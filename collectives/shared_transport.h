// The backend for ranks that share memory: no system calls, no copies that are not needed.
//
// Operations over the ranks of one node go through memory that all of them map (shared_group.h says
// how). It is made, by all ranks of the communicator together, when the communicator is prepared or
// first used, and goes with the communicator. Over a single rank there is nothing to do but copy.
//
// A communicator that spans nodes is refused. Where shared memory cannot be had, for the transport,
// a communicator or a buffer, that is an error: who wants to go on without decides so for all
// ranks.
//
// Buffers that the transport has given (`allocate`) are worked on where they are: an all-reduce
// reads and writes every element of every rank once. Others are staged through the cache in pieces.
// The ranks need not agree in this.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "collectives/nodes.h"
#include "collectives/shared_group.h"
#include "collectives/transport.h"

namespace meshwork {

struct SharedTransportOptions {
  SharedGroupOptions group = {};
  std::shared_ptr<const Nodes> nodes = nullptr;  // of the ranks; null: they are asked
  int ranks_a_node = 0;                          // for tests, as for Nodes; without `nodes`
  std::optional<bool> crowded = std::nullopt;    // for tests, in place of what Nodes finds
};

class SharedTransport : public Transport {
 public:
  /// Returns when every started operation, over whatever ranks, is done on this rank, and needs
  /// nothing more of it to be done on others.
  virtual void finish_started() = 0;
  /// From now on `action` follows whatever brings started operations on, waits for others included.
  virtual void follow_with(std::function<void()> action) = 0;
};

/// What `options` have, or else what `ranks`, who all call it, find out together.
[[nodiscard]] std::shared_ptr<const Nodes> nodes_for(const Communicator& ranks,
                                                     const SharedTransportOptions& options);

/// Throws unless all ranks of `communicator` are on one of `nodes`.
void require_one_node(const Communicator& communicator, const Nodes& nodes);

/// For communicators of `ranks` or of part of them. Every rank of `ranks` calls it.
[[nodiscard]] std::unique_ptr<SharedTransport> make_shared_transport(
    const Communicator& ranks, const SharedTransportOptions& options = {});

}  // namespace meshwork
