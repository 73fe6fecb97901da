// The devices of all ranks, as every rank lists them.
#include "runtime/device/list_devices.h"

#include "collectives/error.h"
#include "runtime/device/node_device.h"
#include "tests/support/catch.h"

namespace meshwork::list_devices_test {

TEST_CASE("every rank lists the devices of all, by rank") {
  const Communicator world = Communicator::world();
  const std::vector<ListedDevice> devices = list_devices(world, "cpu");
  REQUIRE(static_cast<int>(devices.size()) == world.size());
  for (int rank = 0; rank < world.size(); ++rank) {
    const ListedDevice& device = devices[static_cast<std::size_t>(rank)];
    CHECK(device.local_rank == rank);
    CHECK(device.local_ranks == world.size());
    CHECK(device.kind == "cpu");
    CHECK(device.host == devices[0].host);
  }
  const Communicator node = world.split_by_node();
  CHECK(devices[static_cast<std::size_t>(world.rank())].description ==
        make_device_on_node("cpu", node)->description());
}

TEST_CASE("devices that there are none of are an error on all ranks") {
  CHECK_THROWS_AS(list_devices(Communicator::world(), "abacus"), Error);
}

}  // namespace meshwork::list_devices_test
