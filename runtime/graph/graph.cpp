#include "runtime/graph/graph.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "runtime/graph/path_error.h"

namespace meshwork {
namespace {

// `path`, or the first of path_1, path_2, ... that no operation has.
std::string free_path(const Graph& graph, const std::string& path) {
  std::set<std::string_view> taken;
  for (const GraphOperation& operation : graph.operations) {
    if (operation.path.starts_with(path)) {
      taken.insert(operation.path);
    }
  }
  std::string free = path;
  for (int number = 1; taken.contains(free); ++number) {
    free = fmt::format("{}_{}", path, number);
  }
  return free;
}

}  // namespace

Shape Graph::shape_of(TensorId id, std::int64_t rows) const {
  Shape shape = tensors[id].shape;
  if (tensors[id].batched()) {
    shape[0] = rows;
  }
  return shape;
}

std::vector<std::string> Graph::paths() const {
  std::vector<std::string> paths;
  for (const GraphTensor& tensor : tensors) {
    const bool named = tensor.role == TensorRole::variable || tensor.role == TensorRole::value;
    if (named && !tensor.path.empty()) {
      paths.push_back(tensor.path);
    }
  }
  return paths;
}

std::vector<std::string> Graph::layout_paths() const {
  std::vector<std::string> all = paths();
  for (const TensorId input : inputs) {
    all.push_back(tensors[input].path);
  }
  return all;
}

TensorId Graph::find(const std::string& path) const {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const GraphTensor& tensor) { return tensor.path == path; });
  return found == tensors.end() || path.empty() ? -1
                                                : static_cast<TensorId>(found - tensors.begin());
}

TensorId Graph::add_tensor(GraphTensor tensor) {
  tensors.push_back(std::move(tensor));
  return static_cast<TensorId>(tensors.size()) - 1;
}

TensorId Graph::add_operation(std::shared_ptr<const Operation> operation,
                              std::vector<TensorId> inputs, int layer, std::string path) {
  path = free_path(*this, path);
  GraphTensor value;
  std::vector<Shape> shapes;
  std::vector<ElementType> types;
  for (const TensorId input : inputs) {
    shapes.push_back(tensors[input].shape);
    types.push_back(tensors[input].type);
  }
  try {
    value.shape = operation->output_shape(shapes);
    value.type = operation->output_type(types);
  } catch (const PathError&) {
    throw;
  } catch (const Error& error) {
    throw PathError(path, error.what());
  }
  const int index = static_cast<int>(operations.size());
  value.producer = index;
  for (const TensorId input : inputs) {
    tensors[input].consumers.push_back(index);
  }
  const TensorId output = add_tensor(std::move(value));
  operations.push_back({std::move(operation), std::move(inputs), output, layer, std::move(path)});
  return output;
}

}  // namespace meshwork
