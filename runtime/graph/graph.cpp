#include "runtime/graph/graph.h"

#include <algorithm>
#include <utility>

#include "runtime/graph/path_error.h"

namespace meshwork {
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

std::int64_t Graph::classes_of(TensorId id) const {
  std::int64_t fewest = 0;
  for (const int consumer : tensors[id].consumers) {
    const GraphOperation& operation = operations[consumer];
    for (std::size_t i = 0; i < operation.inputs.size(); ++i) {
      if (operation.inputs[i] != id) continue;
      const std::int64_t classes = operation.operation->classes(static_cast<int>(i));
      if (classes > 0) fewest = fewest > 0 ? std::min(fewest, classes) : classes;
    }
  }
  return fewest;
}

bool Graph::needs_whole_blocks() const {
  return std::ranges::any_of(variables, [](const Variable& variable) {
    const VariableOptions& options = variable.options;
    return options.trainable && (options.constraint.active() || options.regularizer.whole);
  });
}

TensorId Graph::add_tensor(GraphTensor tensor) {
  tensors.push_back(std::move(tensor));
  return static_cast<TensorId>(tensors.size()) - 1;
}

std::string Graph::free_path(std::string path) {
  const auto [found, is_free] = numbers_of_paths.try_emplace(path, 0);
  if (is_free) return path;
  int& number = found->second;
  std::string free;
  do {
    free = fmt::format("{}_{}", path, ++number);
  } while (!numbers_of_paths.try_emplace(free, 0).second);
  return free;
}

TensorId Graph::add_operation(std::shared_ptr<const Operation> operation,
                              std::vector<TensorId> inputs, int layer, std::string path) {
  path = free_path(std::move(path));
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
    (void)element_count(std::span(value.shape).subspan(value.batched() ? 1 : 0));
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
