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
#include <string>

#include "collectives/collective.h"
#include "collectives/communicator.h"
#include "collectives/device_queues.h"

namespace meshwork::nccl {

/// Whether ranks' communicators are siblings whose sums could differ. Communicators of different
/// sizes compute no replicas, and two terms have but one order. Every rank of `ranks` calls it,
/// with its own communicator. The same answer on all.
[[nodiscard]] bool are_siblings(const Communicator& ranks, const Communicator& communicator);

/// Adds up over the ranks of the communicator. What is received is there when it returns.
using TriedSum = std::function<void(const void* send, void* receive)>;

/// Why siblings may add in different orders what `sum` adds, an all-reduce or a reduce-scatter of
/// floating-point numbers; empty if they do not. The terms lie in pinned memory; where that is not to
/// be had, that is why. Siblings with another `subject` are not compared. Every rank of `ranks`
/// calls it, with its own communicator. The same answer on all.
[[nodiscard]] std::string why_siblings_part(const Communicator& ranks,
                                            const Communicator& communicator, DeviceQueues& device,
                                            const Collective& sum,
                                            std::span<const std::int64_t> subject,
                                            const TriedSum& run);

}  // namespace meshwork::nccl
