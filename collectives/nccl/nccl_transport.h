// The backend of GPUs: NCCL, each rank with one of its own.
//
// NCCL's operations are work of the GPU. They are enqueued in the device's queue of transfers, all
// of them in that one, in the order of the program: behind a mark behind the kernels that were
// started before, and in front of a mark that kernels started later wait for. The processor only
// starts them. A started operation is the same without the last, which its wait makes up for.
//
// So they can be captured with the kernels around them (device_queues.h), by all ranks of a
// communicator alike: in a captured step the processor starts no operation at all. When the first
// communicator is prepared, a small sum is tried: where it is wrong, on any rank, that is an error on
// all. Then it is tried captured: where that fails, `remark` says why, and operations are started one
// by one.
//
// What goes where. A communicator of more than one rank that was prepared has one of NCCL's, made
// of the same ranks in the same order: that of all ranks, or one that is split from it and shares
// its resources. Over such:
//   - reductions, gathers and broadcasts of the device's memory are NCCL's: one call, or, where
//     blocks differ in size or do not lie side by side, a group with a rooted call for each;
//   - all-to-alls and exchanges are NCCL's, whatever memory they are on, as a group of messages.
//     What lies in the host's memory goes through pinned memory, which NCCL reaches.
// The rest goes to the transport that stages: operations on the host's memory, those over other
// communicators, and maxima and minima of floating-point numbers, of which NCCL loses a NaN.
//
// Bits. NCCL's rings and trees add in an order that follows from the operation and from where the
// GPUs are, so that the result is the same on all ranks, from call to call, and from run to run on
// the same machines. What adds in the network's switches (NVLS) is not, and is switched off, unless
// the environment says otherwise (NCCL_NVLS_ENABLE). Siblings (Transport::prepare) can lie
// differently on the machines, so what they add is compared, for a small, a middle and a large
// reduction; where it differs, these communicators are left to the transport that stages, and
// `remark` says so.
//
// Failures. Every return code is checked, and a thread asks NCCL a few times a second for errors
// that came later, a peer that is gone, say: they end the job, with the operation that was started
// last. A peer that does not come blocks the GPU without an error. So that the watchdog sees it,
// the GPU counts the operations that are done (enqueued.h); besides, the processor starts one by
// itself only when the one `operations_ahead` before it is done. Where an error leaves operations that
// other ranks never join, `give_up` aborts them, and no other can be started.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "collectives/transport.h"

namespace meshwork::nccl {

/// Of which the processor may be ahead of the GPU.
inline constexpr std::size_t operations_ahead = 8;

/// For communicators of `ranks` and of part of them. `staged` is a transport for the same device,
/// which outlives both and whose queues are streams of CUDA; the calling thread has made its GPU
/// the current one. Every rank of `ranks` calls it. `remark` is the first of Transport::remark.
[[nodiscard]] std::unique_ptr<Transport> make_nccl_transport(const Communicator& ranks,
                                                             std::unique_ptr<Transport> staged,
                                                             DeviceQueues& device,
                                                             std::string remark = {});

/// Of the NCCL that is loaded: "2.28.9".
[[nodiscard]] std::string loaded_version();

}  // namespace meshwork::nccl
