#include "runtime/graph/step/values.h"

#include <algorithm>
#include <optional>

#include "runtime/device/kernels/copies.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/mesh/block_copy.h"
#include "runtime/mesh/lower_windows.h"

namespace meshwork {
namespace {

constexpr std::int64_t word = 8;  // bytes of an address and of a row's number

}  // namespace

StepValues::StepValues(StepContext& step)
    : step_(step),
      available_(step.graph.tensors.size()),
      micro_batch_(step.micro_batch),
      boxes_(step.graph.tensors.size()) {
  for (int v = 0; v < static_cast<int>(step.graph.variables.size()); ++v) {
    const TensorId tensor = step.graph.variables[v].tensor;
    available_[tensor].emplace_back(step.plan.tensors[tensor].layout.at(), step.value_of(v));
  }
  note_what_is_fed();
}

void StepValues::note_what_is_fed() {
  const LoweringRequest& request = step_.request;
  const std::vector<TensorId> tensors = fed_tensors(step_.graph, request.mode);
  // Where the tables begin, then the rows of the global batch.
  const auto tables = static_cast<std::int64_t>(tensors.size());
  Buffer gathered;
  if (request.gathers) {
    gathered = step_.builder.external(request.gathered_rows, (tables + request.rows) * word,
                                      "rows of the batch");
  }
  for (std::int64_t i = 0; i < tables; ++i) {
    const TensorId id = tensors[static_cast<std::size_t>(i)];
    const Layout& layout = step_.plan.tensors[id].layout;
    const ElementType type = request.fed_type(id);
    const Block block = step_.block(id, layout);
    if (request.gathers) {
      conversions_[id] = {
          .type = type,
          .from = Operand(gathered, i * word),
          .gathered = true,
          .rows = Operand(gathered, (tables + step_.rows().begin + block.front().begin) * word)};
    } else {
      const auto part = step_.micro_batch * tensors.size() + static_cast<std::size_t>(i);
      const Buffer at =
          step_.builder.external(request.feeds.empty() ? nullptr : request.feeds[part],
                                 size_of(block) * element_bytes(type), step_.name_of(id));
      if (type == step_.graph.tensors[id].type && !step_.plan.tensors[id].scaling) {
        available_[id].emplace_back(layout.at(), at);
      } else {
        conversions_[id] = {.type = type, .from = at};
      }
    }
  }
}

ByLayout& StepValues::known(TensorId id) {
  ByLayout& known = available_[id];
  if (const auto found = conversions_.find(id); found != conversions_.end()) {
    known.emplace_back(step_.plan.tensors[id].layout.at(), convert(id, found->second));
    conversions_.erase(found);
  }
  if (const auto found = arriving_.find(id); found != arriving_.end()) {
    step_.wait_for(std::move(found->second));
    arriving_.erase(found);
  }
  return known;
}

Operand StepValues::convert(TensorId id, const Conversion& conversion) {
  const std::string name = step_.name_of(id);
  const auto& [type, from, gathered, rows_of_table] = conversion;
  const std::optional<Scaling>& scaling = step_.plan.tensors[id].scaling;
  const auto [scale, offset] = scaling.value_or(Scaling{});
  const Block block = step_.block(id, step_.plan.tensors[id].layout);
  const std::int64_t count = size_of(block), rows = block.front().length();
  const ElementType to = step_.graph.tensors[id].type;
  const Buffer converted = step_.builder.scratch(count * element_bytes(to), name);
  if (gathered) {
    step_.builder.emit(GatherSpec{rows, rows == 0 ? 0 : count / rows, type, scale, offset, to},
                       {from, rows_of_table, converted}, name);
  } else if (type == to && scaling) {
    step_.builder.emit(AffineSpec{count, scale, offset}, {from, converted}, name);
  } else {
    step_.builder.emit(ConvertSpec{count, type, scale, offset, to}, {from, converted}, name);
  }
  return converted;
}

Operand StepValues::in(TensorId id, const Layout& wanted) {
  const Layout layout = wanted.at();
  ByLayout& known = this->known(id);
  const auto found =
      std::find_if(known.begin(), known.end(), [&](const auto& at) { return at.first == layout; });
  if (found != known.end()) {
    return found->second;
  }
  if (known.empty()) {
    internal_error(step_.name_of(id) + " is read at a place where it is not");
  }
  const auto& [settled, source] = known.front();
  const Operand moved =
      !step_.gather_order.empty() && step_.is_gather(id, layout)
          ? gather(id, layout)
          : step_.move(id, source, settled, layout, step_.joined_in(id, layout), step_.name_of(id));
  known.emplace_back(layout, moved);
  return moved;
}

Operand StepValues::gather(TensorId id, const Layout& layout) {
  const StepContext::Gather wanted{id, layout, step_.phase};
  StepContext::GatherOrder& passes = step_.gather_order[micro_batch_];
  if (step_.notes_gathers) {
    passes.resize(std::max(passes.size(), pass_ + 1));
    passes[pass_].push_back(wanted);
    return step_.start_gather(wanted)();
  }
  if (pass_ >= passes.size() || gathered_ >= passes[pass_].size() ||
      passes[pass_][gathered_] != wanted) {
    internal_error(step_.name_of(id) + " is gathered out of turn");
  }
  const Operand gathered = ahead_ ? ahead_() : step_.start_gather(wanted)();
  ahead_ = nullptr;
  if (++gathered_ < passes[pass_].size()) ahead_ = step_.start_gather(passes[pass_][gathered_]);
  return gathered;
}

void StepValues::begin_pass() {
  if (ahead_) internal_error("a variable is gathered that nobody reads");
  ++pass_;
  gathered_ = 0;
}

Operand StepValues::in_boxes(TensorId id, const Layout& layout, const Windows& windows) {
  for (const auto& [known, box] : boxes_[id]) {
    if (same_boxes(known, windows, step_.plan.mesh)) {
      return box;
    }
  }
  const Operand box =
      holds_boxes(step_.plan.tensors[id].layout, windows)
          ? cut_box(id, windows)
          : lower_windows(step_.builder, step_.collectives, windows, step_.graph.tensors[id].type,
                          in(id, layout), {step_.phase, step_.name_of(id)});
  boxes_[id].emplace_back(windows, box);
  return box;
}

Operand StepValues::cut_box(TensorId id, const Windows& windows) {
  const ElementType type = step_.graph.tensors[id].type;
  const Layout around = layout_around_boxes(windows);
  const Operand source = in(id, around);
  const Block held = step_.block(id, around);
  const Block box = box_of(windows, step_.plan.mesh, step_.collectives.rank());
  const std::int64_t count = size_of(box);
  if (count == 0 || contiguous(box, held)) {
    const std::int64_t offset = count == 0 ? 0 : offset_of(box, held);
    return source.after(offset, type);
  }
  const std::string what = step_.name_of(id) + " box";
  const Buffer cut = step_.builder.scratch(count * element_bytes(type), what);
  step_.builder.emit(CopySpec{type, {copied_region(box, held, 0, box, 0)}}, {source, cut}, what);
  return cut;
}

void StepValues::add(TensorId id, const Layout& as_made, Operand value) {
  const Layout natural = as_made.at(), settled = step_.plan.tensors[id].layout.at();
  if (natural == settled) {
    available_[id].emplace_back(settled, value);
    return;
  }
  available_[id].emplace_back(
      settled, step_.move(id, value, natural, settled, std::nullopt, step_.name_of(id), true));
  if (natural.partial.empty()) {
    available_[id].emplace_back(natural, value);
  }
}

void StepValues::cross(TensorId id) {
  const PlannedTensor& tensor = step_.plan.tensors[id];
  const Crossing crossing =
      crossing_of(tensor.layout.places, tensor.read_at, step_.plan.mesh, step_.collectives.rank());
  if (!crossing.concerns_rank()) return;
  const Layout layout = tensor.layout.at();
  const std::int64_t count = step_.count(id, layout);
  const std::string what = step_.name_of(id);
  if (crossing.receives_from < 0) {
    sent_[step_.stage].push_back(step_.start_crossing(crossing, id, count, settled(id), what));
    return;
  }
  const Buffer received =
      step_.builder.scratch(count * element_bytes(step_.graph.tensors[id].type), what);
  arriving_.emplace(id, step_.start_crossing(crossing, id, count, received, what));
  available_[id].emplace_back(layout, received);
}

void StepValues::wait_for_sent() {
  for (StepContext::Message& message : sent_[step_.stage]) step_.wait_for(std::move(message));
  sent_.erase(step_.stage);
}

void StepValues::end_messages() {
  for (auto& [id, message] : arriving_) step_.wait_for(std::move(message));
  arriving_.clear();
  for (auto& [stage, messages] : sent_) {
    for (StepContext::Message& message : messages) step_.wait_for(std::move(message));
  }
  sent_.clear();
}

void StepValues::update(TensorId id, const Layout& as_made, Operand value) {
  const Layout layout = as_made.at();
  available_[id].resize(1);
  boxes_[id].clear();
  if (layout != available_[id].front().first) {
    available_[id].emplace_back(layout, value);
  }
}

std::optional<Operand> StepValues::mask_of(TensorId id) const {
  const auto found = masks_.find(id);
  return found == masks_.end() ? std::nullopt : std::optional(found->second);
}

void StepValues::forget(const PlannedOperation& operation) {
  available_[operation.output].clear();
  boxes_[operation.output].clear();
  masks_.erase(operation.output);
  for (const TensorId input : operation.inputs) {
    if (step_.variable_of(input) < 0 && !available_[input].empty()) {
      available_[input].resize(1);
      boxes_[input].clear();
    }
  }
}

void StepValues::forget_gathered_variables() {
  begin_pass();
  for (const Variable& variable : step_.graph.variables) {
    available_[variable.tensor].resize(1);
    boxes_[variable.tensor].clear();
  }
}

}  // namespace meshwork
