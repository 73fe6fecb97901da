// meshwork plan: the plan as a table, as JSON, or the picture of one layout or of the model's parts.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/printable.h"
#include "launch/commands.h"
#include "launch/session.h"
#include "runtime/checkpoint/descriptor.h"
#include "runtime/checkpoint/output_place.h"
#include "runtime/config/nearest.h"
#include "runtime/graph/parts_picture.h"
#include "runtime/mesh/picture.h"
#include "runtime/mesh/svg_picture.h"
#include "runtime/train/reporting/terminal.h"

namespace meshwork {
namespace {

std::string picture_of(const Plan& plan, const CommandLine& line, std::int64_t rows) {
  const std::string& path = line.picture;
  const Graph& graph = *plan.graph;
  const TensorId tensor = graph.find(path);
  if (tensor < 0) {
    const std::vector<std::string> paths = graph.layout_paths();
    fail("--layout: the model has no variable, output or input \"{}\"{}", path,
         did_you_mean(path, paths));
  }
  const Layout& layout = plan.tensors[tensor].layout;
  if (!line.svg.empty()) return svg_picture(path, layout, graph.shape_of(tensor, rows), plan.mesh);
  PictureOptions options;
  options.color = shows_colours(STDOUT_FILENO);
  return fmt::format("{}: {}", path,
                     picture(layout, graph.shape_of(tensor, rows), plan.mesh, options));
}

// The parts of the model, by reports of the ranks that differ from `line.rank` by their part alone.
std::string picture_of_parts(const RunConfig& config, const Plan& plan, const CommandLine& line,
                             const Source& source, std::int64_t rows) {
  if (plan.placing.empty()) {
    fail(
        "--svg without --layout draws the parts of a placed model, and no layer is placed on the "
        "mesh {}; --layout TENSOR draws a layout",
        to_string(plan.mesh));
  }
  std::vector<PlanReport> reports;
  for (std::int64_t part = 0; part < plan.mesh.size_over(plan.placing); ++part) {
    const std::int64_t rank = plan.mesh.neighbour(line.rank, plan.placing, part);
    reports.push_back(config.report(plan, source, rows, line.mode, rank));
  }
  return parts_picture(parts_of(plan, reports));
}

constexpr std::string_view begins_svg = "<svg";

bool is_svg(const std::filesystem::path& file) {
  return begin_of(file, begins_svg.size()) == begins_svg;
}

// Writes the picture `svg` where `line` says. Returns what is said of it.
std::string write_svg(const CommandLine& line, const RunConfig& config, const std::string& svg) {
  RunFiles files = inputs_of(line, config);
  files.write(line.svg, "the picture", is_svg);
  write_whole(line.svg, svg);
  return fmt::format(
      "{}: {}\n", line.svg,
      line.picture.empty() ? "the parts of the model" : "the layout of " + line.picture);
}

// A plan may be made for a mesh that batches are too small for; training would refuse it.
void warn_of_idle_ranks(const MeshShape& mesh, std::optional<Axis> batch_axis, std::int64_t rows,
                        std::int64_t micro_batches, std::vector<std::string>& warnings) {
  const std::int64_t parts = batch_axis ? mesh.size(*batch_axis) : 1;
  if (rows >= parts) {
    if (rows / parts >= micro_batches) return;
    warnings.push_back(fmt::format(
        "{} microbatches are too many for a batch of {}; training would take {} or fewer",
        micro_batches, rows, rows / parts));
    return;
  }
  warnings.push_back(
      fmt::format("a batch of {} leaves {} of the {} ranks along axis \"{}\" without a row; a "
                  "batch_size of {} would give each one",
                  rows, parts - rows, parts, mesh.name(*batch_axis), parts));
}

// Plans are most often made for training, which needs training data; a configuration may have only
// other sets.
DataPart part_to_plan(const RunConfig& config, const CommandLine& line) {
  return !line.part && config.has(DataPart::train) ? DataPart::train : part_of(config, line);
}

}  // namespace

std::string plan(const RunConfig& config, const CommandLine& line, std::int64_t ranks,
                 std::vector<std::string>& warnings) {
  const std::int64_t trainers = config.roles().trainers();
  const MeshShape mesh = mesh_to_show(config, line, trainers > 0 ? trainers : ranks);
  if (line.rank < 0 || line.rank >= mesh.rank_count()) {
    fail("--rank: rank {} is not on the mesh {}, whose ranks are 0 to {}", line.rank,
         to_string(mesh), mesh.rank_count() - 1);
  }
  const DataPart part = part_to_plan(config, line);
  std::shared_ptr<const Source> source, validation;
  std::vector<std::string> missing;
  std::optional<Blueprint> drawn;
  ConfigErrors errors;
  errors.check([&] {
    source = config.open(part, {.missing = &missing});
    config.check_shapes(*source, part, line.mode);
  });
  if (line.mode == Mode::train && config.has(DataPart::validation) &&
      config.weighs_samples(DataPart::validation)) {
    errors.check([&] {
      const bool known = source && source->readable();
      const auto categories = known ? source->categories() : std::vector<Categories>();
      validation = config.open(DataPart::validation,
                               {.categories = known ? &categories : nullptr, .missing = &missing});
    });
  }
  errors.check([&] { drawn.emplace(config.blueprint(mesh)); });
  errors.raise();
  Blueprint& blueprint = *drawn;
  const std::int64_t rows = line.rows.value_or(
      line.mode == Mode::train ? config.batch_size() : config.evaluation_batch_size());
  const Plan& plan = config.plan(blueprint, *source, rows, line.mode, validation.get());
  warnings = blueprint.warnings;
  warnings.insert(warnings.end(), missing.begin(), missing.end());
  if (trainers != 0) {
    const std::string count = trainers > 0 ? fmt::format("{}", trainers) : "all remaining";
    warnings.push_back(fmt::format("roles: {} ranks train, and this plan is for {} that do", count,
                                   mesh.rank_count()));
  }
  warn_of_idle_ranks(mesh, config.batch_axis(mesh), rows,
                     line.mode == Mode::train ? config.fit_options().walk.micro_batches : 1,
                     warnings);
  if (!line.picture.empty()) {
    return picture_of(plan, line, rows);
  }
  if (!line.svg.empty()) return picture_of_parts(config, plan, line, *source, rows);
  const PlanReport report = config.report(plan, *source, rows, line.mode, line.rank);
  return line.json ? to_json(report) : to_text(report, text_width(STDOUT_FILENO));
}

std::string plan_text(const CommandLine& line, const Communicator* all) {
  const RunConfig config = all == nullptr ? read_run(line) : read_same_run(*all, line);
  std::string text;
  std::vector<std::string> warnings;
  const bool root = all == nullptr || all->rank() == 0;
  const auto make = [&] {
    text = plan(config, line, all == nullptr ? 1 : all->size(), warnings);
    if (!line.svg.empty() && root) text = write_svg(line, config, text);
  };
  all == nullptr ? make() : together(*all, make);
  if (root) print_warnings(warnings);
  return text;
}

}  // namespace meshwork
