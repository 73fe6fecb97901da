// What a planner knows before it chooses: of a request, everything that follows without a choice.
//
// Shapes with the batch, which tensors have gradients, the rules with the lengths of their letters,
// the layouts that are given (*closed*), and the axes that may be chosen for (*in play*). See
// plan.h for the words and for how the choice is made.
//
// Layouts have numbers here, so that comparing and remembering them is cheap.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/graph/plan.h"

namespace meshwork {

/// Layouts by number, counted from 0 in the order in which they are first asked for.
class LayoutNumbers {
 public:
  /// The number of `layout`, a new one if it has none.
  int of(const Layout& layout);
  [[nodiscard]] const Layout& operator[](int number) const { return layouts_[number]; }
  [[nodiscard]] std::size_t count() const { return layouts_.size(); }

 private:
  std::vector<Layout> layouts_;
  std::unordered_map<Layout, int, LayoutHash> numbers_;
};

struct PlanningProblem {
  const PlanRequest* request = nullptr;
  const Graph* graph = nullptr;
  const MeshShape* mesh = nullptr;
  LayoutNumbers layouts;

  // By tensor.
  std::vector<Shape> shapes;
  std::vector<bool> to_loss;   // whether it leads to the loss
  std::vector<bool> gradient;  // whether a trainable variable also leads to it
  struct Closed {
    int layout;
    std::string reason;
  };
  std::vector<std::optional<Closed>> closed;

  // By operation.
  std::vector<Rule> rules;
  std::vector<std::map<char, std::int64_t>> lengths;  // of each letter

  std::vector<Axis> in_play;
  std::set<std::vector<Axis>> orders;  // in which the user has several axes of one dimension

  /// The shapes of the inputs of operation `index`.
  [[nodiscard]] std::vector<Shape> input_shapes(int index) const;
  /// Whether backward of `operation` gives its input `input` a gradient.
  [[nodiscard]] bool gives_gradient(const GraphOperation& operation, TensorId input) const;
  /// Whether backward of `operation` runs at all.
  [[nodiscard]] bool has_backward(const GraphOperation& operation) const;
};

/// The layout of `tensor` where nobody says otherwise: its batch split by the batch axis, if it has
/// one.
[[nodiscard]] Layout layout_by_batch_axis(const PlanRequest& request, const GraphTensor& tensor);

/// The problem that `request` poses, which must outlive it. Throws `Error` for a rule that does not
/// fit the shapes of its operands.
[[nodiscard]] PlanningProblem state_problem(const PlanRequest& request);

}  // namespace meshwork
