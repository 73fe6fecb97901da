// The library of the CUDA device, opened also where there is no driver and the program would not.
#include "runtime/device/cuda/library.h"

#include <dlfcn.h>

#include "collectives/error.h"
#include "runtime/device/cuda/cuda_device.h"
#include "tests/support/catch.h"

namespace meshwork::library_test {

TEST_CASE("the library itself says whether there is a GPU, and makes a device where there is one") {
  void* const opened = ::dlopen(MESHWORK_CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {  // cuBLASLt and cuDNN may be there to build with alone
    WARN(::dlerror());
    return;
  }
  const auto* const device =
      static_cast<const cuda::CudaDeviceLibrary*>(::dlsym(opened, "meshwork_cuda_device"));
  REQUIRE(device != nullptr);
  const std::string problem = device->why_unavailable();
  if (problem.empty()) {
    CHECK(device->make({})->traits().kind == "cuda");
  } else {
    CHECK_THROWS_WITH(device->make({}), Catch::Contains(problem));
  }
}

}  // namespace meshwork::library_test
