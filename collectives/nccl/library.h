// The NCCL transport as a library of its own, libmeshwork_nccl.so, which lies beside this one and
// is opened when a transport for a GPU is made.
//
// It needs libnccl.so.2, of some hundred megabytes, which may not be there where a program runs:
// what trains on CPUs or on one GPU needs none of it.
#pragma once

#include <memory>
#include <string>

#include "collectives/transport.h"

namespace meshwork::nccl {

using Make = std::unique_ptr<Transport> (*)(const Communicator& ranks,
                                            std::unique_ptr<Transport> staged,
                                            DeviceQueues& device);

/// What the library exports, as `meshwork_nccl`.
struct NcclLibrary {
  std::string (*version)();  // of NCCL that was loaded
  std::string (*gpu)();      // of the calling thread
  Make make;                 // nccl_transport.h
};

/// NCCL as this rank has it.
struct Found {
  std::string problem;  // why it is not there; empty if it is
  std::string version;
  std::string gpu;  // of the calling thread, as no other GPU is named
  Make make = nullptr;
};

[[nodiscard]] Found find();

}  // namespace meshwork::nccl
