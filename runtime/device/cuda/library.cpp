#include "runtime/device/cuda/library.h"

#include <dlfcn.h>

#include <filesystem>

#include "collectives/error.h"
#include "runtime/device/cuda/cuda_device.h"

namespace meshwork::cuda {

namespace {

/// The library, once it is opened, and why it could not be.
struct Library {
  const CudaDeviceLibrary* exported = nullptr;
  std::string problem;
};

/// Where this code lies: the library is beside it, or beside the libraries of an installed program.
std::filesystem::path folder_of_this() {
  Dl_info found{};
  if (::dladdr(reinterpret_cast<const void*>(&folder_of_this), &found) == 0) return {};
  return std::filesystem::path(found.dli_fname).parent_path();
}

Library open_library() {
  // The driver alone is small, and tells whether it is worth going on.
  if (::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) == nullptr) {
    return {nullptr, "no NVIDIA driver is installed (libcuda.so.1 cannot be loaded)"};
  }
  const std::filesystem::path file = folder_of_this() / "libmeshwork_cuda.so";
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {nullptr, ::dlerror()};
  const void* const exported = ::dlsym(library, "meshwork_cuda_device");
  if (exported == nullptr) return {nullptr, ::dlerror()};
  return {static_cast<const CudaDeviceLibrary*>(exported), ""};
}

/// Opened once, and never closed: kernels of it may outlive every device.
const Library& library() {
  static const Library opened = open_library();
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
