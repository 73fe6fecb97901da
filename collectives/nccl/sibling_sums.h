// Whether communicators that ranks have prepared together, siblings, add in one order.
//
// Replicas of a value are reduced over siblings, each by its own, and stay alike only if all of
// them round alike. NCCL's order follows from where the GPUs are, which need not be the same in
// each. Nothing tells that order, but sums show it: terms of many magnitudes, of which every order
// gives other bits, are added by each and the sums compared.
#pragma once

#include <cstdint>
#include <functional>

#include "collectives/communicator.h"
#include "collectives/device_queues.h"

namespace meshwork::nccl {

/// Adds `count` values up over the ranks of the communicator, in place.
using SumInPlace = std::function<void(float* values, std::int64_t count)>;

/// For a small, a middle and a large sum, since NCCL has an algorithm for each; the terms lie in
/// pinned memory. Communicators of different sizes compute no replicas, and two terms have but one
/// order. Every rank of `ranks` calls it, with its own communicator. The same answer on all.
[[nodiscard]] bool siblings_add_alike(const Communicator& ranks, const Communicator& communicator,
                                      DeviceQueues& device, const SumInPlace& sum);

}  // namespace meshwork::nccl
