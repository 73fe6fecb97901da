#include "runtime/device/list_devices.h"

#include <mpi.h>

#include <array>
#include <memory>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/text_list.h"
#include "runtime/device/node_device.h"

namespace meshwork {
namespace {

std::string host_name() {
  std::array<char, MPI_MAX_PROCESSOR_NAME + 1> host{};
  int length = 0;
  check_mpi(MPI_Get_processor_name(host.data(), &length), "MPI_Get_processor_name");
  return {host.data(), static_cast<std::size_t>(length)};
}

}  // namespace

std::vector<ListedDevice> list_devices(const Communicator& ranks, const std::string& kind) {
  const Communicator node = ranks.split_by_node();
  std::string own;
  together(ranks, [&] {
    const std::unique_ptr<Device> device = make_device_on_node(kind, node);
    for (const std::string& entry :
         {host_name(), std::to_string(node.rank()), std::to_string(node.size()),
          device->traits().kind, device->description()}) {
      append_entry(own, entry);
    }
  });
  std::string list;
  for (const std::string& text : gather_texts(ranks, own)) append_entry(list, text);
  std::vector<ListedDevice> devices;
  for (const std::string& text : entries_of(broadcast_text(ranks, list))) {
    const std::vector<std::string> entries = entries_of(text);
    devices.push_back({entries.at(0), std::stoi(entries.at(1)), std::stoi(entries.at(2)),
                       entries.at(3), entries.at(4)});
  }
  return devices;
}

}  // namespace meshwork
