#include "runtime/train/layer_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <utility>

#include "collectives/error.h"
#include "collectives/joined_text.h"
#include "runtime/graph/operations/bias.h"
#include "runtime/graph/operations/contraction.h"

namespace meshwork {
namespace {

// A rank that hangs in a step of a few milliseconds does so for ever.
constexpr double watchdog_seconds = 120;
constexpr std::int64_t tail_units = 3;
// Length of the last dimension of what goes into "front".
constexpr std::int64_t fed_features = 2;
// Of whole numbers that name no classes.
constexpr std::int64_t whole_numbers = 10;

// Between -limit and limit.
Initializer uniform_values(double limit) {
  return {.name = "uniform values", .values = [limit](const InitializedVariable& variable) {
            return [limit, numbers = RandomNumbers(variable.key)](std::int64_t index) mutable {
              return limit * (2 * numbers.uniform(index) - 1);
            };
          }};
}

// y = x (..., in) * kernel (in, units) + bias.
class Mixing final : public Layer {
 public:
  Mixing(std::string name, std::int64_t units) : Layer(std::move(name)), units_(units) {}
  std::string class_name() const override { return "Mixing"; }
  TensorId build(LayerBuilder& builder, std::span<const TensorId> inputs) const override {
    const Shape shape = builder.shape(inputs.front());
    const double limit = std::sqrt(6.0 / static_cast<double>(shape.back() + units_));
    const TensorId kernel = builder.variable(
        "kernel", {.shape = {shape.back(), units_}, .initializer = uniform_values(limit)});
    const TensorId bias =
        builder.variable("bias", {.shape = {units_}, .initializer = uniform_values(0.05)});
    const TensorId product =
        builder.apply(std::make_unique<ContractionOperation>(dense_equation(shape.size())),
                      {inputs.front(), kernel});
    return builder.apply(std::make_unique<BiasOperation>(), {product, bias});
  }

 private:
  std::int64_t units_;
};

SymbolicTensor mixed(const SymbolicTensor& x, const std::string& name, std::int64_t units) {
  return SharedLayer(std::make_shared<Mixing>(name, units))(x);
}

std::vector<SymbolicTensor> inputs_of(const std::vector<Shape>& samples, ElementType dtype) {
  std::vector<SymbolicTensor> inputs;
  for (const Shape& sample : samples) inputs.push_back(Input(sample, "", dtype));
  return inputs;
}

Graph alone_of(const CheckedLayer& layer, ElementType dtype) {
  const std::vector<SymbolicTensor> inputs = inputs_of(layer.samples, dtype);
  return make_graph(inputs, {layer.make()(inputs)});
}

ValuesForShape numbers_below(std::int64_t count) {
  return [count](const Shape& shape) {
    std::mt19937 words(31);
    std::vector<float> values(static_cast<std::size_t>(element_count(shape)));
    for (float& value : values) value = static_cast<float>(words() % count);
    return values;
  };
}

}  // namespace

std::string in_words(const std::vector<Shape>& samples) {
  std::string text;
  for (const Shape& sample : samples) {
    text += fmt::format("{}[{}]", text.empty() ? "" : " and ", joined_text(sample, ", "));
  }
  return text;
}

std::vector<LayerCase> cases_of(const CheckedLayer& layer) {
  ElementType dtype = ElementType::float32;
  Graph graph;
  try {
    graph = alone_of(layer, dtype);
  } catch (const Error&) {
    dtype = ElementType::int32;
    try {
      graph = alone_of(layer, dtype);
    } catch (const Error&) {
      dtype = ElementType::float32;
    }
    if (dtype == ElementType::float32) throw;
  }
  const GraphLayer& checked = graph.layers.front();
  LayerCase subject{
      .name = fmt::format("{} of {}", checked.class_name, in_words(layer.samples)),
      .varied = true,
      .splits_eagerly = true,
      .layer = checked.path,
      .options = {.seed = 5, .device = layer.device, .watchdog_seconds = watchdog_seconds}};
  std::vector<std::string> fronts;  // by input: its name, or "" for one that is fed
  bool trained = false;
  for (std::size_t i = 0; i < layer.samples.size(); ++i) {
    const Shape& sample = layer.samples[i];
    const std::int64_t classes = graph.classes_of(graph.inputs[i]);
    const bool whole = classes > 0 || dtype == ElementType::int32;
    if (whole || sample.empty()) {
      subject.spread.push_back(graph.tensors[graph.inputs[i]].path);
      subject.inputs.push_back(
          {sample, dtype,
           whole ? numbers_below(classes > 0 ? classes : whole_numbers) : ValuesForShape()});
      fronts.emplace_back();
    } else {
      Shape fed = sample;
      fed.back() = fed_features;
      fronts.push_back(i == 0 ? "front" : fmt::format("front_{}", i));
      subject.spread.push_back(fronts.back() + "/output");
      subject.inputs.push_back({std::move(fed)});
      trained = true;
    }
  }
  for (const Variable& variable : graph.variables) {
    subject.spread.push_back(variable.path);
    trained = trained || variable.options.trainable;
  }
  subject.spread.push_back(checked.path + "/output");
  const std::size_t dimensions = graph.tensors[graph.outputs.front()].shape.size();
  std::vector<LayerCase> cases;
  for (const bool tail : {false, true}) {
    if (tail ? dimensions < 2 : !trained) continue;
    LayerCase one = subject;
    if (tail) one.name += ", then a product";
    one.build = [make = layer.make, samples = layer.samples, fronts,
                 tail](const std::vector<SymbolicTensor>& fed) {
      std::vector<SymbolicTensor> inputs;
      for (std::size_t i = 0; i < fed.size(); ++i) {
        inputs.push_back(fronts[i].empty() ? fed[i] : mixed(fed[i], fronts[i], samples[i].back()));
      }
      const SymbolicTensor y = make()(inputs);
      return tail ? mixed(y, "tail", tail_units) : y;
    };
    cases.push_back(std::move(one));
  }
  if (cases.empty()) fail("{}: it has nothing to train", subject.name);
  return cases;
}

}  // namespace meshwork
