// NCCL as every rank of a host has it that has no GPU: the transport's own code, on an NCCL that is
// made of MPI. What is linked with this and with a collectives/device_transports.cpp that was
// compiled for NCCL has these in place of the library's.
#include "collectives/error.h"
#include "collectives/nccl/library.h"
#include "collectives/nccl/nccl_transport.h"

namespace meshwork::nccl {

Found find() {
  return {.problem = "",
          .version = loaded_version(),
          .gpu = fmt::format("that of rank {}", Communicator::world().rank()),
          .make = [](const Communicator& ranks, std::unique_ptr<Transport> staged,
                     DeviceQueues& device) {
            return make_nccl_transport(ranks, std::move(staged), device);
          }};
}

}  // namespace meshwork::nccl
