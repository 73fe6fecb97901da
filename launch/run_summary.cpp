#include "launch/run_summary.h"

#include <fmt/format.h>

#include <algorithm>

#include "collectives/joined_text.h"
#include "launch/version.h"
#include "runtime/config/text_table.h"

namespace meshwork {
namespace {

std::string data_text(const RunConfig& config, const SummaryData& data) {
  std::string text;
  const auto add = [&](const char* what, const std::shared_ptr<const Source>& source) {
    if (!source) return;
    text += fmt::format("{}{}{}samples {}{}", text.empty() ? "" : ", ",
                        source->readable() ? fmt::format("{} ", source->rows()) : "",
                        source->weights_field() ? "weighted " : "", what,
                        source->readable() ? "" : " (not here)");
  };
  add("to train on", data.training);
  add("for validation", data.validation);
  add("to test on", data.test);
  text += fmt::format("{}batches of {}", text.empty() ? "" : "; ", config.batch_size());
  if (data.training && data.training->readable()) {
    const std::int64_t steps = steps_of_epoch(config.fit_options(), data.training->rows());
    text += fmt::format(", {} step{} an epoch, {} epoch{}", steps, steps == 1 ? "" : "s",
                        config.fit_options().epochs, config.fit_options().epochs == 1 ? "" : "s");
  }
  return text;
}

// "mean_squared_error", or "0.5 mean_squared_error of price + ...".
std::string losses_text(const CompileOptions& options) {
  if (options.loss) return options.loss->name();
  std::string text;
  for (const auto& [name, output] : options.outputs) {
    if (!output.loss) continue;
    text += fmt::format("{}{}{} of {}", text.empty() ? "" : " + ",
                        output.weight == 1 ? "" : fmt::format("{} ", output.weight),
                        output.loss->name(), name);
  }
  return text;
}

// What axes split of the model; "" for nothing.
std::string placing_text(const RunConfig& config, const MeshShape& mesh) {
  const PlaceMap places = config.places(mesh);
  std::vector<std::string> all;
  for (const Axis axis : places.axes()) {
    if (mesh.size(axis) == 1) continue;
    const auto& staged = places.staged();
    if (!staged || staged->axis != axis) {
      all.push_back(fmt::format("{} places layers", mesh.name(axis)));
      continue;
    }
    all.push_back(fmt::format(
        "{} holds {} stages{}, {} with {} micro-batches", mesh.name(axis),
        mesh.size(axis) * staged->chunks, staged->balanced ? " of about equal work" : "",
        config.fit_options().walk.schedule.name, config.fit_options().walk.micro_batches));
  }
  return joined_text(all, "; ");
}

}  // namespace

RunSummary summary_of(const RunConfig& config, const std::string& file, const MeshShape& mesh,
                      ModelSummary model, const SummaryData& data, const std::string& machine) {
  RunSummary summary{.model = std::move(model)};
  const auto add = [&](const char* name, std::string text) {
    summary.facts.emplace_back(name, std::move(text));
  };
  const ModelOptions& options = config.options();
  const std::optional<Axis> batch_axis = config.batch_axis(mesh);
  add("mesh", fmt::format("{}, {} rank{}{}", to_string(mesh), mesh.rank_count(),
                          mesh.rank_count() == 1 ? "" : "s",
                          batch_axis && mesh.rank_count() > 1
                              ? fmt::format("; {} splits batches", mesh.name(*batch_axis))
                              : ""));
  if (const std::string text = placing_text(config, mesh); !text.empty()) add("places", text);
  add("device", machine.empty() ? options.device : machine);
  add("precision", fmt::format("{}; kernels {}", name_of(options.precision), options.kernels));
  add("data", data_text(config, data));
  if (config.has_loss()) {
    const ClassWeights& weights = config.fit_options().class_weight;
    add("objective", fmt::format("{}{}, by {}", losses_text(config.compile_options()),
                                 weights.empty() ? "" : " with class weights " + to_text(weights),
                                 config.compile_options().optimizer.class_name()));
  }
  add("seed", std::to_string(options.seed));
  const std::string version = version_text();
  add("version", fmt::format("{}; {}", version.substr(0, version.find('\n')), file));
  const std::string directory = config.fit_options().checkpoint.directory.string();
  summary.checkpoints = directory.empty() ? "no checkpoints: this run cannot be resumed"
                                          : "checkpoints go to " + directory;
  return summary;
}

std::string to_text(const RunSummary& summary, std::size_t width, std::size_t most_layers) {
  std::string text =
      to_text(summary.model, width, most_layers, "; `meshwork summary` shows them all");
  for (const auto& [name, fact] : summary.facts) {
    text += wrapped(fmt::format("  {:<10} {}\n", name, fact), width);
  }
  return text + wrapped(summary.checkpoints + "\n", width);
}

}  // namespace meshwork
