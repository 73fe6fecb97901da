// meshwork devices: where each rank runs, as a table from rank 0.
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "launch/commands.h"
#include "launch/session.h"
#include "runtime/config/text_table.h"
#include "runtime/device/node_device.h"

namespace meshwork {
namespace {

constexpr char column_end = '\x1f';

std::string host_name() {
  std::array<char, MPI_MAX_PROCESSOR_NAME + 1> host{};
  int length = 0;
  check_mpi(MPI_Get_processor_name(host.data(), &length), "MPI_Get_processor_name");
  return {host.data(), static_cast<std::size_t>(length)};
}

std::vector<std::string> columns_of(const std::string& row) {
  std::vector<std::string> columns;
  for (std::size_t begin = 0; begin <= row.size();) {
    const std::size_t end = std::min(row.find(column_end, begin), row.size());
    columns.push_back(row.substr(begin, end - begin));
    begin = end + 1;
  }
  return columns;
}

// The mesh and the kind of device that were asked for, without a need for a model.
struct Request {
  ConfigNode document;
  std::vector<MeshAxis> axes{{"data", -1}};
  std::string device = "auto";
};

Request read_request(const CommandLine& line) {
  if (!line.config.empty()) {
    const RunConfig config = read_run(line);
    return {config.document(), config.mesh_axes(), config.options().device};
  }
  Request request{parse_config("{}", "the command line", line.overrides)};
  ConfigReader reader(request.document);
  if (const auto mesh = reader.node("mesh")) {
    request.axes = mesh_from_config(*mesh);
  }
  reader.optional("device", request.device);
  reader.finish();
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
    std::string row = fmt::format("{}{}{}{}{} of {}", runtime.rank(), column_end, host_name(),
                                  column_end, node.rank(), node.size());
    for (Axis axis = 0; axis < mesh.axis_count(); ++axis) {
      row += fmt::format("{}{}", column_end, mesh.coordinate(runtime.rank(), axis));
    }
    row += fmt::format("{}{}{}{}", column_end, device->traits().kind, column_end,
                       device->description());
    const std::vector<std::string> rows = gather_texts(runtime.world(), row);
    if (runtime.is_root()) {
      std::vector<std::string> heading{"rank", "host", "on the node"};
      for (const MeshAxis& axis : mesh.axes()) heading.push_back(axis.name);
      heading.insert(heading.end(), {"device", "what it is"});
      TextTable table(heading);
      for (const std::string& row : rows) table.add(columns_of(row));
      std::printf("mesh %s\n%s", to_string(mesh).c_str(), table.text(0).c_str());
      std::fflush(stdout);
    }
  });
}

}  // namespace meshwork
