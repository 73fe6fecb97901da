#include "runtime/train/objective.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "collectives/error.h"
#include "runtime/config/nearest.h"
#include "runtime/data/source.h"
#include "runtime/graph/operations/mask.h"
#include "runtime/train/losses/comparison.h"

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
          "the loss takes \"{}\" for logits, but the metric {} takes it for probabilities; set "
          "from_logits: true or a threshold of 0 in the metric, or end the model with a softmax "
          "(classes) or a sigmoid (yes or no) and set from_logits: false",
          path, metric->name());
    }
  }
  return "";
}

namespace {

// Which rows of an output count.
struct CountedRows {
  TensorId mask = -1;                        // -1: all
  TensorId count = -1;                       // how many that are
  int counted_by = -1;                       // the place of that sum in Objective::measured
  std::optional<std::int64_t> ignored = {};  // the class of which they are not
};

// An output that has a loss, and what its comparison with a target takes.
struct ComparedOutput {
  const OutputTraining* training = nullptr;
  std::string name;
  TensorId prediction = -1;
  TensorId target = -1;
  Shape predicted, expected;                 // of a batch
  CountedRows counted = {};                  // by the loss
  std::optional<std::int64_t> ignored = {};  // by the loss
};

// The mask of the rows of an output, or -1.
TensorId mask_of_rows(const Graph& graph, const ComparedOutput& output) {
  const TensorId mask = graph.tensors[output.prediction].mask;
  const bool of_rows =
      mask >= 0 && graph.tensors[mask].shape.size() <= shape_of_rows(output.predicted).size();
  return of_rows ? mask : -1;
}

// Names of logs are no paths.
std::string name_in_logs(std::string name) {
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

std::vector<ComparedOutput> compared_outputs(const Graph& model,
                                             const std::vector<OutputTraining>& outputs,
                                             const LossData& data) {
  if (outputs.size() != model.outputs.size()) {
    fail("the model has {} outputs, but losses are given for {}", model.outputs.size(),
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
    fail("class weights need a model with one loss, but the outputs {} have losses",
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
    output.counted.mask = mask_of_rows(*graph, output);
    output.ignored = output.training->loss->ignored_class();
    if (!output.ignored && output.counted.mask >= 0 && objective.target_classes.back() > 0) {
      output.ignored = -1;  // as which padding may be labelled
    }
    objective.ignored_classes.push_back(output.ignored);
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
  // What `measured` counts of the rows that `base` does.
  using Counted = std::tuple<TensorId, std::optional<std::int64_t>, TensorId, Shape>;
  std::map<Counted, CountedRows> known;  // by mask, ignored class, target of that, and rows
  const auto count_rows = [&](const ComparedOutput& output, const CountedRows& base,
                              std::optional<std::int64_t> ignored, std::string_view path) {
    if (base.count >= 0 ? !ignored || ignored == base.ignored : !ignored && base.mask < 0) {
      return base;
    }
    const Shape rows = shape_of_rows(output.predicted);
    const auto [at, added] =
        known.try_emplace({base.mask, ignored, ignored ? output.target : -1, rows}, base);
    if (!added) return at->second;
    CountedRows& counted = at->second;
    counted.ignored = ignored;
    if (ignored) {
      const MaskOptions options{.type = ElementType::int32,
                                .value = static_cast<double>(*ignored),
                                .dimensions = rows.size(),
                                .masked = base.mask >= 0};
      std::vector<TensorId> inputs{output.target};
      if (options.masked) inputs.push_back(base.mask);
      counted.mask =
          add(output, std::make_unique<MaskOperation>(options), std::move(inputs), path, "mask");
    }
    counted.counted_by = static_cast<int>(objective.measured.size());
    const std::size_t masked = graph->tensors[counted.mask].shape.size();
    counted.count = join(output, nullptr, make_mask_count(rows_an_element(rows, masked)),
                         {counted.mask}, path, "mask_count");
    return counted;
  };
  // The target, whose rows that do not count are of no class to what takes class numbers.
  std::map<std::pair<TensorId, TensorId>, TensorId> of_classes;  // by target and mask
  const auto target_for = [&](const ComparedOutput& output, const CountedRows& counted,
                              const Metric& measured, std::string_view path) {
    if (counted.mask < 0 || measured.target_classes(output.predicted, output.expected) == 0) {
      return output.target;
    }
    const auto [at, added] = of_classes.try_emplace({output.target, counted.mask}, output.target);
    if (added) {
      at->second =
          add(output, make_masked_class(), {output.target, counted.mask}, path, "masked_class");
    }
    return at->second;
  };
  const auto add_log = [&](const std::string& name, Better better) {
    check_log_name(name);
    if (name == gradient_norm_name || !objective.better.emplace(name, better).second) {
      fail("two values in the logs have the name \"{}\"; give the layer or the metric another name",
           name);
    }
    objective.names.push_back(name);
  };
  add_log("loss", Better::lower);
  for (ComparedOutput& output : compared) {
    const Loss& loss = *output.training->loss;
    output.counted = count_rows(output, output.counted, output.ignored, "loss");
    const CountedRows& counted = output.counted;
    const TensorId target = target_for(output, counted, loss, "loss");
    std::optional<TensorId> weights = objective.weights;
    if (!data.class_weight.empty() || counted.mask >= 0) {
      RowWeightInputs beside{.weighted = weights.has_value(), .masked = counted.mask >= 0};
      std::size_t dimensions = 0;
      std::vector<TensorId> inputs;
      if (!data.class_weight.empty()) inputs.push_back(target);
      if (weights) {
        inputs.push_back(*weights);
        dimensions = graph->tensors[*weights].shape.size();
      }
      if (beside.masked) {
        inputs.insert(inputs.end(), {counted.mask, counted.count});
        const std::size_t masked = graph->tensors[counted.mask].shape.size();
        beside.rows_an_element = rows_an_element(shape_of_rows(output.predicted), masked);
        dimensions = std::max(dimensions, masked);
      }
      weights = add(
          output,
          data.class_weight.empty()
              ? make_row_weights({}, RowClass::none, 0, dimensions, beside)
              : loss.class_weights(output.predicted, output.expected, data.class_weight, beside),
          std::move(inputs), "loss", "row_weights");
    }
    std::vector<TensorId> inputs{output.prediction, target};
    std::unique_ptr<Operation> operation;
    if (weights) {
      inputs.push_back(*weights);
      operation = loss.weighted_operation(output.predicted, output.expected,
                                          graph->tensors[*weights].shape);
      if (!operation) {
        fail("the loss \"{}\" takes no weights of samples or classes, and no mask", loss.name());
      }
    } else {
      operation = loss.operation(output.predicted, output.expected);
    }
    objective.losses[static_cast<int>(graph->operations.size())] = output.training->weight;
    objective.loss_weights.push_back(output.training->weight);
    (void)join(output, output.training->loss, std::move(operation), std::move(inputs), "loss",
               loss.name());
    if (several) add_log(output.name + "_loss", Better::lower);
  }
  for (const ComparedOutput& output : compared) {
    check_metric_names(output.training->metrics);
    for (const SharedMetric& metric : output.training->metrics) {
      CountedRows counted = count_rows(output, output.counted, metric->ignored_class(), "metrics");
      const TensorId target = target_for(output, counted, *metric, "metrics");
      std::vector<TensorId> inputs{output.prediction, target};
      std::unique_ptr<Operation> operation;
      if (counted.mask >= 0 && target == output.target) {
        operation = metric->weighted_operation(output.predicted, output.expected,
                                               graph->tensors[counted.mask].shape);
        if (operation) {
          inputs.push_back(counted.mask);
        } else {
          counted = {};
        }
      }
      if (!operation) operation = metric->operation(output.predicted, output.expected);
      (void)join(output, metric, std::move(operation), std::move(inputs), "metrics", metric->name(),
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
