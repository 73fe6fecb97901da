// list_devices: what the ranks of a job compute on, by rank; Keras's function of that name.
//
//     for (const ListedDevice& device : list_devices(runtime.world())) {
//       std::cout << device.kind << ": " << device.description << '\n';
//     }
//
// A rank has one device. `meshwork devices` prints this list.
#pragma once

#include <string>
#include <vector>

#include "collectives/communicator.h"

namespace meshwork {

struct ListedDevice {
  std::string host;
  int local_rank = 0, local_ranks = 1;  // of the rank's node
  std::string kind;                     // "cpu", "cuda"
  std::string description;              // "AMD EPYC 9654, 2 threads"
};

/// The device that each of `ranks` would compute on where `kind` is asked for: auto, cpu, cuda, or one
/// that was added. The same list on every rank. Collective; throws `Error` on all ranks if one has no
/// such device.
[[nodiscard]] std::vector<ListedDevice> list_devices(const Communicator& ranks,
                                                     const std::string& kind = "auto");

}  // namespace meshwork
