#include "runtime/train/state/keras_places.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "collectives/error.h"
#include "runtime/graph/adapts.h"
#include "runtime/graph/layer.h"

namespace meshwork {
namespace {

// A layer, and those that it is made of, in the order of their first calls.
struct Node {
  std::string name;        // the last part of its path
  std::string class_name;  // "": a part of the layer that it is in
  std::shared_ptr<Layer> layer;
  std::vector<int> variables;
  std::vector<Node> children;
  bool is_given = false;  // statistics that were given are no variables in Keras

  Node& child(const std::string& wanted) {
    for (Node& node : children) {
      if (node.name == wanted) {
        return node;
      }
    }
    return children.emplace_back(Node{wanted, "", {}, {}, {}});
  }
};

Node& node_at(Node& root, const std::string& path) {
  Node* node = &root;
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    node = &node->child(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return *node;
}

Node tree_of(const Graph& graph) {
  Node root;
  for (const GraphLayer& layer : graph.layers) {
    Node& node = node_at(root, layer.path);
    node.class_name = layer.class_name;
    node.layer = layer.layer;
    const auto* adapting = dynamic_cast<const AdaptsToData*>(layer.layer.get());
    node.is_given = adapting != nullptr && !adapting->adapts();
  }
  for (std::size_t v = 0; v < graph.variables.size(); ++v) {
    const std::string& path = graph.variables[v].path;
    node_at(root, path.substr(0, path.rfind('/'))).variables.push_back(static_cast<int>(v));
  }
  return root;
}

// The calls of the model's own layers: what lies inside a layer belongs to its call.
struct TopCalls {
  std::vector<int> of_layer;                // by graph layer, which is a call, the call it is in
  std::vector<std::string> paths;           // by call
  std::vector<std::vector<int>> producers;  // by call, those whose outputs it takes, in order
};

TopCalls top_calls(const Graph& graph) {
  TopCalls calls;
  for (const GraphLayer& layer : graph.layers) {
    if (layer.path.find('/') == std::string::npos) {
      calls.paths.push_back(layer.path);
    }
    calls.of_layer.push_back(static_cast<int>(calls.paths.size()) - 1);
  }
  calls.producers.resize(calls.paths.size());
  for (const GraphOperation& operation : graph.operations) {
    const int call = calls.of_layer[operation.layer];
    for (const TensorId input : operation.inputs) {
      const int producer = graph.tensors[input].producer;
      if (producer < 0) {
        continue;
      }
      const int from = calls.of_layer[graph.operations[producer].layer];
      std::vector<int>& known = calls.producers[call];
      if (from != call && std::count(known.begin(), known.end(), from) == 0) {
        known.push_back(from);
      }
    }
  }
  return calls;
}

// The paths of the model's own layers in the order of a functional model.
std::vector<std::string> functional_order(const Graph& graph) {
  const TopCalls calls = top_calls(graph);
  // A walk back from the outputs: layers are numbered as they are met, calls listed when all that
  // they take has been.
  std::map<std::string, int> met;
  std::vector<int> finished;
  std::set<int> seen;
  struct Visit {
    int call;
    std::size_t next = 0;
  };
  for (const TensorId output : graph.outputs) {
    const int producer = graph.tensors[output].producer;
    if (producer < 0) {
      continue;
    }
    const int last = calls.of_layer[graph.operations[producer].layer];
    std::vector<Visit> stack;
    const auto enter = [&](int call) {
      if (seen.insert(call).second) {
        met.try_emplace(calls.paths[call], static_cast<int>(met.size()));
        stack.push_back({call});
      }
    };
    enter(last);
    while (!stack.empty()) {
      Visit& visit = stack.back();
      const std::vector<int>& takes = calls.producers[visit.call];
      if (visit.next == takes.size()) {
        finished.push_back(visit.call);
        stack.pop_back();
      } else {
        enter(takes[visit.next++]);
      }
    }
  }
  std::map<int, int> call_depth;
  std::map<std::string, int> layer_depth;
  for (auto call = finished.rbegin(); call != finished.rend(); ++call) {
    const std::string& path = calls.paths[*call];
    const int depth = std::max(call_depth[*call], layer_depth[path]);
    call_depth[*call] = layer_depth[path] = depth;
    for (const int from : calls.producers[*call]) {
      call_depth[from] = std::max(call_depth[from], depth + 1);
    }
  }
  std::vector<std::string> order;
  for (const auto& [path, number] : met) {
    order.push_back(path);
  }
  std::sort(order.begin(), order.end(), [&](const std::string& a, const std::string& b) {
    return std::pair(-layer_depth[a], met[a]) < std::pair(-layer_depth[b], met[b]);
  });
  return order;
}

class PlacesInKeras {
 public:
  explicit PlacesInKeras(const Graph& graph) : graph_(graph) {}

  void add(const Node& node, const std::string& place, KerasModel holder) {
    add_variables(node, place);
    std::map<std::string, int> used;
    for (const Node& child : node.children) {
      if (child.class_name.empty() && node.layer) {
        add(child, place + "/" + node.layer->part_in_keras(child.name), KerasModel::members);
        continue;
      }
      const std::string stem = snake_case(child.class_name);
      const int number = used[stem]++;
      const bool by_name = holder == KerasModel::members ||
                           (holder == KerasModel::subclass && child.name < "layers");
      const std::string own =
          by_name ? child.name
                  : fmt::format("layers/{}{}", stem, number == 0 ? "" : fmt::format("_{}", number));
      add(child, place.empty() ? own : place + "/" + own,
          child.class_name == "Sequential" ? KerasModel::functional : KerasModel::members);
    }
  }

  std::vector<KerasPlace> places;

 private:
  void add_variables(const Node& node, const std::string& place) {
    if (node.is_given) return;
    std::vector<int> variables = node.variables;
    std::stable_partition(variables.begin(), variables.end(),
                          [&](int v) { return graph_.variables[v].options.trainable; });
    for (std::size_t i = 0; i < variables.size(); ++i) {
      places.push_back({graph_.variables[variables[i]].path, fmt::format("{}/vars/{}", place, i)});
    }
  }

  const Graph& graph_;
};

// Its number.
int variable_called(const Graph& graph, const std::string& path) {
  const auto found = std::find_if(graph.variables.begin(), graph.variables.end(),
                                  [&](const Variable& known) { return known.path == path; });
  return static_cast<int>(found - graph.variables.begin());
}

}  // namespace

std::vector<KerasPlace> keras_places(const Graph& graph, KerasModel model) {
  Node root = tree_of(graph);
  if (model == KerasModel::functional) {
    const std::vector<std::string> order = functional_order(graph);
    const auto rank = [&](const Node& node) {
      return std::find(order.begin(), order.end(), node.name) - order.begin();
    };
    std::stable_sort(root.children.begin(), root.children.end(),
                     [&](const Node& a, const Node& b) { return rank(a) < rank(b); });
  }
  PlacesInKeras places(graph);
  places.add(root, "", model);
  return std::move(places.places);
}

std::vector<KerasEntry> keras_weight_entries(const Graph& graph,
                                             const std::vector<KerasPlace>& places) {
  std::vector<KerasEntry> entries;
  for (const KerasPlace& place : places) {
    entries.push_back({place.place, variable_called(graph, place.variable)});
  }
  return entries;
}

KerasOptimizer keras_optimizer(const Graph& graph, const Optimizer& optimizer,
                               const std::vector<KerasPlace>& places, std::int64_t iteration) {
  KerasOptimizer keras{optimizer.schedule().is_constant(), optimizer.slot_names(), {}, {}};
  if (const std::optional<double> number = optimizer.keras_number(iteration)) {
    keras.numbers.push_back(*number);
  }
  for (const KerasPlace& place : places) {
    if (graph.variables[variable_called(graph, place.variable)].options.trainable) {
      keras.variables.push_back(place.variable);
    }
  }
  return keras;
}

std::vector<KerasEntry> keras_slot_entries(const Graph& graph, const KerasOptimizer& optimizer) {
  std::vector<KerasEntry> entries;
  for (std::size_t v = 0; v < optimizer.variables.size(); ++v) {
    for (std::size_t s = 0; s < optimizer.slots.size(); ++s) {
      entries.push_back({keras_slot_place(optimizer, s, v),
                         variable_called(graph, optimizer.variables[v]), static_cast<int>(s)});
    }
  }
  return entries;
}

}  // namespace meshwork
