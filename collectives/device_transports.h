// Which backends there are for memory of a device, and which of them is taken.
//
// Any backend for the host's memory serves with staging before it (staged_transport.h). GPUs of
// NVIDIA can have two more, on which nothing is staged:
//
//   nccl            NVIDIA's library (nccl/nccl_transport.h): where this build has it, every rank
//                   can load the same version of it, and every rank has a GPU of its own. It
//                   refuses ranks that share one.
//   cuda_aware_mpi  MPI that is handed addresses of the GPU's memory, behind the kernels that write
//                   there: where the MPI says, when asked at run time, that it takes them.
//
// "auto" takes NCCL where it can be had: where a communicator of all ranks could be made and has
// summed what it should. Else, since an MPI that takes such addresses may still bring everything to
// the host and reduce it there (open-mpi/ompi #2397), it takes the time of both ways, when the
// transport is made, and the faster one. A run that goes on from a checkpoint takes up the choice
// that is in it, for the same bits (`Transport::take_up`). The two are never under way together,
// which could block a GPU.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "collectives/transport.h"

namespace meshwork {

/// What this rank has for the memory of its device, beyond staging. Tests make their own.
struct DeviceBackends {
  bool is_gpu = false;              // which of the rest is worth a remark if it lacks
  bool mpi_reaches_memory = false;  // MPI says so
  std::string nccl_problem;         // why there is no NCCL; empty if there is
  std::string nccl_version;         // "2.28.9"
  std::string gpu;                  // a name that no other GPU of the job has
  /// `staged` serves what NCCL does not. Called by every rank of `ranks`.
  std::function<std::unique_ptr<Transport>(const Communicator& ranks,
                                           std::unique_ptr<Transport> staged, DeviceQueues& device)>
      make_nccl;
};

/// Sets, in the environment, what these libraries have to find there, but for what the user has
/// set. To be called while no thread can read the environment: before MPI starts.
void prefer_settings_of_devices();

/// What there is for `device` in this build, on this machine.
[[nodiscard]] DeviceBackends device_backends(DeviceQueues& device);

/// What `make_transport` makes where there is a device. Every rank of `ranks` calls it.
[[nodiscard]] std::unique_ptr<Transport> make_device_transport(std::string_view name,
                                                               const Communicator& ranks,
                                                               DeviceQueues& device,
                                                               const DeviceMemory& device_memory,
                                                               const DeviceBackends& backends);

}  // namespace meshwork
