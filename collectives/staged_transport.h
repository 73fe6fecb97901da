// A transport for buffers in a device's own memory, made of one for the host's.
//
// *Staging*: what an operation sends is copied to pinned memory of the host, the inner transport
// works there, and what it receives is copied back. Both copies are work in the device's queue of
// transfers: the first behind the kernels that were started before the operation, the kernels that
// are started after it behind the second. So the processor waits for what it sends, and never for
// what it has received. Large reductions, gathers and broadcasts go in *pieces*: while one is under
// way between ranks, the next is on its way to the host and the one before on its way back.
//
// A *started* reduction is copied as soon as the kernels that wrote its buffer are done, while
// later ones run. The inner transport is told of it when the copy has arrived, at the latest when
// the next operation is started or it is waited for: at points of the program, which are the same
// on all ranks, so that all of them enter the same operations in the same order. Until then the
// processor goes on starting kernels. Waiting for it lets the kernels that come after wait, not the
// processor.
//
// Where the inner transport reaches the device's memory itself, as CUDA-aware MPI does, the same
// without copies: operations are put in order with the kernels, no more.
//
// Buffers in the host's memory go to the inner transport as they are. Pinned memory is taken when a
// collective is made (`reserve`), and kept.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "collectives/device_queues.h"
#include "collectives/transport.h"

namespace meshwork {

struct StagedTransportOptions {
  std::int64_t piece_bytes = std::int64_t{1} << 20;  // the same on all ranks
  bool inner_reaches_device = false;
  std::string name, remark;  // Transport has these; without a name it is the inner transport's
};

/// `device` outlives the transport.
[[nodiscard]] std::unique_ptr<Transport> make_staged_transport(
    std::unique_ptr<Transport> inner, DeviceQueues& device,
    const StagedTransportOptions& options = {});

}  // namespace meshwork
