#include "runtime/graph/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "collectives/joined_text.h"
#include "runtime/config/text_table.h"
#include "runtime/device/narrowing.h"
#include "runtime/graph/sequences.h"
#include "runtime/graph/spread.h"

namespace meshwork {
namespace {

ReportedTensor report_tensor(const Plan& plan, TensorId id, const std::string& path,
                             std::int64_t rows, std::int64_t rank) {
  ReportedTensor tensor;
  tensor.path = path;
  tensor.shape = plan.graph->shape_of(id, rows);
  tensor.layout = plan.tensors[id].layout;
  tensor.reason = plan.tensors[id].reason;
  tensor.block = block_of(tensor.layout, tensor.shape, plan.mesh, rank);
  tensor.bytes =
      element_count(shape_of(tensor.block)) * element_bytes(plan.graph->tensors[id].type);
  std::int64_t filled = 1;
  std::int64_t all = 1;
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
    const std::int64_t parts = plan.mesh.size_over(tensor.layout.dimensions[d]);
    filled *= std::min(parts, tensor.shape[d]);
    all *= parts;
  }
  tensor.empty_ranks = all - filled;
  return tensor;
}

std::string block_text(const Block& block) {
  std::string text;
  for (const Range& range : block) {
    text += fmt::format("{}{}:{}", text.empty() ? "[" : ", ", range.begin, range.end);
  }
  return text.empty() ? "[]" : text + "]";
}

std::string tensor_table(const std::vector<ReportedTensor>& tensors, const MeshShape& mesh,
                         std::size_t width) {
  TextTable table({"path", "shape", "layout", "decided by", "block on this rank", "bytes"}, {5});
  for (const ReportedTensor& tensor : tensors) {
    std::string reason = tensor.reason;
    if (tensor.empty_ranks > 0) {
      reason += fmt::format(", {} empty blocks", tensor.empty_ranks);
    }
    table.add({tensor.path, to_string(tensor.shape), to_string(tensor.layout, mesh), reason,
               block_text(tensor.block), std::to_string(tensor.bytes)});
  }
  return table.text(2, width);
}

std::string seconds_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.3g} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.3g} us", seconds * 1e6);
}

std::string flops_text(double flops) {
  return flops >= 1e12  ? fmt::format("{:.3g} TFLOP", flops / 1e12)
         : flops >= 1e9 ? fmt::format("{:.3g} GFLOP", flops / 1e9)
                        : fmt::format("{:.3g} MFLOP", flops / 1e6);
}

std::string coordinates_text(const MeshShape& mesh, std::int64_t rank) {
  std::string text;
  for (Axis axis = 0; axis < mesh.axis_count(); ++axis) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", mesh.name(axis),
                        mesh.coordinate(rank, axis));
  }
  return text;
}

// What steps on pieces keep, if there can be such: those on one position as well as any other.
std::int64_t kept_bytes(LoweringRequest request, std::int64_t rank) {
  const Sequences sequences = sequences_of(*request.plan);
  if (!sequences.obstacle.empty()) return 0;
  std::int64_t kept = 0;
  request.piece = Piece{&sequences, 1};
  request.kept = [&](const std::string&, std::int64_t bytes) -> void* {
    kept += bytes;
    return nullptr;
  };
  ProgramBuilder builder;
  (void)lower(request, builder, *plan_collectives(request.plan->mesh, rank));
  return kept;
}

// What is booked of a step.
struct Booked {
  ArenaSummary arena;
  double flops = 0;
  std::vector<CollectiveRecord> collectives;
};
Booked book(const LoweringRequest& request, std::int64_t rank) {
  std::vector<KernelSpec> specs;
  ProgramBuilder builder(&specs);
  const std::unique_ptr<MeshCollectives> collectives = plan_collectives(request.plan->mesh, rank);
  (void)lower(request, builder, *collectives);
  Booked booked{.arena = builder.plan_arena(), .collectives = collectives->records()};
  for (const KernelSpec& spec : specs) booked.flops += spec.work().flops;
  return booked;
}
Booked book_without_recomputing(LoweringRequest request, std::int64_t rank) {
  request.walk.recompute.clear();
  return book(request, rank);
}

double communication_seconds(const Booked& booked, const Plan& plan) {
  double seconds = 0;
  for (const CollectiveRecord& record : booked.collectives) {
    seconds += message_seconds(static_cast<double>(record.bytes_sent),
                               plan.mesh.size_over(record.axes), plan.costs);
  }
  return seconds;
}

// Those of the plan, by the ranks' index over `placing`, and what recomputing adds on the first or the
// last rank of each.
std::vector<StepSeconds> seconds_with_recomputing(const Plan& plan, LoweringRequest request,
                                                  const ParameterFormOptions& options) {
  std::vector<StepSeconds> all = plan.seconds;
  const auto micro_batches = static_cast<double>(std::ssize(request.micro_batches()));
  for (std::size_t part = 0; part < all.size(); ++part) {
    double arithmetic = 0, communication = 0;
    std::set<std::int64_t> ranks;
    for (const std::int64_t from : {std::int64_t{0}, plan.mesh.rank_count() - 1}) {
      ranks.insert(plan.mesh.neighbour(from, plan.placing, static_cast<std::int64_t>(part)));
    }
    for (const std::int64_t rank : ranks) {
      const ParameterForm form = parameter_form(plan, rank, options);
      request.form = &form;
      const Booked with = book(request, rank), without = book_without_recomputing(request, rank);
      arithmetic = std::max(arithmetic, (with.flops - without.flops) / plan.costs.flops_per_second);
      communication = std::max(
          communication, communication_seconds(with, plan) - communication_seconds(without, plan));
    }
    all[part].arithmetic += arithmetic / micro_batches;
    all[part].communication += communication / micro_batches;
  }
  return all;
}

// Of the stages of the plan: each takes what the ranks at its coordinate take that need longest.
std::optional<PlanReport::Pipeline> report_pipeline(const Plan& plan,
                                                    const std::vector<StepSeconds>& all_seconds,
                                                    const LoweringRequest& request,
                                                    std::int64_t rank) {
  if (!plan.staged) return std::nullopt;
  const Axis axis = plan.staged->axis;
  const Pipeline of = plan.pipeline(std::ssize(request.micro_batches()));
  std::vector<double> seconds(static_cast<std::size_t>(of.ranks), 0);  // by coordinate
  double reduction = 0;
  for (std::size_t part = 0; part < all_seconds.size(); ++part) {
    const std::int64_t one = plan.mesh.neighbour(0, plan.placing, static_cast<std::int64_t>(part));
    double& longest = seconds[static_cast<std::size_t>(plan.mesh.coordinate(one, axis))];
    longest = std::max(longest, all_seconds[part].of_micro_batch());
    reduction = std::max(reduction, all_seconds[part].reduction);
  }
  PlanReport::Pipeline pipeline{
      .axis = plan.mesh.name(axis), .schedule = request.walk.schedule.name, .chunks = of.chunks};
  pipeline.actions = actions_of(request.walk.schedule, of);
  pipeline.held =
      most_held(pipeline.actions[static_cast<std::size_t>(plan.mesh.coordinate(rank, axis))]);
  // A coordinate's stages share its time evenly.
  for (std::int64_t stage = 0; stage < of.stages(); ++stage) {
    pipeline.stage_seconds.push_back(seconds[static_cast<std::size_t>(stage % of.ranks)] /
                                     static_cast<double>(of.chunks));
  }
  pipeline.seconds = duration_of(pipeline.actions, pipeline.stage_seconds) + reduction;
  const double worked =
      static_cast<double>(of.micro_batches) * std::accumulate(seconds.begin(), seconds.end(), 0.0);
  if (pipeline.seconds > 0) {
    pipeline.idle = 1 - worked / (static_cast<double>(of.ranks) * pipeline.seconds);
  }
  return pipeline;
}

std::string json_layout(const Layout& layout, const MeshShape& mesh) {
  std::string text;
  for (const std::vector<Axis>& axes : layout.dimensions) {
    std::string list;
    for (const Axis axis : axes) {
      list += (list.empty() ? "" : ", ") + json_text(mesh.name(axis));
    }
    text += (text.empty() ? "[" : ", [") + list + "]";
  }
  return "[" + text + "]";
}

// {"stage": [0, 1]}: of an axis that is not there, everywhere.
std::string json_places(const Places& places, const MeshShape& mesh) {
  std::string text;
  for (const Place& place : places) {
    text += fmt::format("{}{}: [{}]", text.empty() ? "" : ", ", json_text(mesh.name(place.axis)),
                        joined_text(place.coordinates, ", "));
  }
  return "{" + text + "}";
}

std::string json_tensors(const std::vector<ReportedTensor>& tensors, const MeshShape& mesh) {
  std::string text;
  for (const ReportedTensor& tensor : tensors) {
    std::string block;
    for (const Range& range : tensor.block) {
      block += fmt::format("{}[{}, {}]", block.empty() ? "" : ", ", range.begin, range.end);
    }
    text += fmt::format(
        "{}\n    {{\"path\": {}, \"shape\": [{}], \"layout\": {}, \"places\": {}, \"decided_by\": "
        "{}, "
        "\"block\": [{}], \"bytes\": {}, \"empty_blocks\": {}}}",
        text.empty() ? "" : ",", json_text(tensor.path), joined_text(tensor.shape, ", "),
        json_layout(tensor.layout, mesh), json_places(tensor.layout.places, mesh),
        json_text(tensor.reason), block, tensor.bytes, tensor.empty_ranks);
  }
  return text;
}

// A value from place to place, which one rank sends and another receives.
bool is_message(const CollectiveRecord& record) {
  return record.name == "send";
}

std::string_view name_on_rank(const CollectiveRecord& record) {
  return is_message(record) && record.sends_to.empty() ? "receive" : record.name;
}

}  // namespace

std::string readable_bytes(std::int64_t bytes) {
  constexpr std::array<const char*, 6> units{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
}

PlanReport report_plan(const Plan& plan, Mode mode, std::int64_t rows, std::int64_t rank,
                       const UpdateRule& update, const std::map<TensorId, ElementType>& fed,
                       Precision precision, const DeviceTraits& device, const StepWalk& walk,
                       bool compares) {
  ParameterFormOptions options;
  options.narrow_copies = precision == Precision::bfloat16 && device.reads_narrow_operands;
  const ParameterForm form = parameter_form(plan, rank, options);
  LoweringRequest request;
  request.plan = &plan;
  request.mode = mode;
  request.rows = rows;
  request.walk = walk;
  request.precision = precision;
  request.device = device;
  request.fed = fed;
  request.update = &update;
  request.form = &form;
  Booked step = book(request, rank);

  PlanReport report{
      .mesh = plan.mesh, .rank = rank, .rows = rows, .mode = mode, .costs = plan.costs};
  const Graph& graph = *plan.graph;
  for (const Variable& variable : graph.variables) {
    report.variables.push_back(report_tensor(plan, variable.tensor, variable.path, rows, rank));
  }
  for (const GraphLayer& layer : graph.layers) {
    ReportedTensor& tensor = report.outputs.emplace_back(
        report_tensor(plan, layer.output, graph.tensors[layer.output].path, rows, rank));
    const GraphTensor& value = graph.tensors[layer.output];
    if (value.role == TensorRole::value && value.producer < 0) {  // a rewrite does without it
      tensor.block.assign(tensor.block.size(), Range{0, 0});
      tensor.bytes = 0;
    }
  }
  report.collectives = std::move(step.collectives);
  // The plan is for the rows that are worked on at once.
  report.micro_batches = std::ssize(request.micro_batches());
  const bool recomputes = compares && mode == Mode::train && !walk.recompute.empty();
  const std::vector<StepSeconds> all_seconds =
      recomputes ? seconds_with_recomputing(plan, request, options) : plan.seconds;
  report.seconds = longest(all_seconds, report.micro_batches);
  report.seconds.communication *= static_cast<double>(report.micro_batches);
  report.seconds.communication += std::exchange(report.seconds.reduction, 0);
  report.seconds.arithmetic *= static_cast<double>(report.micro_batches);
  if (mode == Mode::train) report.pipeline = report_pipeline(plan, all_seconds, request, rank);
  report.without_limit = plan.without_limit;
  report.cut = plan.cut;
  report.precision = precision;
  report.device = device;
  report.parameter_bytes = (form.trainable_count + form.fixed_count) * float32_bytes;
  for (const ParameterGroup& group : form.groups) {
    report.narrow_copy_bytes += group.narrowed ? group.count * bfloat16_bytes : 0;
  }
  if (mode == Mode::train) {
    report.gradient_bytes = form.trainable_count * float32_bytes;
    report.slot_bytes = form.trainable_count * float32_bytes * std::ssize(update.slots);
  }
  for (const TensorId id : fed_tensors(graph, mode)) {
    ReportedTensor& tensor =
        report.fed.emplace_back(report_tensor(plan, id, graph.tensors[id].path, rows, rank));
    tensor.bytes = 0;
    for (const FedPart& part : fed_parts(plan, mode, request.micro_batches(), rank)) {
      if (part.tensor != id) continue;
      tensor.bytes += element_count(shape_of(part.block)) * element_bytes(request.fed_type(id));
    }
    report.batch_bytes += tensor.bytes;
  }
  report.arena_bytes = step.arena.bytes;
  report.arena_bytes_if_unshared = step.arena.bytes_if_unshared;
  report.flops = step.flops;
  if (recomputes) {
    const Booked without = book_without_recomputing(request, rank);
    report.without_recomputing = {.flops = without.flops, .arena_bytes = without.arena.bytes};
  }
  if (mode == Mode::predict) report.kept_bytes = kept_bytes(request, rank);
  return report;
}

std::string to_text(const PlanReport& report, std::size_t width) {
  std::string text = fmt::format(
      "mesh {} ({} rank{}), shown for rank {} ({}); global batch of {} rows{}, "
      "{}{}\n\nvariables\n{}"
      "\nlayer outputs\n{}\ninputs and targets\n{}",
      to_string(report.mesh), report.mesh.rank_count(), report.mesh.rank_count() == 1 ? "" : "s",
      report.rank, coordinates_text(report.mesh, report.rank), report.rows,
      report.micro_batches > 1 ? fmt::format(" in {} micro-batches", report.micro_batches) : "",
      name_of(report.mode),
      report.precision == Precision::float32
          ? ""
          : fmt::format("; products in {}", name_of(report.precision)),
      tensor_table(report.variables, report.mesh, width),
      tensor_table(report.outputs, report.mesh, width),
      tensor_table(report.fed, report.mesh, width));

  std::int64_t sent = 0;
  const bool has_messages = std::ranges::any_of(report.collectives, is_message);
  std::vector<std::string> heading{"phase", "collective", "axes", "elements", "bytes sent"};
  std::vector<std::size_t> numbers{3, 4};
  if (has_messages) {
    heading.emplace_back("received");
    numbers.push_back(5);
  }
  heading.emplace_back("of what");
  TextTable table(std::move(heading), std::move(numbers));
  for (const CollectiveRecord& record : report.collectives) {
    sent += record.bytes_sent;
    std::vector<std::string> row{
        record.purpose.phase, std::string(name_on_rank(record)), report.mesh.names(record.axes),
        std::to_string(record.global_elements), std::to_string(record.bytes_sent)};
    if (has_messages) {
      row.push_back(record.is_exchange() ? std::to_string(record.bytes_received) : "");
    }
    row.push_back(record.purpose.what);
    table.add(std::move(row));
  }
  text += fmt::format("\ncollectives of one step: {}, {} sent by this rank\n",
                      report.collectives.size(), readable_bytes(sent));
  if (!report.collectives.empty()) {
    text += table.text(2, width);
    if (report.mode == Mode::train) {
      text += fmt::format(
          "  estimate: communication {}, compute {} (at {} a hop, {:.3g} GB/s, {:.3g} GFLOP/s; not "
          "measured here)\n",
          seconds_text(report.seconds.communication), seconds_text(report.seconds.arithmetic),
          seconds_text(report.costs.latency_seconds), report.costs.bytes_per_second / 1e9,
          report.costs.flops_per_second / 1e9);
    }
  }
  if (const auto& pipeline = report.pipeline) {
    const std::string holds =
        pipeline->chunks == 1
            ? fmt::format("this stage holds {} of {} micro-batches at most", pipeline->held,
                          report.micro_batches)
            : fmt::format("the {} stages of this rank hold {} micro-batches at most, of {} in each",
                          pipeline->chunks, pipeline->held, report.micro_batches);
    text += fmt::format("\npipeline over {}, {}: {}; {}\n", pipeline->axis, pipeline->schedule,
                        holds, to_text(*pipeline));
  }
  if (!report.cut.empty()) {
    TextTable cut({"operation", "ways to spread", "weighed"}, {1, 2});
    for (const CutChoice& choice : report.cut) {
      cut.add({choice.path, std::to_string(choice.candidates), std::to_string(choice.weighed)});
    }
    text += fmt::format(
        "\nof {}, only the ways to spread that are cheapest by themselves were weighed: a cheaper "
        "plan may exist\n{}",
        report.cut.size() == 1 ? "an operation" : fmt::format("{} operations", report.cut.size()),
        cut.text(2, width));
  }
  if (!report.between_steps.empty()) {
    TextTable between({"when", "collective", "elements", "bytes sent", "of what"}, {2, 3});
    for (const CollectiveBetweenSteps& item : report.between_steps) {
      between.add({item.when, item.collective, std::to_string(item.elements),
                   std::to_string(item.bytes_sent), item.what});
    }
    text += "\nbetween steps\n" + between.text(2, width);
  }
  text += fmt::format(
      "\nmemory of this rank: {} at the peak{}\n"
      "  parameters {}{}, gradients {}, optimizer slots {}, batch {}{}, activations and scratch {} "
      "({} without sharing)\n  not included: {}\n{}",
      readable_bytes(report.peak_bytes()),
      report.device.computes_in_host_memory ? "" : fmt::format(", on {}", report.device.kind),
      readable_bytes(report.parameter_bytes),
      report.narrow_copy_bytes == 0
          ? ""
          : fmt::format(", narrow copies {}", readable_bytes(report.narrow_copy_bytes)),
      readable_bytes(report.gradient_bytes), readable_bytes(report.slot_bytes),
      readable_bytes(report.batch_bytes),
      report.ahead_bytes == 0
          ? ""
          : fmt::format(", batches on their way {}", readable_bytes(report.ahead_bytes)),
      readable_bytes(report.arena_bytes), readable_bytes(report.arena_bytes_if_unshared),
      report.device.computes_in_host_memory
          ? "kernel workspaces (known after compilation)"
          : "kernel workspaces and tables (known after compilation), the device's libraries, and "
            "samples that stay on the device",
      report.mesh.rank_count() == 1
          ? ""
          : "  parameters and slots count once a rank; ranks of one node share one copy\n");
  if (const auto& without = report.without_recomputing) {
    text += fmt::format(
        "  recomputing: activations and scratch {} instead of {}, {} a step instead of {}\n",
        readable_bytes(report.arena_bytes), readable_bytes(without->arena_bytes),
        flops_text(report.flops), flops_text(without->flops));
  }
  if (report.kept_bytes > 0) {
    text +=
        fmt::format("  generation keeps keys and values: {} for {} sequence{}, on top\n",
                    readable_bytes(report.kept_bytes), report.rows, report.rows == 1 ? "" : "s");
  }
  if (const auto& other = report.without_limit) {
    text += fmt::format(
        "  the fastest plan takes {}, above the limit of {}: this one is predicted to take {:.3g} "
        "times as long\n",
        readable_bytes(other->bytes), readable_bytes(other->limit), other->times_as_long);
  }
  return wrapped(text, width);
}

std::string to_text(const PlanReport::Pipeline& pipeline) {
  return fmt::format("a step is predicted to take {}, of which a rank is idle for {:.0f} %",
                     seconds_text(pipeline.seconds), 100 * pipeline.idle);
}

std::string to_json(const PlanReport& report) {
  std::string axes;
  for (const MeshAxis& axis : report.mesh.axes()) {
    axes += fmt::format("{}{}: {}", axes.empty() ? "" : ", ", json_text(axis.name), axis.size);
  }
  std::string collectives;
  for (const CollectiveRecord& record : report.collectives) {
    std::string over;
    for (const Axis axis : record.axes) {
      over += (over.empty() ? "" : ", ") + json_text(report.mesh.name(axis));
    }
    collectives += fmt::format(
        "{}\n    {{\"phase\": {}, \"collective\": {}, \"axes\": [{}], \"type\": {}, "
        "\"elements\": {}, \"bytes_sent\": {}, {}\"what\": {}}}",
        collectives.empty() ? "" : ",", json_text(record.purpose.phase),
        json_text(name_on_rank(record)), over, json_text(name_of(record.type)),
        record.global_elements, record.bytes_sent,
        record.is_exchange() ? fmt::format("\"bytes_received\": {}, ", record.bytes_received) : "",
        json_text(record.purpose.what));
  }
  std::string cut;
  for (const CutChoice& choice : report.cut) {
    cut += fmt::format("{}\n    {{\"operation\": {}, \"candidates\": {}, \"weighed\": {}}}",
                       cut.empty() ? "" : ",", json_text(choice.path), choice.candidates,
                       choice.weighed);
  }
  std::string without_limit = "null";
  if (const auto& other = report.without_limit) {
    without_limit = fmt::format("{{\"limit\": {}, \"peak\": {}, \"times_as_long\": {}}}",
                                other->limit, other->bytes, other->times_as_long);
  }
  std::string without_recomputing = "null";
  if (const auto& other = report.without_recomputing) {
    without_recomputing =
        fmt::format("{{\"flops\": {}, \"arena\": {}}}", other->flops, other->arena_bytes);
  }
  std::string between;
  for (const CollectiveBetweenSteps& item : report.between_steps) {
    between += fmt::format(
        "{}\n    {{\"when\": {}, \"collective\": {}, \"type\": {}, \"elements\": {}, "
        "\"bytes_sent\": {}, \"what\": {}}}",
        between.empty() ? "" : ",", json_text(item.when), json_text(item.collective),
        json_text(name_of(item.type)), item.elements, item.bytes_sent, json_text(item.what));
  }
  std::string pipeline = "null";
  if (const auto& stages = report.pipeline) {
    pipeline = fmt::format(
        "{{\"axis\": {}, \"schedule\": {}, \"chunks\": {}, \"micro_batches\": {}, \"held\": {}, "
        "\"seconds\": {}, \"idle\": {}}}",
        json_text(stages->axis), json_text(stages->schedule), stages->chunks, report.micro_batches,
        stages->held, stages->seconds, stages->idle);
  }
  return fmt::format(
      "{{\n  \"mesh\": {{{}}},\n  \"ranks\": {},\n  \"rank\": {},\n  \"rows\": {},\n"
      "  \"mode\": {},\n  \"precision\": {},\n  \"device\": {},\n  \"variables\": [{}\n  ],\n  "
      "\"outputs\": [{}\n  "
      "],\n"
      "  \"fed\": [{}\n  ],\n"
      "  \"collectives\": [{}\n  ],\n  \"cut_choices\": [{}\n  ],\n"
      "  \"between_steps\": [{}\n  ],\n"
      "  \"predicted\": {{\"communication_seconds\": {}, \"arithmetic_seconds\": {}, "
      "\"latency_seconds\": {}, "
      "\"bytes_per_second\": {}}},\n"
      "  \"flops\": {}, \"without_recomputing\": {},\n"
      "  \"pipeline\": {},\n"
      "  \"memory\": {{\"parameters\": {}, \"narrow_copies\": {}, \"gradients\": {}, \"slots\": "
      "{}, \"batch\": {}, "
      "\"batches_ahead\": {}, \"arena\": {}, \"arena_unshared\": {}, \"peak\": {}, "
      "\"kept_in_generation\": {}, \"without_limit\": {}}}\n}}\n",
      axes, report.mesh.rank_count(), report.rank, report.rows, json_text(name_of(report.mode)),
      json_text(name_of(report.precision)), json_text(report.device.kind),
      json_tensors(report.variables, report.mesh), json_tensors(report.outputs, report.mesh),
      json_tensors(report.fed, report.mesh), collectives, cut, between,
      report.seconds.communication, report.seconds.arithmetic, report.costs.latency_seconds,
      report.costs.bytes_per_second, report.flops, without_recomputing, pipeline,
      report.parameter_bytes, report.narrow_copy_bytes, report.gradient_bytes, report.slot_bytes,
      report.batch_bytes, report.ahead_bytes, report.arena_bytes, report.arena_bytes_if_unshared,
      report.peak_bytes(), report.kept_bytes, without_limit);
}

}  // namespace meshwork
