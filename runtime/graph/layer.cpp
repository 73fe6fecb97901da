#include "runtime/graph/layer.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "collectives/printable.h"
#include "runtime/graph/operations/document_starts.h"
#include "runtime/graph/operations/identity.h"
#include "runtime/graph/operations/pair.h"
#include "runtime/graph/path_error.h"

namespace meshwork {
namespace {

using Call = SymbolicTensor::Call;
using Calls = std::vector<std::shared_ptr<const Call>>;

void check_name(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    fail("the name \"{}\" contains \"/\", which separates the parts of a path", name);
  }
  if (name == "." || name == "..") {
    fail("the name \"{}\" has a meaning of its own in paths", name);
  }
  if (!is_one_line_of_letters(name)) {
    fail("the name \"{}\" contains a control character; letters are expected", in_one_line(name));
  }
  if (name.size() > longest_name) {
    fail("a name has {} bytes, {} are the most; it begins with \"{}\"", name.size(), longest_name,
         in_one_line(name.substr(0, 40)));
  }
}

// All calls that `outputs` depend on, each after those that it depends on. The walk ends at
// `inputs`, which are in it.
Calls calls_between(std::span<const SymbolicTensor> inputs,
                    std::span<const SymbolicTensor> outputs) {
  struct Visit {
    std::shared_ptr<const Call> call;
    std::size_t next = 0;  // of its inputs
  };
  std::set<const Call*> ends;
  for (const SymbolicTensor& input : inputs) {
    ends.insert(input.call().get());
  }
  Calls order;
  std::set<const Call*> met;
  std::vector<Visit> stack;
  for (const SymbolicTensor& output : outputs) {
    if (met.insert(output.call().get()).second) {
      stack.push_back({output.call()});
    }
    while (!stack.empty()) {
      Visit& visit = stack.back();
      if (visit.next == visit.call->inputs.size() || ends.contains(visit.call.get())) {
        order.push_back(visit.call);
        stack.pop_back();
        continue;
      }
      const std::shared_ptr<const Call>& input = visit.call->inputs[visit.next++].call();
      if (met.insert(input.get()).second) {
        stack.push_back({input});
      }
    }
  }
  return order;
}

std::string described(const Call& input) {
  return input.input_name.empty() ? "an input without a name, of shape " + to_string(input.shape)
                                  : "the input \"" + input.input_name + "\"";
}

class SequentialBlock : public LayerBlock {
 public:
  SequentialBlock(std::vector<SharedLayer> layers, std::string name)
      : LayerBlock(std::move(name)), layers_(std::move(layers)) {}
  std::string class_name() const override { return "Sequential"; }
  SymbolicTensor call(const std::vector<SymbolicTensor>& inputs) const override {
    if (inputs.size() != 1) {
      fail("expected one input, found {}; the layers of a Sequential stand one after the other",
           inputs.size());
    }
    SymbolicTensor value = inputs.front();
    for (const SharedLayer& layer : layers_) {
      value = layer(value);
    }
    return value;
  }

 private:
  std::vector<SharedLayer> layers_;
};

}  // namespace

const Shape& SymbolicTensor::shape() const {
  return call_->shape;
}

ElementType SymbolicTensor::type() const {
  return call_->type;
}

SymbolicTensor Input(Shape shape, std::string name, ElementType dtype) {
  check_name(name);
  if (dtype != ElementType::float32 && dtype != ElementType::int32) {
    fail("Input: an input is float32 or int32, found {}", name_of(dtype));
  }
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] < 1) {
      fail(
          "Input: dimension {} of a sample has length {}; lengths are positive, and the batch is "
          "not among them",
          d, shape[d]);
    }
  }
  shape.insert(shape.begin(), -1);
  return SymbolicTensor(std::make_shared<Call>(Call{nullptr, std::move(name), {}, shape, dtype}));
}

SymbolicTensor SharedLayer::operator()(const SymbolicTensor& input) const {
  return (*this)(std::vector<SymbolicTensor>{input});
}

// The output's shape is what building the layer on inputs of these shapes gives, in a graph that is
// thrown away.
SymbolicTensor SharedLayer::operator()(const std::vector<SymbolicTensor>& inputs) const {
  Graph scratch;
  LayerBuilder builder(scratch);
  const std::string name = layer_->name().empty() ? layer_->class_name() : layer_->name();
  if (inputs.empty()) {
    throw PathError(name, "called without inputs");
  }
  builder.paths_[layer_.get()] = name;
  std::vector<TensorId> arguments;
  for (const SymbolicTensor& input : inputs) {
    arguments.push_back(scratch.add_tensor(
        {.shape = input.shape(), .type = input.type(), .role = TensorRole::input}));
  }
  check_name(layer_->name());
  const TensorId output = builder.call(layer_, arguments);
  return SymbolicTensor(std::make_shared<Call>(
      Call{layer_, "", inputs, scratch.tensors[output].shape, scratch.tensors[output].type}));
}

TensorId LayerBlock::build(LayerBuilder& builder, std::span<const TensorId> inputs) const {
  std::vector<SymbolicTensor> symbols;
  for (const TensorId input : inputs) {
    symbols.emplace_back(
        std::make_shared<Call>(Call{nullptr,
                                    fmt::format("{} of {}", symbols.size(), builder.path()),
                                    {},
                                    builder.shape(input),
                                    builder.type(input)}));
  }
  const SymbolicTensor output = [&] {
    try {
      return call(symbols);
    } catch (const PathError& error) {
      // What is called there knows its own name, not this block's path.
      throw error.within(builder.path());
    }
  }();
  return builder.expand(output, symbols, inputs);
}

SharedLayer LayerBlock::add(const std::string& name, SharedLayer layer) {
  check_name(name);
  if (name.empty()) {
    fail("a sub-layer of class {} was added without a name", layer.layer().class_name());
  }
  if (!layer.layer().name().empty() && layer.layer().name() != name) {
    fail("the sub-layer \"{}\" has the name \"{}\" already", name, layer.layer().name());
  }
  layer.layer().set_name(name);
  return layer;
}

SharedLayer Sequential(std::vector<SharedLayer> layers, std::string name) {
  return SharedLayer(std::make_shared<SequentialBlock>(std::move(layers), std::move(name)));
}

// An underscore goes before a capital that follows a small letter or precedes one. In Keras
// (src/utils/naming.py) three regular expressions say so.
std::string snake_case(const std::string& class_name) {
  const auto is_small = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto is_capital = [](char c) { return c >= 'A' && c <= 'Z'; };
  std::string letters;
  std::ranges::copy_if(class_name, std::back_inserter(letters), [&](char c) {
    return is_small(c) || is_capital(c) || (c >= '0' && c <= '9') || c == '_';
  });
  std::string name;
  for (std::size_t i = 0; i < letters.size(); ++i) {
    if (!is_capital(letters[i])) {
      name += letters[i];
      continue;
    }
    const bool begins_word =
        i > 0 && (is_small(letters[i - 1]) || (i + 1 < letters.size() && is_small(letters[i + 1])));
    if (begins_word) name += '_';
    name += static_cast<char>(letters[i] - 'A' + 'a');
  }
  return name;
}

// ---- LayerBuilder -------------------------------------------------------------------------------

const std::string& LayerBuilder::path() const {
  if (layer_stack_.empty()) {
    internal_error("no layer is being built");
  }
  return graph_->layers[layer_stack_.back()].path;
}

bool LayerBuilder::trainable() const {
  return std::all_of(layer_stack_.begin(), layer_stack_.end(),
                     [&](int layer) { return graph_->layers[layer].layer->trainable(); });
}

std::string LayerBuilder::current_scope() const {
  return layer_stack_.empty() ? "" : path() + "/";
}

// `stem`, or the first of stem_1, stem_2, ... that is free.
std::string LayerBuilder::free_name(Scope& scope, const std::string& stem) const {
  while (true) {
    const int number = scope.unnamed[stem]++;
    std::string name = number == 0 ? stem : fmt::format("{}_{}", stem, number);
    if (!scope.taken.contains(name)) {
      return name;
    }
  }
}

// Takes the name that the user gave to `layer`, unless another has it.
void LayerBuilder::claim_name(Scope& scope, const std::shared_ptr<Layer>& layer) {
  const std::string& name = layer->name();
  check_name(name);
  const auto [taken, added] = scope.taken.try_emplace(name, layer.get());
  if (added) {
    held_.push_back(layer);
  } else if (taken->second == nullptr) {
    fail("a layer (of class {}) and an input are both named \"{}\"", layer->class_name(), name);
  } else if (taken->second != layer.get()) {
    fail(
        "two layers are named \"{}\" (of class {} and {}); names must differ, and a layer that is "
        "to be used twice is made once and called twice",
        name, taken->second->class_name(), layer->class_name());
  }
}

const std::string& LayerBuilder::path_of(const std::shared_ptr<Layer>& layer) {
  const auto known = paths_.find(layer.get());
  if (known != paths_.end()) {
    return known->second;
  }
  const std::string prefix = current_scope();
  Scope& scope = scopes_[prefix];
  std::string name = layer->name();
  if (name.empty()) {
    name = free_name(scope, snake_case(layer->class_name()));
    scope.taken[name] = layer.get();
    held_.push_back(layer);
  } else {
    claim_name(scope, layer);
  }
  return paths_[layer.get()] = prefix + name;
}

// Names that users gave come first, so that those made by counting go around them.
void LayerBuilder::reserve_names(const Calls& calls) {
  Scope& scope = scopes_[current_scope()];
  for (const auto& call : calls) {
    if (call->layer && !call->layer->name().empty() && !paths_.contains(call->layer.get())) {
      claim_name(scope, call->layer);
    }
  }
}

TensorId LayerBuilder::variable(const std::string& name, VariableOptions options) {
  const std::string path = this->path() + "/" + name;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    const std::string part = name.substr(begin, end - begin);
    check_name(part);
    if (part.empty() || part == "output") fail("\"{}\" cannot be the name of a variable", name);
    begin = end + 1;
  }
  if (const auto known = variables_.find(path); known != variables_.end()) {
    const Shape& shape = graph_->tensors[known->second].shape;
    if (shape != options.shape) {
      fail(
          "its variable \"{}\" has shape {} since the layer's first call, and this call needs {}; "
          "a layer that is called twice takes inputs of one size",
          name, to_string(shape), to_string(options.shape));
    }
    return known->second;
  }
  for (const std::int64_t length : options.shape) {
    if (length < 0) {
      fail("its variable \"{}\" cannot have shape {}", name, to_string(options.shape));
    }
  }
  try {
    (void)element_count(options.shape);
    check_initializer(options.initializer, options.shape);
    check_regularizer(options.regularizer, options.shape);
    check_constraint(options.constraint, options.shape);
  } catch (...) {
    rethrow_from(fmt::format("its variable \"{}\"", name));
  }
  options.trainable = options.trainable && trainable();
  GraphTensor tensor;
  tensor.shape = options.shape;
  tensor.role = TensorRole::variable;
  tensor.path = path;
  tensor.variable = static_cast<int>(graph_->variables.size());
  const TensorId id = graph_->add_tensor(std::move(tensor));
  graph_->variables.push_back({path, std::move(options), id});
  return variables_[path] = id;
}

TensorId LayerBuilder::apply(std::unique_ptr<Operation> operation, std::vector<TensorId> inputs) {
  const std::string path = this->path() + "/" + operation->kind();
  try {
    const TensorId output =
        graph_->add_operation(std::move(operation), inputs, layer_stack_.back(), path);
    const std::shared_ptr<const Operation> made = graph_->operations.back().operation;
    graph_->tensors[output].documents = documents_of_output(*made, inputs);
    const TensorId mask = mask_of_output(*made, inputs);
    graph_->tensors[output].mask = mask;
    return output;
  } catch (const PathError& error) {
    throw Error(error.problem());  // the user knows the layer
  }
}

TensorId LayerBuilder::document_starts(TensorId numbers, std::int32_t end) {
  auto [at, added] = starts_.try_emplace({numbers, end}, -1);
  if (added) at->second = apply(std::make_unique<DocumentStartsOperation>(end), {numbers});
  return at->second;
}

TensorId LayerBuilder::documents_of_output(const Operation& operation,
                                           const std::vector<TensorId>& inputs) const {
  const auto has_some = [&](TensorId input) { return documents(input) != -1; };
  if (std::ranges::none_of(inputs, has_some) || operation.output_values() == ValueKind::mask) {
    return -1;
  }
  std::vector<Shape> shapes;
  for (const TensorId input : inputs) shapes.push_back(shape(input));
  const Rule rule = operation.rule(shapes);
  TensorId found = -1;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const TensorId own = documents(inputs[i]);
    if (own == -1) continue;
    const std::string letters = rule.inputs[i].substr(0, 2);
    const bool same_places =
        letters.find_first_of(rule.windows + rule.whole) == std::string::npos &&
        rule.output.starts_with(letters);
    if (!same_places || (found != -1 && found != own)) return lost_documents;
    found = own;
  }
  return found;
}

TensorId LayerBuilder::mask_of_output(const Operation& operation,
                                      const std::vector<TensorId>& inputs) {
  const auto is_masked = [&](TensorId input) { return mask(input) >= 0; };
  if (std::ranges::none_of(inputs, is_masked) || operation.output_values() == ValueKind::mask) {
    return -1;
  }
  std::vector<Shape> shapes;
  for (const TensorId input : inputs) shapes.push_back(shape(input));
  const Rule rule = operation.rule(shapes);
  std::set<TensorId> masks;
  std::string masked;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!graph_->tensors[inputs[i]].batched()) continue;
    if (mask(inputs[i]) < 0) return -1;  // all of it counts
    const std::string letters = rule.inputs[i].substr(0, shape(mask(inputs[i])).size());
    if ((!masks.empty() && letters != masked) || !rule.output.starts_with(letters) ||
        letters.find_first_of(rule.windows + rule.whole) != std::string::npos) {
      return -1;
    }
    masked = letters;
    masks.insert(mask(inputs[i]));
  }
  TensorId joined = *masks.begin();
  for (const TensorId other : masks) {
    if (other == joined) continue;
    joined = apply(std::make_unique<PairOperation>(PairFunction::maximum), {joined, other});
  }
  return joined;
}

TensorId LayerBuilder::call(const std::shared_ptr<Layer>& layer, std::span<const TensorId> inputs) {
  const std::string path = path_of(layer);
  const int index = static_cast<int>(graph_->layers.size());
  graph_->layers.push_back({path, layer->class_name(), -1, layer});
  layer_stack_.push_back(index);
  TensorId output = -1;
  try {
    output = layer->build(*this, inputs);
    // What has a path already, or is no value, cannot carry this layer's as well.
    if (graph_->tensors[output].role != TensorRole::value ||
        !graph_->tensors[output].path.empty() ||
        std::find(inputs.begin(), inputs.end(), output) != inputs.end()) {
      output = apply(std::make_unique<IdentityOperation>(), {output});
    }
  } catch (const PathError&) {
    throw;
  } catch (const std::exception& error) {
    throw PathError(path, message_of(error));
  }
  layer_stack_.pop_back();
  const int use = uses_[path]++;
  graph_->tensors[output].path =
      use == 0 ? path + "/output" : fmt::format("{}/output_{}", path, use);
  graph_->layers[index].output = output;
  return output;
}

TensorId LayerBuilder::expand(const SymbolicTensor& output, std::span<const SymbolicTensor> inputs,
                              std::span<const TensorId> values) {
  const std::vector<SymbolicTensor> outputs{output};
  const Calls calls = calls_between(inputs, outputs);
  reserve_names(calls);
  return build_calls(calls, outputs, inputs, values).front();
}

std::vector<TensorId> LayerBuilder::build_calls(const Calls& calls,
                                                std::span<const SymbolicTensor> outputs,
                                                std::span<const SymbolicTensor> inputs,
                                                std::span<const TensorId> values) {
  std::map<const Call*, TensorId> built;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    built[inputs[i].call().get()] = values[i];
  }
  for (const auto& call : calls) {
    if (built.contains(call.get())) {
      continue;
    }
    if (!call->layer) {
      fail("the output depends on {}, which is not among the inputs", described(*call));
    }
    std::vector<TensorId> operands;
    for (const SymbolicTensor& input : call->inputs) {
      operands.push_back(built.at(input.call().get()));
    }
    built[call.get()] = this->call(call->layer, operands);
  }
  std::vector<TensorId> results;
  for (const SymbolicTensor& output : outputs) {
    results.push_back(built.at(output.call().get()));
  }
  return results;
}

// ---- make_graph ---------------------------------------------------------------------------------

Graph make_graph(const std::vector<SymbolicTensor>& inputs,
                 const std::vector<SymbolicTensor>& outputs) {
  if (inputs.empty() || outputs.empty()) {
    fail("a model has at least one input and one output; found {} and {}", inputs.size(),
         outputs.size());
  }
  Graph graph;
  LayerBuilder builder(graph);
  auto& root = builder.scopes_[""];
  std::set<const Call*> listed;
  for (const SymbolicTensor& input : inputs) {
    const Call& call = *input.call();
    if (call.layer) {
      fail("an output of {} is listed as an input of the model; inputs are made by Input(shape)",
           call.layer->name().empty() ? "a " + call.layer->class_name() + " layer"
                                      : "the layer \"" + call.layer->name() + "\"");
    }
    if (!listed.insert(&call).second) {
      fail("{} is listed twice", described(call));
    }
    if (!call.input_name.empty() && !root.taken.try_emplace(call.input_name, nullptr).second) {
      fail("two inputs are named \"{}\"", call.input_name);
    }
  }
  const Calls calls = calls_between(inputs, outputs);
  for (const SymbolicTensor& input : inputs) {
    if (std::find(calls.begin(), calls.end(), input.call()) == calls.end()) {
      fail("{} is listed as an input of the model, but no output depends on it",
           described(*input.call()));
    }
  }
  builder.reserve_names(calls);
  for (const SymbolicTensor& input : inputs) {
    GraphTensor tensor;
    tensor.shape = input.shape();
    tensor.type = input.type();
    tensor.role = TensorRole::input;
    tensor.path = input.call()->input_name;
    if (tensor.path.empty()) {
      tensor.path = builder.free_name(root, "input");
      root.taken[tensor.path] = nullptr;
    }
    graph.inputs.push_back(graph.add_tensor(std::move(tensor)));
  }
  graph.outputs = builder.build_calls(calls, outputs, inputs, graph.inputs);
  return graph;
}

}  // namespace meshwork
