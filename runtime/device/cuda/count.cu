// One thread, whose time is that of the bus: a word is read from the host's memory and written
// there. Nobody waits for it but the stream that it is in.
#include "runtime/device/cuda/count.h"

#include "runtime/device/cuda/launch.h"
#include "runtime/device/host_device.h"

namespace meshwork::cuda {

namespace {

struct AddOne {
  std::uint64_t* count;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t /*i*/) const { *count += 1; }
};

}  // namespace

void start_count(const Launcher& launcher, std::uint64_t* count) {
  for_elements(launcher, 1, AddOne{count});
}

}  // namespace meshwork::cuda
