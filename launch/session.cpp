#include "launch/session.h"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/joined_text.h"
#include "collectives/path_text.h"
#include "collectives/printable.h"
#include "collectives/rank_names.h"
#include "launch/run_summary.h"
#include "layers/pages.h"
#include "runtime/checkpoint/checksum.h"
#include "runtime/checkpoint/directory.h"
#include "runtime/config/extension.h"
#include "runtime/config/load.h"
#include "runtime/pages.h"
#include "runtime/train/engine/kernel_choice.h"
#include "runtime/train/reporting/progress.h"
#include "runtime/train/reporting/terminal.h"
#include "runtime/train/state/kept_categories.h"

namespace meshwork {

namespace {

// Of the bytes of a file, in hexadecimal digits.
std::string hash_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (!file) fail("cannot read {}", path);
  Hash hash;
  hash.add(std::as_bytes(std::span(bytes)));
  return fmt::format("{:016x}", hash.value());
}

}  // namespace

Catalog catalog_of(const CommandLine& line) {
  Catalog catalog;
  add_runtime(catalog);
  add_layers(catalog);
  for (const std::string& extension : line.extensions) load_extension(extension, catalog);
  return catalog;
}

void require_same_extensions(const Communicator& ranks, const std::set<std::string>& files) {
  Settings libraries;
  together(ranks, [&] {
    for (const std::string& file : files) {
      libraries.push_back(
          setting(std::filesystem::path(file).filename().string(), hash_of_file(file)));
    }
  });
  require_same_settings(ranks, libraries, "the bytes of extensions");
}

RunConfig read_run(const CommandLine& line) {
  return {load_config(line.config, line.overrides), catalog_of(line)};
}

RunConfig read_same_run(const Communicator& ranks, const CommandLine& line) {
  std::optional<RunConfig> config;
  together(ranks, [&] { config.emplace(read_run(line)); });
  require_same_settings(ranks, entries_of(config->document()), "the configuration");
  require_same_extensions(ranks, config->extensions());
  return std::move(*config);
}

DataPart part_of(const RunConfig& config, const CommandLine& line) {
  if (line.part) {
    return *line.part;
  }
  for (const DataPart part : {DataPart::test, DataPart::validation}) {
    if (config.has(part)) {
      return part;
    }
  }
  return DataPart::train;
}

namespace {

// The files that texts under `node` name, as "train.csv" and "train.h5:/images" do.
void read_named(const ConfigNode& node, RunFiles& files) {
  if (node.is_map()) {
    for (const ConfigEntry& entry : node.entries()) read_named(entry.value, files);
  } else if (node.is_sequence()) {
    for (const ConfigNode& element : node.elements()) read_named(element, files);
  } else if (const std::string& text = node.tree().text; !text.empty()) {
    files.read(text, "data");
    files.read(text.substr(0, text.find(":/")), "data");
    files.read(text.substr(0, text.rfind(':')), "data");
  }
}

}  // namespace

RunFiles inputs_of(const CommandLine& line, const RunConfig& config) {
  RunFiles files(line.overwrite);
  files.read(line.config, "the configuration");
  for (const std::string& extension : config.extensions()) files.read(extension, "an extension");
  files.read(kernels_option(config.options().kernels).file, "the file of kernels");
  if (const auto data = config.document().find("data")) read_named(*data, files);
  return files;
}

MeshShape mesh_to_show(const RunConfig& config, const CommandLine& line, std::int64_t ranks) {
  const bool open_axis = std::any_of(config.mesh_axes().begin(), config.mesh_axes().end(),
                                     [](const MeshAxis& axis) { return axis.size == -1; });
  const std::int64_t there = line.ranks ? *line.ranks : std::max(ranks, config.least_ranks());
  return config.mesh_shape(line.ranks || open_axis ? there : config.least_ranks());
}

std::string readable(const Logs& logs) {
  std::string text;
  for (const auto& [name, value] : logs) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : " - ", name, format_value(value));
  }
  return text;
}

void print_warnings(std::span<const std::string> warnings) {
  for (const std::string& warning : warnings) {
    const std::string text = coloured_message("warning: " + printable(warning), STDERR_FILENO);
    std::fprintf(stderr, "%s\n", text.c_str());
  }
}

void end_if_asked(Runtime& runtime, std::string_view when) {
  end_if_asked(runtime, runtime.stop_request().reason(), when);
}

void end_if_asked(Runtime& runtime, int own, std::string_view when) {
  if (const int reason = runtime.agreed_stop(own); reason != 0) {
    throw Stopped(reason, fmt::format("stopped by {} {}", stop_reason_name(reason), when));
  }
}

// What all ranks do to open data. A signal to any of them ends it on all, as it ends a run. A rank
// that has left its table because of one waits for the others, who may not have got any.
static void open_together(Runtime& runtime, const std::function<void()>& action) {
  constexpr std::string_view when = "while the data were opened";
  try {
    together(runtime.world(), [&] {
      try {
        action();
      } catch (const RanksParted&) {
        throw;
      } catch (const Error&) {
        if (runtime.stop_request().reason() == 0) throw;
      }
    });
  } catch (const RanksParted&) {
    throw;
  } catch (const Error&) {
    end_if_asked(runtime, when);
    throw;
  }
  end_if_asked(runtime, when);
}

Opening Session::opening() {
  return {.categories = categories_ ? &*categories_ : nullptr,
          .missing = line_->dry_run ? &missing_ : nullptr};
}

void Session::tell_of_missing() {
  const auto found = distinct_texts(runtime_->world(), joined_text(missing_, "\n"));
  if (found.size() > 1) {
    const auto lacking = std::find_if(found.begin(), found.end(),
                                      [](const DistinctText& one) { return !one.text.empty(); });
    fail("rank {} does not see the data that others see: {}", name_of_rank(lacking->rank),
         lacking->text);
  }
  if (runtime_->is_root()) print_warnings(missing_);
  missing_.clear();
}

Session::Session(Runtime& runtime, const CommandLine& line)
    : runtime_(&runtime), line_(&line), config_(read_same_run(runtime.world(), line)) {
  errors_.check([&] { shape_ = config_->mesh_shape(runtime.size()); });
  if (shape_) {
    errors_.check([&] { blueprint_.emplace(config_->blueprint(*shape_)); });
  }
}

void Session::make_mesh() {
  if (mesh_) return;
  together(runtime_->world(), [&] { errors_.raise(); });
  mesh_.emplace(config_->mesh());
}

bool Session::check(const Source* source, DataPart part, Mode mode) {
  if (source == nullptr || !errors_.check([&] { config_->check_shapes(*source, part, mode); })) {
    return false;
  }
  if (shape_) {
    errors_.check([&] { config_->check_data(*source, part, *shape_, mode); });
  }
  return true;
}

// The root alone looks at files. What it finds is told with what all ranks have found, so all have
// it: a line each, after its place.
void Session::check_callbacks(const TrainingData& data) {
  std::string found;
  together(runtime_->world(), [&] {
    if (!runtime_->is_root() || !data.training) return;
    try {
      config_->check_callbacks(*data.training, data.validation != nullptr);
    } catch (const ConfigError& error) {
      for (const ConfigMistake& mistake : error.mistakes()) {
        found += fmt::format("{} {} {}\n", mistake.line, mistake.column, mistake.text);
      }
    }
  });
  std::istringstream lines(broadcast_text(runtime_->world(), found, 0));
  ConfigMistake mistake;
  while (lines >> mistake.line >> mistake.column && lines.ignore() &&
         std::getline(lines, mistake.text)) {
    errors_.add(ConfigError(std::vector{mistake}));
  }
}

RunData Session::open_training() {
  RunData data;
  bool right = false;  // so that it is known which logs there are
  open_together(*runtime_, [&] {
    data = {config_->open_training(errors_, opening())};
    if (data.training && data.training->readable()) categories_ = data.training->categories();
    right = check(data.training.get(), DataPart::train, Mode::train);
    (void)check(data.validation.get(), DataPart::validation, Mode::evaluate);
    if (config_->has(DataPart::test)) {
      errors_.check([&] { data.test = config_->open(DataPart::test, opening()); });
      (void)check(data.test.get(), DataPart::test, Mode::evaluate);
    }
  });
  check_callbacks(right ? data : TrainingData());
  make_mesh();
  tell_of_missing();
  const auto rows = [](const std::shared_ptr<const Source>& source) {
    return source ? source->rows() : 0;
  };
  require_same_settings(runtime_->world(),
                        {setting("samples to train on", rows(data.training)),
                         setting("samples for validation", rows(data.validation)),
                         setting("samples to evaluate", rows(data.test))},
                        "the data");
  return data;
}

std::shared_ptr<const Source> Session::open(DataPart part, Mode mode) {
  std::shared_ptr<const Source> source;
  if (!categories_ && !line_->weights.empty()) {
    categories_ = kept_categories(runtime_->world(), line_->weights);
    // Files of others do not keep any.
    if (categories_->empty()) categories_.reset();
  }
  open_together(*runtime_, [&] {
    errors_.check([&] { source = config_->open(part, opening()); });
    (void)check(source.get(), part, mode);
    errors_.raise();
  });
  make_mesh();
  tell_of_missing();
  require_same_settings(runtime_->world(), {setting("samples", source->rows())},
                        fmt::format("the data to {}", name_of(mode)));
  return source;
}

void Session::examine(const std::shared_ptr<const Source>& source, DataPart part, Mode mode,
                      const Source* validation) {
  if (!model_ && !blueprint_->planned) {
    const std::int64_t rows = rows_for(mode);
    const Plan& plan = config_->plan(*blueprint_, *source, rows, mode, validation);
    if ((line_->verbose || line_->dry_run) && runtime_->is_root()) {
      const PlanReport report = config_->report(plan, *source, rows, mode, 0);
      std::printf("%s\n%s\n", printable(to_yaml(config_->document())).c_str(),
                  printable(to_text(report, text_width(STDOUT_FILENO))).c_str());
      std::fflush(stdout);
    }
  }
  config_->check_samples(source, part, mode, runtime_->world(), &runtime_->stop_request());
}

std::int64_t Session::rows_for(Mode mode) const {
  return mode == Mode::train ? config_->batch_size() : config_->evaluation_batch_size();
}

void Session::build() {
  make_mesh();
  model_summary_ = summary_of(*blueprint_);
  model_.emplace(config_->make_model(*mesh_, std::move(*blueprint_)));
}

std::string Session::summary(const RunData& data) {
  std::array<char, MPI_MAX_PROCESSOR_NAME + 1> host{};
  int length = 0;
  check_mpi(MPI_Get_processor_name(host.data(), &length), "MPI_Get_processor_name");
  const std::size_t hosts =
      distinct_texts(runtime_->world(), std::string(host.data(), length)).size();
  const auto devices = distinct_texts(runtime_->world(), model_->device_description());
  const std::string machine =
      fmt::format("{}{}{}", devices.front().text,
                  devices.size() == 1 ? "" : fmt::format(" and {} other kinds", devices.size() - 1),
                  hosts == 1 ? "" : fmt::format("; {} hosts", hosts));
  constexpr std::size_t most_layers = 20;
  return to_text(summary_of(*config_, line_->config, mesh_->shape(), model_summary_,
                            {data.training, data.validation, data.test}, machine),
                 text_width(STDOUT_FILENO), most_layers);
}

bool Session::goes_on() const {
  const CheckpointOptions& options = config_->fit_options().checkpoint;
  if (options.directory.empty() || options.resume == Resume::never) return false;
  std::string file;
  together(runtime_->world(), [&] {
    if (!runtime_->is_root()) return;
    if (const auto newest = newest_in(options.directory)) file = newest->file.string();
  });
  return !broadcast_text(runtime_->world(), file).empty();
}

void Session::load_weights(const std::shared_ptr<const Source>& source, Mode mode) {
  if (line_->weights.empty()) {
    if (mode != Mode::train && !line_->dry_run && runtime_->is_root()) {
      std::fprintf(stderr, "note: these are the initial weights; --checkpoint loads others\n");
    }
    return;
  }
  if (mode == Mode::train && goes_on()) {
    weights_ = line_->weights;
    if (runtime_->is_root()) {
      const std::string text =
          fmt::format("{} is not read: the run goes on from {}", line_->weights,
                      config_->fit_options().checkpoint.directory);
      std::fprintf(stderr, "weights: %s\n", printable(text).c_str());
    }
    return;
  }
  // Parameters are made for a plan: for that of the run, they need not be made again.
  if (source) (void)model_->plan(source, rows_for(mode), mode);
  const LoadedWeights loaded = model_->load_weights(line_->weights);
  weights_ = loaded.file;
  if (runtime_->is_root()) {
    // Only training has a use for the optimizer's state, and is told who takes it.
    std::string line = fmt::format(
        "{}{}", loaded.file, loaded.updates > 0 ? fmt::format(", step {}", loaded.updates) : "");
    if (mode == Mode::train) {
      line = describe(loaded);
      if (loaded.has_optimizer) {
        line += loaded.keras ? ", which `meshwork import` takes" : ", which --resume takes";
      }
    }
    std::fprintf(stderr, "weights: %s\n", printable(line).c_str());
  }
}

void Session::adapt(const std::shared_ptr<const Source>& training) {
  if (line_->dry_run || !weights_.empty() || goes_on()) return;
  const StepWalk& walk = config_->fit_options().walk;
  (void)model_->plan(training, walk.rows_at_once(rows_for(Mode::train)), Mode::train);
  model_->adapt(training);
}

void Session::claim_outputs(const std::vector<std::shared_ptr<const Source>>& sources,
                            bool trains) {
  together(runtime_->world(), [&] {
    if (!runtime_->is_root()) return;
    RunFiles files = inputs_of(*line_, *config_);
    files.read(weights_, "the file of the weights");
    for (const auto& source : sources) {
      for (const auto& file : source ? source->files() : std::vector<std::filesystem::path>()) {
        files.read(file, "data");
      }
    }
    const std::filesystem::path directory =
        trains ? config_->fit_options().checkpoint.directory : std::filesystem::path();
    if (!directory.empty()) files.keep_checkpoints(directory);
    const std::vector<SharedCallback> none;
    for (const auto& callback : trains ? config_->fit_options().callbacks : none) {
      if (!callback) continue;
      const std::string what = "what " + callback->class_name() + " writes";
      if (const std::filesystem::path folder = callback->fills(); !folder.empty()) {
        files.fill(folder, what);
      }
      if (const std::filesystem::path file = callback->writes(); !file.empty()) {
        files.write(
            file, what, [&](const auto& there) { return callback->has_written(there); },
            Writing::in_place);
      }
    }
    if (!line_->output.empty()) files.write(line_->output, "predictions", is_predictions);
    if (!directory.empty() && !line_->dry_run) prepare_directory(directory);
  });
}

std::unique_ptr<PredictionFile> Session::prediction_file(const Source& source) {
  std::unique_ptr<PredictionFile> file;
  together(runtime_->world(), [&] {
    if (runtime_->is_root()) {
      const std::vector<std::string> names = output_names(model_->graph());
      const std::vector<Shape> shapes = model_->output_shapes();
      std::vector<PredictedOutput> outputs;
      for (std::size_t i = 0; i < names.size(); ++i) outputs.push_back({names[i], shapes[i]});
      file = make_prediction_file(line_->output, source.rows(), outputs);
    }
  });
  return file;
}

void Session::predict(const std::shared_ptr<const Source>& source, PredictionFile* file) {
  model_->predict(
      source,
      [&](std::int64_t first_row, std::span<const std::vector<float>> outputs) {
        if (file != nullptr) {
          file->write(first_row, outputs);
        }
      },
      {.batch_size = config_->evaluation_batch_size(), .stop_request = &runtime_->stop_request()});
  if (file != nullptr) {
    file->finish();
    std::printf("predictions of %lld samples: %s\n", static_cast<long long>(source->rows()),
                in_one_line(line_->output).c_str());
    std::fflush(stdout);
  }
}

}  // namespace meshwork
