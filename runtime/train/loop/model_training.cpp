#include "runtime/train/loop/model_training.h"

#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/hosted.h"
#include "collectives/rank_names.h"
#include "runtime/train/loop/between_steps.h"
#include "runtime/train/loop/token_text.h"
#include "runtime/train/state/parameter_snapshot.h"

namespace meshwork {
namespace {

// Each rank looks through what is left of the step, and the earliest place of all ranks is the
// answer: "rank 1, in conv_2 (instruction 12 of 80: ...): element 17 of the rank's block is inf",
// or "". Ranks run nearly the same instructions (one that has no part in a window lacks its
// copies), so places can be compared; of several ranks with the same place the lowest is named.
std::string first_not_finite(const Step& step, const Communicator& all, const TracePoint& at) {
  const std::optional<NotFinite> own = step.first_not_finite();
  const TracedCollective inside(at);
  constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();
  const std::int64_t mine = own ? own->order * all.size() + all.rank() : none;
  std::int64_t first = mine;
  await_ranks(all);
  check_mpi(MPI_Allreduce(&mine, &first, 1, MPI_INT64_T, MPI_MIN, all.native()), "MPI_Allreduce");
  if (first == none) {
    return {};
  }
  const int rank = static_cast<int>(first % all.size());
  return fmt::format("rank {}, in {}", name_of_rank(rank),
                     broadcast_text(all, rank == all.rank() ? own->where : "", rank));
}

}  // namespace

ModelTraining::ModelTraining(Model::State& model, CallbackList all, bool validated,
                             std::function<void(const std::string&)> say)
    : callbacks(std::move(all)),
      names(log_names_of(model.objective.names, model.logs_gradient_norm(), validated,
                         callbacks.adds_logs())),
      model_(&model),
      say_(std::move(say)),
      agreeing_(model.watchdog->trace().label(
          fmt::format("agreement with rank {} (callbacks)", name_of_rank(0)))),
      locating_(&model.watchdog->trace(), "agreement on where a number is not finite"),
      counting_(&model.watchdog->trace(), "histograms of weights") {}

void ModelTraining::validate(Evaluation& validation) {
  const std::int64_t of_training = std::exchange(at.batches, validation.batches());
  call(&Callback::on_test_begin);
  (void)logs();  // with training's means
  refresh = [&](Logs& into) { validation.write(into); };
  validation.run(
      [this](std::int64_t batch) {
        at.batch = batch;
        call(&Callback::on_test_batch_begin);
      },
      [this](std::int64_t) {
        stale = true;
        call(&Callback::on_test_batch_end);
      });
  call(&Callback::on_test_end);
  at.batches = of_training;
}

std::optional<Better> ModelTraining::better(const std::string& log_name) const {
  return better_of(log_name, model_->objective.better);
}

double ModelTraining::learning_rate() const {
  return model_->compiled->optimizer.learning_rate(model_->iteration);
}

void ModelTraining::set_learning_rate(double rate) {
  model_->compiled->optimizer.set_learning_rate(rate);
}

std::shared_ptr<const WeightsSnapshot> ModelTraining::snapshot_weights() {
  const auto call = model_->begin_call("snapshot_weights", [] { return Settings{}; });
  return std::make_shared<ParameterSnapshot>(model_->engine->parameters());
}

void ModelTraining::restore_weights(const WeightsSnapshot& snapshot) {
  const auto call = model_->begin_call("restore_weights", [] { return Settings{}; });
  const auto* weights = dynamic_cast<const ParameterSnapshot*>(&snapshot);
  if (weights == nullptr) {
    internal_error("weights of another model's snapshot");
  }
  model_->engine->meet();
  model_->engine->parameters().write_values(weights->values, weights->fixed);
  restored = true;
}

std::vector<float> ModelTraining::weights(const std::string& path) {
  const auto call = model_->begin_call("weights", [&] { return Settings{setting("path", path)}; });
  constexpr int root = 0;
  return model_->engine->gather(variable_index(*model_->graph, path), its_value, root);
}

bool ModelTraining::keeps_averages() const {
  return model_->compiled->optimizer.keeps_averages();
}

// What sharers of memory have in it changes once: all read before anybody writes.
void ModelTraining::use_averages(bool wanted) {
  if (!keeps_averages() || averaged == wanted) {
    return;
  }
  const auto call = model_->begin_call("use_averages", [] { return Settings{}; });
  averaged = wanted;
  if (model_->iteration == 0) {
    return;  // there are no means yet
  }
  Parameters& parameters = model_->engine->parameters();
  const int slot = static_cast<int>(parameters.slots().size()) - 1;
  model_->engine->meet();
  const ParameterSnapshot weights(parameters);
  const std::vector<float> means = parameters.read_updated(slot, weights.values);
  model_->engine->meet();
  parameters.write_values(means, weights.fixed);
  parameters.write_slot(slot, weights.values);
  restored = true;
}

void ModelTraining::settle_averages() {
  const auto call = model_->begin_call("settle_averages", [] { return Settings{}; });
  Parameters& parameters = model_->engine->parameters();
  model_->engine->meet();
  parameters.write_slot(static_cast<int>(parameters.slots().size()) - 1,
                        ParameterSnapshot(parameters).values);
  averaged = false;
}

std::vector<WeightHistogram> ModelTraining::weight_histograms() {
  const auto call = model_->begin_call("weight_histograms", [] { return Settings{}; });
  const MeshShape& mesh = model_->mesh().shape();
  const Parameters& parameters = model_->engine->parameters();
  const ParameterSnapshot weights(parameters);
  const std::vector<ParameterSpan>& spans = parameters.form().spans;
  // Calls `see` with every value that this rank counts: of an axis that splits nothing of a
  // variable the first ranks do.
  const auto each_value = [&](auto&& see) {
    for (const ParameterSpan& span : spans) {
      const bool counted = owns_block(span.layout, mesh, model_->mesh().rank());
      const float* values = weights.value(span);
      for (std::int64_t i = 0; counted && i < span.count; ++i) {
        if (std::isfinite(values[i]))
          see(static_cast<std::size_t>(span.variable), double{values[i]});
      }
    }
  };
  const TracedCollective inside(counting_);
  const auto reduce = [&](std::vector<double>& values, Reduction reduction) {
    model_->transport->run(
        model_->mesh().all(),
        AllReduce{ElementType::float64, reduction, static_cast<std::int64_t>(values.size())},
        values.data());
  };
  constexpr double nothing = -std::numeric_limits<double>::infinity();
  std::vector<double> ranges(spans.size() * values_of_range, nothing);
  each_value([&](std::size_t variable, double value) {
    double* range = &ranges[variable * values_of_range];
    range[0] = std::max(range[0], -value);
    range[1] = std::max(range[1], value);
  });
  reduce(ranges, Reduction::maximum);
  std::vector<WeightHistogram> histograms(spans.size());
  for (std::size_t v = 0; v < spans.size(); ++v) {
    histograms[v].path = model_->engine->plan().graph->variables[v].path;
    if (ranges[v * values_of_range] != nothing) {
      histograms[v].least = -ranges[v * values_of_range];
      histograms[v].greatest = ranges[v * values_of_range + 1];
    }
  }
  std::vector<double> counts(spans.size() * WeightHistogram::buckets);
  each_value([&](std::size_t variable, double value) {
    counts[variable * WeightHistogram::buckets + histograms[variable].bucket_of(value)] += 1;
  });
  reduce(counts, Reduction::sum);
  for (std::size_t v = 0; v < spans.size(); ++v) {
    const auto from = counts.begin() + static_cast<std::ptrdiff_t>(v * WeightHistogram::buckets);
    std::copy_n(from, WeightHistogram::buckets, histograms[v].counts.begin());
  }
  return histograms;
}

std::string ModelTraining::generated_text(const std::string& prompt,
                                          const GenerationOptions& options) {
  const auto call = model_->begin_call("generated_text",
                                       [&] { return Settings{setting("tokens", options.tokens)}; });
  const TokenModel of = token_model_of(*model_->graph);
  GenerationOptions seeded = options;
  seeded.seed = model_->options.seed;
  TokenText shown(of);
  std::string text;
  const std::vector<std::int32_t> tokens = tokens_of_text(prompt, of);
  for (const std::int32_t token : tokens) text += shown.add(token);
  PredictPiece piece;
  if (obstacle_to_pieces(*model_).empty()) {
    piece = [&](const BatchView& batch, std::int64_t place) {
      return predict_piece(*model_, batch, place);
    };
  }
  const PredictWhole whole = [&](const BatchView& batch) { return predict_step(*model_, batch); };
  generate_tokens(of, token_predictor(whole, piece), tokens, seeded,
                  [&](std::int32_t token) { text += shown.add(token); });
  return text + shown.end();
}

void ModelTraining::agree(std::span<double> numbers) {
  const auto call =
      model_->begin_call("agree", [&] { return Settings{setting("values", numbers.size())}; });
  const TracedCollective inside(&model_->watchdog->trace(), agreeing_);
  model_->transport->run(
      model_->mesh().all(),
      Broadcast{ElementType::float64, static_cast<std::int64_t>(numbers.size()), 0},
      numbers.data());
}

std::string ModelTraining::where_not_finite() {
  const auto call = model_->begin_call("where_not_finite", [] { return Settings{}; });
  return last_step == nullptr ? "" : first_not_finite(*last_step, model_->mesh().all(), locating_);
}

void ModelTraining::say(const std::string& line) {
  if (is_root()) {
    say_(line);
  }
}

}  // namespace meshwork
