#include "runtime/train/objective.h"

#include <utility>

#include "collectives/error.h"
#include "runtime/data/source.h"

namespace meshwork {

Objective without_objective(std::shared_ptr<const Graph> model) {
  return {.graph = std::move(model)};
}

void check_one_output(const Graph& model) {
  if (model.outputs.size() == 1) {
    return;
  }
  std::string names;
  for (const TensorId output : model.outputs) {
    const std::string& path = model.tensors[output].path;
    names += (names.empty() ? "\"" : ", \"") + path + "\"";
  }
  fail(
      "the model has {} outputs, {}, and a loss compares one with targets: the others would not be "
      "trained; join them in a layer such as Concatenate, or make the model with one of them",
      model.outputs.size(), names);
}

std::string mismatch_of(const Graph& model, const Loss& loss) {
  const TensorId output = model.outputs.front();
  const auto maker_of = [&](TensorId tensor) -> const GraphOperation* {
    const int producer = model.tensors[tensor].producer;
    return producer < 0 ? nullptr : &model.operations[producer];
  };
  const GraphOperation* maker = maker_of(output);
  while (maker != nullptr && maker->operation->output_values() == ValueKind::as_input) {
    maker = maker_of(maker->inputs.front());
  }
  const bool probabilities =
      maker != nullptr && maker->operation->output_values() == ValueKind::probabilities;
  const std::string& path = model.tensors[output].path;
  if (loss.predictions() == Predictions::logits && probabilities) {
    return fmt::format(
        "the loss takes predictions for logits (from_logits: true), but \"{}\" comes out of a {}; "
        "set from_logits: false, or leave the {} out",
        path, maker->operation->kind(), maker->operation->kind());
  }
  if (loss.predictions() == Predictions::probabilities && !probabilities) {
    return fmt::format(
        "the loss takes predictions for probabilities (from_logits: false), but no softmax or "
        "sigmoid makes \"{}\"; set from_logits: true, or end the model with one",
        path);
  }
  return "";
}

Objective with_objective(const Graph& model, const Loss& loss,
                         const std::vector<SharedMetric>& metrics, const LossData& data) {
  check_one_output(model);
  check_metric_names(metrics);
  auto graph = std::make_shared<Graph>(model);
  Objective objective;
  const TensorId prediction = graph->outputs.front();
  const auto add_fed = [&](const Shape& sample, ElementType type, std::string_view path) {
    Shape shape{-1};
    shape.insert(shape.end(), sample.begin(), sample.end());
    return graph->add_tensor({.shape = std::move(shape),
                              .type = type,
                              .role = TensorRole::target,
                              .path = std::string(path)});
  };
  const TensorId target_tensor = add_fed(data.target, loss.target_type(), "target");
  const Shape target_shape = graph->tensors[target_tensor].shape;
  objective.targets = {target_tensor};
  if (data.weights) {
    objective.weights = add_fed(*data.weights, ElementType::float32, weights_name);
  }

  const Shape predicted = graph->tensors[prediction].shape;
  const Shape one_row = graph->shape_of(prediction, 1);
  std::optional<TensorId> weights = objective.weights;
  if (!data.class_weight.empty()) {
    std::vector<TensorId> inputs{target_tensor};
    if (weights) inputs.push_back(*weights);
    weights = graph->add_operation(
        loss.class_weights(predicted, target_shape, data.class_weight, weights.has_value()),
        std::move(inputs), -1, "loss/class_weight");
  }
  const auto join = [&](std::unique_ptr<Operation> operation, std::vector<TensorId> inputs,
                        const std::string& name, const std::string& path) {
    (void)graph->add_operation(std::move(operation), std::move(inputs), -1, path);
    objective.names.push_back(name);
    objective.values_per_row.push_back(Metric::value_count(one_row));
  };
  objective.loss_operation = static_cast<int>(graph->operations.size());
  if (weights) {
    join(loss.weighted_operation(predicted, target_shape, graph->tensors[*weights].shape),
         {prediction, target_tensor, *weights}, "loss", "loss/" + loss.name());
  } else {
    join(loss.operation(predicted, target_shape), {prediction, target_tensor}, "loss",
         "loss/" + loss.name());
  }
  for (const SharedMetric& metric : metrics) {
    join(metric->operation(predicted, target_shape), {prediction, target_tensor}, metric->name(),
         "metrics/" + metric->name());
  }
  objective.data = data;
  objective.target_classes = loss.target_classes(predicted, target_shape);
  objective.graph = std::move(graph);
  return objective;
}

}  // namespace meshwork
