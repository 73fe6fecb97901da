#include "runtime/graph/freeze.h"

#include <string>
#include <vector>

#include "collectives/error.h"

namespace meshwork {

void freeze(Graph& graph, const PathPattern& pattern) {
  std::vector<std::string> paths;
  for (const Variable& variable : graph.variables) paths.push_back(variable.path);
  if (const auto unmatched = pattern.unmatched(paths)) fail("{}", unmatched->message);
  for (Variable& variable : graph.variables) {
    if (pattern.matches(variable.path)) variable.options.trainable = false;
  }
}

}  // namespace meshwork
