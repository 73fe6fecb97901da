// meshwork devices: where each rank runs, as a table from rank 0.
#include <mpi.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <optional>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/text_list.h"
#include "launch/commands.h"
#include "launch/session.h"
#include "runtime/config/text_table.h"
#include "runtime/device/node_device.h"
#include "runtime/train/model_options.h"
#include "runtime/train/reporting/terminal.h"

namespace meshwork {
namespace {

std::string host_name() {
  std::array<char, MPI_MAX_PROCESSOR_NAME + 1> host{};
  int length = 0;
  check_mpi(MPI_Get_processor_name(host.data(), &length), "MPI_Get_processor_name");
  return {host.data(), static_cast<std::size_t>(length)};
}

// The mesh and the kind of device that were asked for, without a need for a model.
struct Request {
  ConfigNode document;
  std::vector<MeshAxis> axes{{"data", -1}};
  std::string device;
};

Request read_request(const CommandLine& line) {
  if (!line.config.empty()) {
    const RunConfig config = read_run(line);
    return {config.document(), config.mesh_axes(), config.options().device};
  }
  Request request{parse_config("{}", "the command line", line.overrides)};
  if (const auto mesh = request.document.find("mesh")) {
    request.axes = mesh->as<WrittenMesh>().axes;
  }
  request.device =
      read_options<ModelOptions>(request.document, Catalog(), "configuration", {"mesh"}).device;
  return request;
}

}  // namespace

int devices(Runtime& runtime, const CommandLine& line) {
  return runtime.attempt(2, [&] {
    std::optional<Request> request;
    together(runtime.world(), [&] { request = read_request(line); });
    require_same_settings(runtime.world(), entries_of(request->document), "the configuration");
    const MeshShape mesh(request->axes, runtime.size());
    const Communicator node = runtime.world().split_by_node();
    std::unique_ptr<Device> device;
    together(runtime.world(), [&] { device = make_device_on_node(request->device, node); });
    std::string row;
    append_entry(row, std::to_string(runtime.rank()));
    append_entry(row, host_name());
    append_entry(row, fmt::format("{} of {}", node.rank(), node.size()));
    for (Axis axis = 0; axis < mesh.axis_count(); ++axis) {
      append_entry(row, std::to_string(mesh.coordinate(runtime.rank(), axis)));
    }
    append_entry(row, device->traits().kind);
    append_entry(row, device->description());
    const std::vector<std::string> rows = gather_texts(runtime.world(), row);
    if (runtime.is_root()) {
      std::vector<std::string> heading{"rank", "host", "local rank"};
      for (const MeshAxis& axis : mesh.axes()) heading.push_back(axis.name);
      heading.insert(heading.end(), {"device", "processor"});
      TextTable table(heading);
      for (const std::string& row : rows) table.add(entries_of(row));
      std::printf("mesh %s\n%s", to_string(mesh).c_str(),
                  table.text(0, text_width(STDOUT_FILENO)).c_str());
      std::fflush(stdout);
    }
  });
}

}  // namespace meshwork
