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

void print_table(const std::vector<std::string>& rows) {
  std::vector<std::size_t> widths;
  for (const std::string& row : rows) {
    const std::vector<std::string> columns = columns_of(row);
    widths.resize(std::max(widths.size(), columns.size()), 0);
    for (std::size_t c = 0; c < columns.size(); ++c) {
      widths[c] = std::max(widths[c], columns[c].size());
    }
  }
  for (const std::string& row : rows) {
    std::string line;
    const std::vector<std::string> columns = columns_of(row);
    for (std::size_t c = 0; c < columns.size(); ++c) {
      line += fmt::format("{:<{}}  ", columns[c], widths[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    std::printf("%s\n", line.c_str());
  }
  std::fflush(stdout);
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
    std::vector<std::string> rows = gather_texts(runtime.world(), row);
    if (runtime.is_root()) {
      std::string heading = fmt::format("rank{}host{}on the node", column_end, column_end);
      for (const MeshAxis& axis : mesh.axes()) {
        heading += fmt::format("{}{}", column_end, axis.name);
      }
      rows.insert(rows.begin(),
                  heading + fmt::format("{}device{}what it is", column_end, column_end));
      std::printf("mesh %s\n", to_string(mesh).c_str());
      print_table(rows);
    }
  });
}

}  // namespace meshwork
