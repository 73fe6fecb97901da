#include "runtime/graph/operation_windows.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "runtime/graph/spread.h"

namespace meshwork {

bool has_windows(const Rule& rule, int input) {
  // An operation that was fused has inputs that its first part knows nothing of.
  return input < static_cast<int>(rule.inputs.size()) &&
         std::any_of(rule.inputs[input].begin(), rule.inputs[input].end(),
                     [&](char letter) { return rule.windows.find(letter) != std::string::npos; });
}

Windows windows_of(const Operation& operation, const Rule& rule, const Split& split, int input,
                   std::span<const Shape> inputs, const Shape& output) {
  Windows windows{inputs[input], needed_layout(rule, split, input), {}};
  const std::string& letters = rule.inputs[input];
  for (std::size_t d = 0; d < letters.size(); ++d) {
    const std::size_t at = rule.output.find(letters[d]);
    if (rule.windows.find(letters[d]) == std::string::npos || at == std::string::npos) {
      continue;
    }
    const int dimension = static_cast<int>(d);
    windows.dimensions.push_back(
        {dimension, output[at],
         [&operation, input, dimension, shapes = std::vector<Shape>(inputs.begin(), inputs.end())](
             Range range) { return operation.window(input, dimension, range, shapes); }});
  }
  return windows;
}

double exchange_seconds(const Windows& windows, const MeshShape& mesh, const CostModel& costs,
                        bool back) {
  // The first, the middle and the last rank along each axis over which something is sent.
  std::vector<std::int64_t> ranks{0};
  for (const Axis axis : exchange_axes(windows, mesh)) {
    std::vector<std::int64_t> all;
    const std::set<std::int64_t> places{0, mesh.size(axis) / 2, mesh.size(axis) - 1};
    for (const std::int64_t rank : ranks) {
      for (const std::int64_t place : places)
        all.push_back(mesh.neighbour(rank, std::span(&axis, 1), place));
    }
    ranks = std::move(all);
  }
  double most = 0;
  for (const std::int64_t rank : ranks) {
    const WindowTraffic traffic = window_traffic(windows, mesh, rank);
    const std::int64_t messages = back ? traffic.messages_received : traffic.messages_sent;
    const std::int64_t elements = back ? traffic.elements_received : traffic.elements_sent;
    most =
        std::max(most, (messages > 0 ? costs.latency_seconds : 0) +
                           float32_bytes * static_cast<double>(elements) / costs.bytes_per_second);
  }
  return most;
}

}  // namespace meshwork
