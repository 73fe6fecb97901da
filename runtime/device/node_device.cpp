#include "runtime/device/node_device.h"

#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/fnv1a.h"
#include "collectives/hosted.h"

namespace meshwork {

std::unique_ptr<Device> make_device_on_node(const std::string& kind, const Communicator& node) {
  std::unique_ptr<Device> device;
  together(node, [&] { device = make_device({kind, node.size(), node.rank()}); });
  const std::string hardware = device->hardware();
  const std::uint64_t mine = fnv1a(hardware);
  std::vector<std::uint64_t> all(static_cast<std::size_t>(node.size()));
  await_ranks(node);
  check_mpi(MPI_Allgather(&mine, 1, MPI_UINT64_T, all.data(), 1, MPI_UINT64_T, node.native()),
            "MPI_Allgather");
  if (!hardware.empty()) {
    device->share(static_cast<int>(std::count(all.begin(), all.end(), mine)));
  }
  return device;
}

}  // namespace meshwork
