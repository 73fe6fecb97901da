#include "runtime/graph/step/recomputation.h"

#include <algorithm>
#include <set>

#include "collectives/error.h"
#include "runtime/mesh/path_pattern.h"

namespace meshwork {
namespace {

// "a", "a/b" of the operation "a/b/product".
std::vector<std::string> layers_around(const std::string& path) {
  std::vector<std::string> around;
  for (std::size_t end = path.find('/'); end != std::string::npos; end = path.find('/', end + 1)) {
    around.push_back(path.substr(0, end));
  }
  return around;
}

}  // namespace

std::vector<RecomputedSpan> recomputed_spans(const Plan& plan, const std::string& pattern) {
  std::vector<RecomputedSpan> spans;
  if (pattern.empty()) {
    return spans;
  }
  const PathPattern matching("recompute", pattern);
  std::set<std::string> paths;
  std::string open;  // the layer of the last span, if that may go on
  for (std::size_t o = 0; o < plan.operations.size(); ++o) {
    const std::vector<std::string> around = layers_around(plan.operations[o].path);
    paths.insert(around.begin(), around.end());
    const auto layer = std::ranges::find_if(
        around, [&](const std::string& path) { return matching.matches(path); });
    if (layer == around.end()) {
      open.clear();
    } else if (*layer == open) {
      spans.back().last = o;
    } else {
      open = *layer;
      spans.push_back({.first = o, .last = o});
    }
  }
  const std::vector<std::string> known(paths.begin(), paths.end());
  if (const auto unmatched = matching.unmatched(known)) {
    fail("{}", unmatched->message);
  }
  for (RecomputedSpan& span : spans) {
    for (std::size_t o = span.first; o <= span.last; ++o) {
      const TensorId output = plan.operations[o].output;
      const bool taken =
          std::any_of(plan.operations.begin() + static_cast<std::ptrdiff_t>(span.last) + 1,
                      plan.operations.end(), [&](const PlannedOperation& later) {
                        return std::ranges::find(later.inputs, output) != later.inputs.end();
                      });
      if (!taken) span.operations.push_back(o);
    }
  }
  return spans;
}

}  // namespace meshwork
