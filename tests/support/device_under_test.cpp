// The device that the tests of an executable run on: "cpu", or what MESHWORK_TEST_DEVICE says, one
// of the list below. It becomes what `device: auto` is in this process, so that tests which name no
// device run on it: the same tests for every device.
//
// Where there is no such device, the executable says so and ends with the status that the test's
// registration takes for skipped (tests/CMakeLists.txt, DEVICES).
#include <cstdio>
#include <cstdlib>
#include <string>

#include "collectives/error.h"
#include "runtime/device/device.h"
#include "tests/support/apart_device.h"

namespace meshwork::test {
namespace {

constexpr int skipped = 77;

std::string device_under_test() {
  const char* name = std::getenv("MESHWORK_TEST_DEVICE");
  return name == nullptr || *name == '\0' ? "cpu" : name;
}

// Before `main`, since the mains of tests know of no devices: some are of rooms below them.
const bool added = [] {
  const std::string kind = device_under_test();
  if (kind == "apart") {
    add_device_kind(apart_traits("apart"), make_apart_device);
    return true;
  }
  DeviceTraits traits = traits_of_device(kind);
  traits.kind = "the device under test";
  add_device_kind(std::move(traits), [kind](const DeviceOptions& options) {
    return make_device({kind, options.ranks_on_node, options.rank_on_node});
  });
  if (kind == "cpu") return true;
  try {
    (void)make_device({.kind = kind});
  } catch (const Error& error) {
    std::fprintf(stderr, "skipped: %s\n", error.what());
    std::_Exit(skipped);
  }
  return true;
}();

}  // namespace
}  // namespace meshwork::test
