// Whether communicators that ranks have prepared together, siblings, add in one order.
//
// Replicas of a value are reduced over siblings, each by its own, and stay alike only if all of
// them round alike. NCCL's order follows from where the GPUs are, which need not be the same in
// each, and from the size of what is added. Nothing tells that order, but sums show it: terms of
// many magnitudes, of which every order gives other bits, are added by each and the sums compared.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "collectives/communicator.h"
#include "collectives/device_queues.h"

namespace meshwork::nccl {

/// Whether ranks' communicators are siblings whose sums could differ. Communicators of different
/// sizes compute no replicas, and two terms have but one order. Every rank of `ranks` calls it,
/// with its own communicator. The same answer on all.
[[nodiscard]] bool are_siblings(const Communicator& ranks, const Communicator& communicator);

/// Adds up over the ranks of the communicator, as all-reduce in place or as reduce-scatter. What is
/// received is there when it returns.
using TriedSum = std::function<void(float* send, float* receive)>;

/// For one size: `counts` is that of an all-reduce, or those of a reduce-scatter's blocks. The terms
/// lie in pinned memory. Siblings that are given other counts are not compared. Every rank of
/// `ranks` calls it, with its own communicator. The same answer on all.
[[nodiscard]] bool siblings_add_alike(const Communicator& ranks, const Communicator& communicator,
                                      DeviceQueues& device, std::span<const std::int64_t> counts,
                                      const TriedSum& sum);

}  // namespace meshwork::nccl
