// meshwork devices: where each rank runs, as a table from rank 0.
#include <unistd.h>

#include <cstdio>
#include <optional>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "launch/commands.h"
#include "launch/session.h"
#include "runtime/config/text_table.h"
#include "runtime/device/list_devices.h"
#include "runtime/train/model_options.h"
#include "runtime/train/reporting/terminal.h"

namespace meshwork {
namespace {

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
      read_options<ModelOptions>(request.document, catalog_of(line), "configuration", {"mesh"})
          .device;
  return request;
}

}  // namespace

int devices(Runtime& runtime, const CommandLine& line) {
  return runtime.attempt(2, [&] {
    std::optional<Request> request;
    together(runtime.world(), [&] { request = read_request(line); });
    require_same_settings(runtime.world(), entries_of(request->document), "the configuration");
    const MeshShape mesh(request->axes, runtime.size());
    const std::vector<ListedDevice> devices = list_devices(runtime.world(), request->device);
    if (runtime.is_root()) {
      std::vector<std::string> heading{"rank", "host", "local rank"};
      for (const MeshAxis& axis : mesh.axes()) heading.push_back(axis.name);
      heading.insert(heading.end(), {"device", "processor"});
      TextTable table(heading);
      for (std::size_t rank = 0; rank < devices.size(); ++rank) {
        const ListedDevice& device = devices[rank];
        std::vector<std::string> row{
            std::to_string(rank), device.host,
            fmt::format("{} of {}", device.local_rank, device.local_ranks)};
        for (Axis axis = 0; axis < mesh.axis_count(); ++axis) {
          row.push_back(std::to_string(mesh.coordinate(static_cast<std::int64_t>(rank), axis)));
        }
        row.insert(row.end(), {device.kind, device.description});
        table.add(row);
      }
      std::printf("mesh %s\n%s", to_string(mesh).c_str(),
                  table.text(0, text_width(STDOUT_FILENO)).c_str());
      std::fflush(stdout);
    }
  });
}

}  // namespace meshwork
