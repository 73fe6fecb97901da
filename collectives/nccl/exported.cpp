// What libmeshwork_nccl.so exports: the NCCL transport on this rank's GPU.
#include <cuda_runtime_api.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "collectives/error.h"
#include "collectives/nccl/library.h"
#include "collectives/nccl/nccl_transport.h"

namespace meshwork::nccl {

namespace {

void check_cuda(cudaError_t code, const char* call) {
  if (code != cudaSuccess) fail("{} failed: {}", call, cudaGetErrorString(code));
}

/// As NCCL tells GPUs apart: by the machine, also from inside containers, and the place on its bus.
std::string gpu() {
  std::string machine = "?";
  std::ifstream("/proc/sys/kernel/random/boot_id") >> machine;
  int device = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  std::array<char, 32> place{};
  check_cuda(cudaDeviceGetPCIBusId(place.data(), static_cast<int>(place.size()), device),
             "cudaDeviceGetPCIBusId");
  return fmt::format("PCI {} of the machine {}", place.data(), machine);
}

std::unique_ptr<Transport> make(const Communicator& ranks, std::unique_ptr<Transport> staged,
                                DeviceQueues& device) {
  // Set before MPI starts (device_transports.h), unless MPI was running before us.
  std::string remark;
  if (std::getenv("NCCL_NVLS_ENABLE") == nullptr) {
    remark =
        "NCCL may add in the network's switches, in another order each time: MPI was started "
        "before "
        "Meshwork, which leaves the environment alone then; NCCL_NVLS_ENABLE=0 there forbids it";
  }
  return make_nccl_transport(ranks, std::move(staged), device, std::move(remark));
}

}  // namespace

}  // namespace meshwork::nccl

extern "C" const meshwork::nccl::NcclLibrary meshwork_nccl;
const meshwork::nccl::NcclLibrary meshwork_nccl{meshwork::nccl::loaded_version, meshwork::nccl::gpu,
                                                meshwork::nccl::make};
