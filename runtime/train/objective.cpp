#include "runtime/train/objective.h"

#include <algorithm>
#include <utility>

#include "collectives/error.h"
#include "runtime/config/nearest.h"
#include "runtime/data/source.h"

namespace meshwork {

Objective without_objective(std::shared_ptr<const Graph> model) {
  return {.graph = std::move(model)};
}

std::string output_name(const Graph& model, TensorId output) {
  constexpr std::string_view ending = "/output";
  const std::string& path = model.tensors[output].path;
  return path.ends_with(ending) ? path.substr(0, path.size() - ending.size()) : path;
}

std::vector<std::string> output_names(const Graph& model) {
  std::vector<std::string> names;
  for (const TensorId output : model.outputs) names.push_back(output_name(model, output));
  return names;
}

const Operation* maker_of_values(const Graph& model, TensorId tensor) {
  for (int producer = model.tensors[tensor].producer; producer >= 0;
       producer = model.tensors[tensor].producer) {
    const GraphOperation& maker = model.operations[producer];
    if (maker.operation->output_values() != ValueKind::as_input) return maker.operation.get();
    tensor = maker.inputs.front();
  }
  return nullptr;
}

std::string mismatch_of(const Graph& model, TensorId output, const OutputTraining& training) {
  const Loss& loss = *training.loss;
  const Operation* const maker = maker_of_values(model, output);
  const bool probabilities = maker != nullptr && maker->output_values() == ValueKind::probabilities;
  const std::string& path = model.tensors[output].path;
  const Shape& shape = model.tensors[output].shape;
  const Predictions taken = loss.predictions(shape);
  if (taken == Predictions::logits && probabilities) {
    return fmt::format(
        "the loss takes predictions for logits (from_logits: true), but \"{}\" comes out of a {}; "
        "set from_logits: false, or leave the {} out",
        path, maker->kind(), maker->kind());
  }
  if (taken == Predictions::probabilities && !probabilities) {
    return fmt::format(
        "the loss takes predictions for probabilities (from_logits: false), but no softmax or "
        "sigmoid makes \"{}\"; set from_logits: true, or end the model with one",
        path);
  }
  for (const SharedMetric& metric : training.metrics) {
    if (taken == Predictions::logits && metric->predictions(shape) == Predictions::probabilities) {
      return fmt::format(
          "the loss takes \"{}\" for logits, but the metric {} takes it for probabilities; end the "
          "model with a sigmoid, or give the metric what suits logits (from_logits: true, or a "
          "threshold)",
          path, metric->name());
    }
  }
  return "";
}

namespace {

// A target of which some rows may not count.
struct CountedTarget {
  TensorId target = -1;
  std::optional<TensorId> count = {};  // how many do
  int counted_by = -1;                 // the place of that sum in Objective::measured
};

// An output that has a loss, and what its comparison with a target takes.
struct ComparedOutput {
  const OutputTraining* training = nullptr;
  std::string name;
  TensorId prediction = -1;
  TensorId target = -1;
  Shape predicted, expected;   // of a batch
  CountedTarget counted = {};  // by the loss
};

// Names of logs are no paths.
std::string name_in_logs(std::string name) {
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

std::vector<ComparedOutput> compared_outputs(const Graph& model,
                                             const std::vector<OutputTraining>& outputs,
                                             const LossData& data) {
  if (outputs.size() != model.outputs.size()) {
    fail("the model has {} outputs, but what {} are trained by is said", model.outputs.size(),
         outputs.size());
  }
  std::vector<ComparedOutput> compared;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].loss) continue;
    const TensorId output = model.outputs[i];
    compared.push_back({.training = &outputs[i],
                        .name = name_in_logs(output_name(model, output)),
                        .prediction = output,
                        .predicted = model.tensors[output].shape});
    names.push_back(compared.back().name);
  }
  if (compared.empty()) fail("no output of the model has a loss");
  if (data.targets.size() != compared.size()) {
    fail("{} of the model {} compared with targets, {}, but the data have {} targets",
         compared.size() == 1 ? "one output" : fmt::format("{} outputs", compared.size()),
         compared.size() == 1 ? "is" : "are", quoted_list(names), data.targets.size());
  }
  if (compared.size() > 1 && !data.class_weight.empty()) {
    fail("classes have weights only in a model of one loss, but the outputs {} have losses",
         quoted_list(names));
  }
  return compared;
}

}  // namespace

Objective with_objective(const Graph& model, const std::vector<OutputTraining>& outputs,
                         const LossData& data) {
  std::vector<ComparedOutput> compared = compared_outputs(model, outputs, data);
  const bool several = compared.size() > 1;
  auto graph = std::make_shared<Graph>(model);
  Objective objective;
  const auto add_fed = [&](const Shape& sample, ElementType type, std::string path) {
    Shape shape{-1};
    shape.insert(shape.end(), sample.begin(), sample.end());
    return graph->add_tensor({.shape = std::move(shape),
                              .type = type,
                              .role = TensorRole::target,
                              .path = std::move(path)});
  };
  for (std::size_t i = 0; i < compared.size(); ++i) {
    ComparedOutput& output = compared[i];
    output.target = add_fed(data.targets[i], output.training->loss->target_type(),
                            several ? "target/" + output.name : "target");
    output.expected = graph->tensors[output.target].shape;
    objective.targets.push_back(output.target);
    objective.target_classes.push_back(
        output.training->loss->target_classes(output.predicted, output.expected));
    objective.ignored_classes.push_back(output.training->loss->ignored_class());
  }
  if (data.weights) {
    objective.weights = add_fed(*data.weights, ElementType::float32, std::string(weights_name));
  }
  const auto add = [&](const ComparedOutput& output, std::unique_ptr<Operation> operation,
                       std::vector<TensorId> inputs, std::string_view path,
                       const std::string& name) {
    return graph->add_operation(
        std::move(operation), std::move(inputs), -1,
        fmt::format("{}{}/{}", path, several ? "/" + output.name : "", name));
  };
  const auto join = [&](const ComparedOutput& output, SharedMetric measured,
                        std::unique_ptr<Operation> operation, std::vector<TensorId> inputs,
                        std::string_view path, const std::string& name, int counted_by = -1) {
    objective.results.push_back(measured ? measured->results(output.predicted) : 0);
    objective.measured.push_back(std::move(measured));
    objective.sum_counts.push_back(operation->sum_count());
    objective.values_per_row.push_back(Metric::value_count(graph->shape_of(output.prediction, 1)));
    objective.counted_by.push_back(counted_by);
    return add(output, std::move(operation), std::move(inputs), path, name);
  };
  // What an output is compared with by `measured`: targets of which those that are ignored are no
  // class, and how many others there are.
  std::map<std::pair<TensorId, std::int64_t>, CountedTarget> known;
  const auto leave_out = [&](const ComparedOutput& output, const CountedTarget& target,
                             const Metric& measured, std::string_view path) {
    const std::optional<std::int64_t> ignored = measured.ignored_class();
    if (!ignored) return target;
    const auto [at, added] = known.try_emplace({target.target, *ignored}, target);
    if (!added) return at->second;
    const std::int64_t classes = measured.target_classes(output.predicted, output.expected);
    CountedTarget& counted = at->second;
    if (*ignored >= 0 && *ignored < classes) {
      counted.target =
          add(output, make_ignored_class(*ignored), {target.target}, path, "ignored_class");
    }
    counted.counted_by = static_cast<int>(objective.measured.size());
    counted.count =
        join(output, nullptr, make_class_count(classes), {counted.target}, path, "class_count");
    return counted;
  };
  const auto add_log = [&](const std::string& name, Better better) {
    check_log_name(name);
    if (name == gradient_norm_name || !objective.better.emplace(name, better).second) {
      fail("two values are called \"{}\" in the logs; give the layer or the metric another name",
           name);
    }
    objective.names.push_back(name);
  };
  add_log("loss", Better::lower);
  for (ComparedOutput& output : compared) {
    const Loss& loss = *output.training->loss;
    output.counted = leave_out(output, {.target = output.target}, loss, "loss");
    std::optional<TensorId> weights = objective.weights;
    if (!data.class_weight.empty() || output.counted.count) {
      std::vector<TensorId> inputs{output.counted.target};
      if (weights) inputs.push_back(*weights);
      if (output.counted.count) inputs.push_back(*output.counted.count);
      weights = add(output,
                    loss.class_weights(output.predicted, output.expected, data.class_weight,
                                       {.weighted = weights.has_value(),
                                        .counted = output.counted.count.has_value()}),
                    std::move(inputs), "loss", "class_weight");
    }
    std::vector<TensorId> inputs{output.prediction, output.counted.target};
    if (weights) inputs.push_back(*weights);
    objective.losses[static_cast<int>(graph->operations.size())] = output.training->weight;
    objective.loss_weights.push_back(output.training->weight);
    (void)join(output, output.training->loss,
               weights ? loss.weighted_operation(output.predicted, output.expected,
                                                 graph->tensors[*weights].shape)
                       : loss.operation(output.predicted, output.expected),
               std::move(inputs), "loss", loss.name());
    if (several) add_log(output.name + "_loss", Better::lower);
  }
  for (const ComparedOutput& output : compared) {
    check_metric_names(output.training->metrics);
    for (const SharedMetric& metric : output.training->metrics) {
      const CountedTarget counted =
          metric->ignored_class() == output.training->loss->ignored_class()
              ? output.counted
              : leave_out(output, output.counted, *metric, "metrics");
      (void)join(output, metric, metric->operation(output.predicted, output.expected),
                 {output.prediction, counted.target}, "metrics", metric->name(),
                 counted.counted_by);
      const std::string log = several ? output.name + "_" + metric->name() : metric->name();
      const std::int64_t results = objective.results.back();
      for (std::int64_t i = 0; i < results; ++i) {
        add_log(results > 1 ? fmt::format("{}_{}", log, i) : log, metric->better());
      }
    }
  }
  objective.data = data;
  objective.graph = std::move(graph);
  return objective;
}

}  // namespace meshwork
