#include "runtime/device/cuda/library.h"

#include "collectives/error.h"
#include "collectives/opened_library.h"
#include "runtime/device/cuda/cuda_device.h"

namespace meshwork::cuda {

namespace {

/// The library, once it is opened, and why it could not be.
struct Library {
  const CudaDeviceLibrary* exported = nullptr;
  std::string problem;
};

/// Opened once: kernels of it may outlive every device.
const Library& library() {
  static const Library opened = [] {
    const OpenedLibrary found = open_gpu_library("libmeshwork_cuda.so", "meshwork_cuda_device");
    return Library{static_cast<const CudaDeviceLibrary*>(found.exported), found.problem};
  }();
  return opened;
}

}  // namespace

std::string why_unavailable() {
  return library().exported == nullptr ? library().problem : library().exported->why_unavailable();
}

std::unique_ptr<Device> make_cuda_device(const DeviceOptions& options) {
  if (library().exported == nullptr) fail("device \"cuda\": {}", library().problem);
  return library().exported->make(options);
}

}  // namespace meshwork::cuda
