#include "runtime/train/strategies/megatron_layout.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "runtime/config/options.h"

namespace meshwork {
template <class Visitor>
void describe(MegatronOptions& options, Visitor& option) {
  option.about("weights are split by columns, then by rows, found by the letters of operations");
  option("axis", options.axis, "axis that splits weights");
}

namespace {

// The weights of a model that begin pairs, and what the splits of these reach. It goes through the
// operations in their order. Where a split cannot go on, it goes back to the operation whose weight
// began it, which then begins none with that letter.
class Pairs {
 public:
  Pairs(const Graph& graph, std::int64_t ranks)
      : graph_(graph), ranks_(ranks), tensors_(graph.tensors.size()) {}

  /// The dimension that is split of each tensor, or -1.
  [[nodiscard]] std::vector<int> dimensions() {
    for (int at = 0; at < static_cast<int>(graph_.operations.size());) {
      const int refused = visit(at);
      if (refused < 0) {
        ++at;
      } else {
        forget(refused);
        at = refused;
      }
    }
    std::vector<int> dimensions;
    for (const Placed& tensor : tensors_) dimensions.push_back(tensor.dimension);
    return dimensions;
  }

 private:
  struct Placed {
    int dimension = -1;  // that is split
    int root = -1;       // the operation whose weight began the split
    int since = -1;      // the operation that saw it first; -1: none did
  };

  // The root of a split that cannot go through operation `at`, or -1.
  int visit(int at) {
    const GraphOperation& operation = graph_.operations[static_cast<std::size_t>(at)];
    std::vector<Shape> shapes;
    for (const TensorId input : operation.inputs) {
      shapes.push_back(graph_.shape_of(input, rows));
    }
    const Rule rule = operation.operation->rule(shapes);
    char letter = 0;
    int root = -1;
    for (std::size_t i = 0; i < operation.inputs.size(); ++i) {
      const Placed& input = tensor(operation.inputs[i]);
      if (input.dimension < 0) continue;
      const char its = rule.inputs[i][static_cast<std::size_t>(input.dimension)];
      if (letter != 0 && its != letter) return refuse(std::max(root, input.root));
      letter = its;
      root = std::max(root, input.root);
    }
    if (letter == 0) {
      letter = begun_[at] = beginning(at, rule);
      root = at;
    } else if (rule.whole.find(letter) != std::string::npos ||
               (rule.own.find(letter) != std::string::npos && !is_output(operation.output))) {
      return refuse(root);
    }
    for (std::size_t i = 0; i < operation.inputs.size(); ++i) {
      Placed& input = tensor(operation.inputs[i]);
      const std::size_t dimension = letter == 0 ? std::string::npos : rule.inputs[i].find(letter);
      const bool is_variable =
          graph_.tensors[static_cast<std::size_t>(operation.inputs[i])].variable >= 0;
      if (dimension != std::string::npos && input.dimension < 0) {
        const bool sliced = rule.windows.find(letter) != std::string::npos;
        const bool fits = is_variable && input.since < 0 && shapes[i][dimension] >= ranks_;
        if (!fits && !sliced) return refuse(root);
        if (fits) input = {static_cast<int>(dimension), root, at};
      }
      if (input.since < 0) input.since = at;
    }
    const std::size_t dimension = letter == 0 ? std::string::npos : rule.output.find(letter);
    if (dimension != std::string::npos) {
      tensor(operation.output) = {static_cast<int>(dimension), root, at};
    }
    return -1;
  }

  // The letter by which a weight of operation `at` begins a pair; 0: none.
  [[nodiscard]] char beginning(int at, const Rule& rule) const {
    const GraphOperation& operation = graph_.operations[static_cast<std::size_t>(at)];
    for (std::size_t i = 0; i < operation.inputs.size(); ++i) {
      const GraphTensor& weight = graph_.tensors[static_cast<std::size_t>(operation.inputs[i])];
      if (weight.variable < 0 || weight.shape.size() < 2) continue;
      for (const bool in_output : {true, false}) {
        for (std::size_t d = 0; d < weight.shape.size(); ++d) {
          const char letter = rule.inputs[i][d];
          const auto has = [&](const std::string& letters) {
            return letters.find(letter) != std::string::npos;
          };
          bool of_data = false;
          for (std::size_t k = 0; k < rule.inputs.size(); ++k) {
            of_data |= has(rule.inputs[k]) &&
                       graph_.tensors[static_cast<std::size_t>(operation.inputs[k])].variable < 0;
          }
          if (of_data || has(rule.output) != in_output || weight.shape[d] < ranks_ ||
              has(rule.whole) || has(rule.own) || has(rule.windows) ||
              std::ranges::count(rule.inputs[i], letter) > 1 || refused_.contains({at, letter})) {
            continue;
          }
          return letter;
        }
      }
    }
    return 0;
  }

  // Operation `root` begins no pair any more by the letter that it has begun one by.
  int refuse(int root) {
    refused_.insert({root, begun_.at(root)});
    return root;
  }

  // What operations from `root` on have found.
  void forget(int root) {
    for (Placed& tensor : tensors_) {
      if (tensor.since >= root) tensor = {};
    }
  }

  [[nodiscard]] bool is_output(TensorId tensor) const {
    return std::ranges::find(graph_.outputs, tensor) != graph_.outputs.end();
  }
  [[nodiscard]] Placed& tensor(TensorId id) { return tensors_[static_cast<std::size_t>(id)]; }

  static constexpr std::int64_t rows = 64;  // any batch
  const Graph& graph_;
  std::int64_t ranks_;
  std::vector<Placed> tensors_;
  std::map<int, char> begun_;  // by operation: the letter by which its weight begins a pair
  std::set<std::pair<int, char>> refused_;
};

class MegatronStrategy final : public Strategy {
 public:
  explicit MegatronStrategy(MegatronOptions options) : options_(std::move(options)) {}

  std::string name() const override { return "MegatronLayout"; }

  LayoutMap layouts(const Graph& model, const MeshShape& mesh,
                    std::optional<Axis> batch_axis) const override {
    const Axis axis = axis_of_strategy(name(), mesh, options_.axis, std::nullopt);
    if (axis == batch_axis) {
      fail("{}: axis \"{}\" splits batches; expected another axis of the mesh", name(),
           options_.axis);
    }
    LayoutMap layouts(mesh);
    const std::vector<int> dimensions =
        Pairs(model, mesh.axes()[static_cast<std::size_t>(axis)].size).dimensions();
    for (const Variable& variable : model.variables) {
      const int dimension = dimensions[static_cast<std::size_t>(variable.tensor)];
      if (dimension < 0) continue;
      layouts.insert(variable.path, split_by(mesh, axis, variable.options.shape.size(),
                                             static_cast<std::size_t>(dimension)));
    }
    return layouts;
  }

 private:
  MegatronOptions options_;
};

}  // namespace

Distribution MegatronLayout(DeviceMesh& mesh, const MegatronOptions& options,
                            const DistributionOptions& distribution) {
  return spread_by(mesh, megatron(options), distribution);
}

SharedStrategy megatron(const MegatronOptions& options) {
  return std::make_shared<const MegatronStrategy>(options);
}

void add_megatron_layout(Catalog& catalog) {
  catalog.add<SharedStrategy, MegatronOptions>("MegatronLayout", {}, megatron);
}

}  // namespace meshwork
