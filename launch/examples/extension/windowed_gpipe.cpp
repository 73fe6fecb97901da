// WindowedGPipe: a schedule of pipelines. Forward with a window of micro-batches, then backward with
// them, then the next window. A stage holds `window` micro-batches at most, and the pipeline runs empty
// between windows.
//
//     pipeline: {axis: stage, schedule: {WindowedGPipe: {window: 4}}}
#include <algorithm>
#include <string>
#include <vector>

#include <meshwork/extension.h>

#include "runtime/config/options.h"
#include "runtime/graph/schedule.h"

namespace mine {
namespace {

using meshwork::Action;
using meshwork::Pipeline;

struct WindowedGPipeOptions {
  std::int64_t window = 2;
};

template <class Visitor>
void describe(WindowedGPipeOptions& options, Visitor& option) {
  option.about("forward with a window of micro-batches, then backward with them");
  option("window", options.window, meshwork::positive.up_to(1 << 16),
         "micro-batches that a stage holds");
}

std::vector<Action> list(std::int64_t window, const Pipeline& pipeline, std::int64_t coordinate) {
  std::vector<Action> actions;
  for (std::int64_t first = 0; first < pipeline.micro_batches; first += window) {
    const std::int64_t end = std::min(first + window, pipeline.micro_batches);
    for (std::int64_t chunk = 0; chunk < pipeline.chunks; ++chunk) {
      for (std::int64_t batch = first; batch < end; ++batch) {
        actions.push_back({Action::Kind::forward, coordinate + chunk * pipeline.ranks, batch});
      }
    }
    for (std::int64_t chunk = pipeline.chunks; chunk-- > 0;) {
      for (std::int64_t batch = first; batch < end; ++batch) {
        actions.push_back({Action::Kind::backward, coordinate + chunk * pipeline.ranks, batch});
      }
    }
  }
  return actions;
}

}  // namespace

void add_windowed_gpipe(meshwork::Catalog& catalog) {
  catalog.add<meshwork::PipelineSchedule, WindowedGPipeOptions>(
      "WindowedGPipe", {}, [](const WindowedGPipeOptions& options) {
        return meshwork::PipelineSchedule{
            "WindowedGPipe of " + std::to_string(options.window),
            [window = options.window](const Pipeline& pipeline, std::int64_t coordinate) {
              return list(window, pipeline, coordinate);
            }};
      });
}

}  // namespace mine
