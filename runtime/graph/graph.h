// Graph: a model as the planner sees it. Tensors, the operations between them, and the variables.
//
// A graph is made by calling layers (layer.h), once, and does not change. Shapes are global;
// dimension 0 of a tensor that depends on an input is the batch and is -1 here (open), until a plan
// gives it a length. Operations stand in an order in which every input comes before its use.
//
// Paths name what a user can speak of: a variable is "layer/variable" ("d1/kernel",
// "block/d1/kernel"), the output of a layer "layer/output".
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "collectives/element_type.h"
#include "runtime/graph/constraint.h"
#include "runtime/graph/initializer.h"
#include "runtime/graph/operation.h"
#include "runtime/graph/regularizer.h"
#include "runtime/mesh/layout.h"

namespace meshwork {

class Layer;

using TensorId = int;

enum class TensorRole : std::uint8_t {
  input,   // fed: features
  target,  // fed: what a loss compares with
  variable,
  value  // computed by an operation
};

inline constexpr TensorId lost_documents = -2;

struct GraphTensor {
  Shape shape;  // -1 for an open batch
  ElementType type = ElementType::float32;
  TensorRole role = TensorRole::value;
  std::string path;            // "" for a value inside a layer
  int variable = -1;           // index into variables, where it is one
  int producer = -1;           // index into operations, where it is a value
  std::vector<int> consumers;  // operations
  TensorId mask = -1;          // which of its places count (operations/mask.h); -1: all
  /// Where the documents of its places begin (operations/document_starts.h); -1: they are one;
  /// lost_documents: its places are no more those of one.
  TensorId documents = -1;
  [[nodiscard]] bool batched() const { return !shape.empty() && shape[0] == -1; }
};

/// What a layer asks for when it makes a variable.
struct VariableOptions {
  Shape shape;
  Initializer initializer;
  Regularizer regularizer;
  Constraint constraint;
  bool trainable = true;
};

struct Variable {
  std::string path;
  VariableOptions options;
  TensorId tensor = -1;
};

struct GraphOperation {
  std::shared_ptr<const Operation> operation;
  std::vector<TensorId> inputs;
  TensorId output = -1;
  int layer = -1;
  std::string path;  // layer and kind, unique in the graph: "d1/product"
};

struct GraphLayer {
  std::string path;
  std::string class_name;
  TensorId output = -1;
  std::shared_ptr<Layer> layer = {};  // that was called
};

struct Graph {
  std::vector<GraphTensor> tensors;
  std::vector<GraphOperation> operations;
  std::vector<Variable> variables;
  std::vector<GraphLayer> layers;
  std::vector<TensorId> inputs;
  std::vector<TensorId> outputs;
  /// The paths of the operations, with the largest number that free_path has put behind each.
  std::unordered_map<std::string, int> numbers_of_paths;

  /// `shape` of tensor `id` with the batch of `rows`.
  [[nodiscard]] Shape shape_of(TensorId id, std::int64_t rows) const;
  /// The paths of all variables and layer outputs.
  [[nodiscard]] std::vector<std::string> paths() const;
  /// What a LayoutMap can speak of: the same, and the inputs, whose path is their name.
  [[nodiscard]] std::vector<std::string> layout_paths() const;
  /// The tensor of a path, or -1.
  [[nodiscard]] TensorId find(const std::string& path) const;

  /// If what reads tensor `id` takes its values for numbers of classes, from 0: of how many; else
  /// 0.
  [[nodiscard]] std::int64_t classes_of(TensorId id) const;
  /// Whether a variable that is trained is held to a constraint, or has a penalty of the whole: a
  /// rank has to hold its block of it whole.
  [[nodiscard]] bool needs_whole_blocks() const;

  TensorId add_tensor(GraphTensor tensor);
  /// Appends an operation; its output tensor is made, with the shape that it states. Errors of the
  /// operation are prefixed by `path`.
  TensorId add_operation(std::shared_ptr<const Operation> operation, std::vector<TensorId> inputs,
                         int layer, std::string path);

  /// `path`, or the first of path_1, path_2, ... that no operation has; it is taken then.
  std::string free_path(std::string path);
};

}  // namespace meshwork
