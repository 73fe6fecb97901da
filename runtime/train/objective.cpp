#include "runtime/train/objective.h"

#include "collectives/error.h"

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
                         const std::vector<SharedMetric>& metrics, const Shape& target) {
  check_one_output(model);
  check_metric_names(metrics);
  auto graph = std::make_shared<Graph>(model);
  Objective objective;
  const TensorId prediction = graph->outputs.front();
  Shape target_shape{-1};
  target_shape.insert(target_shape.end(), target.begin(), target.end());
  const TensorId target_tensor = graph->add_tensor({.shape = target_shape,
                                                    .type = loss.target_type(),
                                                    .role = TensorRole::target,
                                                    .path = "target"});
  objective.targets = {target_tensor};

  const Shape predicted = graph->tensors[prediction].shape;
  const Shape one_row = graph->shape_of(prediction, 1);
  const auto join = [&](const Metric& metric, const std::string& name, const std::string& path) {
    (void)graph->add_operation(metric.operation(predicted, target_shape),
                               {prediction, target_tensor}, -1, path);
    objective.names.push_back(name);
    objective.values_per_row.push_back(Metric::value_count(one_row));
  };
  objective.loss_operation = static_cast<int>(graph->operations.size());
  join(loss, "loss", "loss/" + loss.name());
  for (const SharedMetric& metric : metrics) {
    join(*metric, metric->name(), "metrics/" + metric->name());
  }
  objective.target = target;
  objective.target_classes = loss.target_classes(predicted, target_shape);
  objective.graph = std::move(graph);
  return objective;
}

}  // namespace meshwork
