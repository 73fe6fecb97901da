#include "runtime/graph/sequences.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace meshwork {
namespace {

bool has(const std::string& letters, char letter) {
  return letters.find(letter) != std::string::npos;
}

// What the operation needs of an input for a position of its output.
Range window_of(const PlannedOperation& planned, const Graph& graph, int input, char letter,
                std::int64_t position) {
  const Range own{position, position + 1};
  const std::size_t dimension = planned.rule.inputs[static_cast<std::size_t>(input)].find(letter);
  if (dimension == std::string::npos) return own;
  std::vector<Shape> shapes;
  for (const TensorId id : planned.inputs) shapes.push_back(graph.shape_of(id, 1));
  return planned.operation->window(input, static_cast<int>(dimension), own, shapes);
}

// Follows the positions through the operations, in order.
class Tracing {
 public:
  explicit Tracing(const Plan& plan) : plan_(plan), graph_(*plan.graph) {
    found_.dimensions.assign(graph_.tensors.size(), -1);
  }

  Sequences run() && {
    begin();
    const std::vector<bool> wanted = operations_of_outputs(plan_);
    for (std::size_t o = 0; o < wanted.size() && found_.obstacle.empty(); ++o) {
      if (wanted[o]) follow(plan_.operations[o]);
    }
    for (const TensorId output : graph_.outputs) {
      if (found_.obstacle.empty() && found_.dimensions[output] < 0) {
        found_.obstacle = "an output has no positions";
      }
    }
    return std::move(found_);
  }

 private:
  void begin() {
    for (const TensorId input : graph_.inputs) {
      const Shape& shape = graph_.tensors[input].shape;
      if (shape.size() < 2 || (found_.length > 0 && shape[1] != found_.length)) {
        found_.obstacle = "the inputs are no sequences of one length";
        return;
      }
      found_.length = shape[1];
      found_.dimensions[input] = 1;
    }
  }

  void follow(const PlannedOperation& planned) {
    const Rule& rule = planned.rule;
    const char letter = Piece{&found_, 0}.letter(rule, planned.inputs);
    const auto positions = [&](std::size_t i) { return found_.dimensions[planned.inputs[i]]; };
    bool position_by_position = true;
    for (std::size_t i = 0; i < planned.inputs.size(); ++i) {
      // What was joined behind the operation the rule does not tell of.
      const bool known = i < rule.inputs.size();
      if (positions(i) >= 0) {
        position_by_position =
            position_by_position && known && rule.inputs[i][positions(i)] == letter;
      } else if (letter != 0) {
        const bool windowed = has(rule.windows, letter);
        const bool meets =
            known ? has(rule.inputs[i], letter) && windowed : rule.output.back() == letter;
        position_by_position = position_by_position && !meets;
      }
    }
    if (letter == 0) return;
    if (!position_by_position || !has(rule.output, letter) ||
        !planned.operation->takes_pieces(letter, rule) || looks_ahead(planned, letter)) {
      found_.obstacle = planned.path + " does not work position by position";
      return;
    }
    found_.dimensions[planned.output] = static_cast<int>(rule.output.find(letter));
  }

  [[nodiscard]] bool looks_ahead(const PlannedOperation& planned, char letter) const {
    if (!has(planned.rule.windows, letter)) return false;
    for (int input = 0; input < static_cast<int>(planned.rule.inputs.size()); ++input) {
      for (std::int64_t position = 0; position < found_.length; ++position) {
        if (window_of(planned, graph_, input, letter, position).end > position + 1) return true;
      }
    }
    return false;
  }

  const Plan& plan_;
  const Graph& graph_;
  Sequences found_;
};

}  // namespace

Sequences sequences_of(const Plan& plan) {
  return Tracing(plan).run();
}

Shape Piece::shape_of(TensorId id, Shape shape) const {
  if (const int dimension = of->dimensions[id]; dimension >= 0) {
    shape[static_cast<std::size_t>(dimension)] = positions;
  }
  return shape;
}

char Piece::letter(const Rule& rule, const std::vector<TensorId>& inputs) const {
  for (std::size_t i = 0; i < std::min(inputs.size(), rule.inputs.size()); ++i) {
    const int dimension = of->dimensions[inputs[i]];
    if (dimension >= 0) return rule.inputs[i][static_cast<std::size_t>(dimension)];
  }
  return 0;
}

bool Piece::keeps(const PlannedOperation& planned, const Graph& graph, int input) const {
  const char positions = letter(planned.rule, planned.inputs);
  if (!has(planned.rule.windows, positions)) return false;
  return window_of(planned, graph, input, positions, of->length - 1).begin < of->length - 1;
}

std::vector<bool> operations_of_outputs(const Plan& plan) {
  std::vector<bool> wanted(plan.graph->tensors.size(), false);
  for (const TensorId output : plan.graph->outputs) {
    wanted[output] = true;
  }
  std::vector<bool> runs(plan.operations.size());
  for (std::size_t o = plan.operations.size(); o-- > 0;) {
    runs[o] = wanted[plan.operations[o].output];
    if (runs[o]) {
      for (const TensorId input : plan.operations[o].inputs) {
        wanted[input] = true;
      }
    }
  }
  return runs;
}

}  // namespace meshwork
