#include "runtime/graph/parameters.h"

#include <algorithm>
#include <map>

#include "collectives/error.h"
#include "runtime/device/philox.h"
#include "runtime/graph/initializer.h"

namespace meshwork {
namespace {

// The operations whose backward gives variable `tensor` a gradient, by position in the plan.
struct Use {
  int operation;
  int input;
};
std::vector<std::vector<Use>> gradient_uses(const Plan& plan) {
  std::vector<std::vector<Use>> uses(plan.graph->variables.size());
  for (int o = 0; o < static_cast<int>(plan.operations.size()); ++o) {
    const PlannedOperation& operation = plan.operations[o];
    for (int i = 0; i < static_cast<int>(operation.inputs.size()); ++i) {
      const int variable = plan.graph->tensors[operation.inputs[i]].variable;
      if (variable >= 0 && operation.gradient[i]) {
        uses[variable].push_back({o, i});
      }
    }
  }
  return uses;
}

// What is large begins where a cache line does, in its group and so in the flat gradients: kernels
// read and write it in vectors of a line. Zeros fill the gap, and stay zero.
constexpr std::int64_t line = 64 / element_bytes(ElementType::float32);
constexpr std::int64_t large = 4096;  // elements
std::int64_t gap_before(const ParameterSpan& span, std::int64_t offset) {
  return span.count < large ? 0 : (line - offset % line) % line;
}

// Who updates what: whole groups, or parts of the buckets of those that are one copy.
void divide_updates(ParameterForm& form) {
  for (int b = 0; b < static_cast<int>(form.buckets.size()); ++b) {
    const GradientBucket& bucket = form.buckets[b];
    const ParameterGroup& group = form.groups[bucket.group];
    if (!group.one_copy()) {
      continue;
    }
    const auto [part, parts] = group.sharers;
    const std::int64_t begin = part_begin(bucket.count, part, parts, ElementType::float32);
    const std::int64_t end = part_begin(bucket.count, part + 1, parts, ElementType::float32);
    form.updates.push_back({bucket.group, b, bucket.offset + begin, end - begin});
  }
  for (int g = 0; g < static_cast<int>(form.groups.size()); ++g) {
    const ParameterGroup& group = form.groups[g];
    if (group.updated && !group.one_copy()) {
      form.updates.push_back({g, -1, group.offset, group.count});
    }
  }
}

}  // namespace

ParameterForm parameter_form(const Plan& plan, std::int64_t rank,
                             const ParameterFormOptions& options) {
  const Graph& graph = *plan.graph;
  const std::vector<std::vector<Use>> uses = gradient_uses(plan);
  ParameterForm form;
  form.spans.resize(graph.variables.size());

  struct Finish {
    int operation;  // whose backward finishes the gradient
    int input;
    int variable;
  };
  std::vector<Finish> finishing;
  for (int v = 0; v < static_cast<int>(graph.variables.size()); ++v) {
    ParameterSpan& span = form.spans[v];
    const Variable& variable = graph.variables[v];
    span.variable = v;
    span.layout = plan.tensors[variable.tensor].layout;
    span.block = block_of(span.layout, variable.options.shape, plan.mesh, rank);
    span.count = element_count(shape_of(span.block));
    span.trainable = variable.options.trainable;
    span.updated = span.trainable && (!uses[v].empty() || variable.options.regularizer.active());
    if (!span.trainable) {
      span.offset = form.fixed_count;
      form.fixed_count += span.count;
      continue;
    }
    if (!span.updated) {
      continue;
    }
    // A gradient that a single use leaves as the variable lies, but for partial sums, is written in
    // place and reduced with its neighbours. Any other is reduced on its way to its place.
    if (uses[v].size() == 1) {
      const Layout& raw = plan.operations[uses[v][0].operation].raw[uses[v][0].input];
      if (raw.dimensions == span.layout.dimensions) {
        span.in_place = true;
        span.reduced_over = raw.partial;
      }
    }
    finishing.push_back(uses[v].empty()
                            ? Finish{-1, v, v}
                            : Finish{uses[v].front().operation, uses[v].front().input, v});
  }
  std::sort(finishing.begin(), finishing.end(), [](const Finish& a, const Finish& b) {
    return a.operation != b.operation ? a.operation > b.operation : a.input < b.input;
  });

  // Groups by the axes of the reduction, in order of their first member.
  std::vector<std::vector<Axis>> groups;
  for (const Finish& finish : finishing) {
    const std::vector<Axis>& axes = form.spans[finish.variable].reduced_over;
    if (std::find(groups.begin(), groups.end(), axes) == groups.end()) {
      groups.push_back(axes);
    }
  }
  struct Numbered {
    std::size_t finished;
    GradientBucket bucket;
  };
  std::vector<Numbered> buckets;
  for (const std::vector<Axis>& axes : groups) {
    const int group = static_cast<int>(form.groups.size());
    for (const Finish& finish : finishing) {
      const ParameterSpan& span = form.spans[finish.variable];
      if (span.reduced_over == axes) {
        form.trainable_count += gap_before(span, form.trainable_count);
      }
    }
    form.groups.push_back({form.trainable_count, 0, axes, true,
                           options.sharers && !axes.empty() ? options.sharers(axes) : Sharers()});
    Numbered open{0, {group, form.trainable_count, 0, 0, axes, {}}};
    const auto close = [&] {
      if (!open.bucket.variables.empty() && !axes.empty()) {
        buckets.push_back(open);
      }
      open = {0, {group, form.trainable_count, 0, 0, axes, {}}};
    };
    for (std::size_t order = 0; order < finishing.size(); ++order) {
      ParameterSpan& span = form.spans[finishing[order].variable];
      if (span.reduced_over != axes) {
        continue;
      }
      const std::int64_t gap = gap_before(span, form.trainable_count);
      span.offset = form.trainable_count + gap;
      span.group = group;
      form.trainable_count += gap + span.count;
      open.finished = order;
      open.bucket.count += gap + span.count;
      open.bucket.global_count += element_count(graph.variables[span.variable].options.shape);
      open.bucket.variables.push_back(span.variable);
      // Global sizes decide, so that all ranks cut alike.
      if (open.bucket.global_count * 4 >= options.bucket_bytes) {
        close();
      }
    }
    close();
    form.groups[group].count = form.trainable_count - form.groups[group].offset;
  }
  const int at_rest = static_cast<int>(form.groups.size());
  form.groups.push_back({form.trainable_count, 0, {}, false, {}});
  for (ParameterSpan& span : form.spans) {
    if (span.trainable && !span.updated) {
      span.offset = form.trainable_count;
      span.group = at_rest;
      form.trainable_count += span.count;
    }
  }
  form.groups[at_rest].count = form.trainable_count - form.groups[at_rest].offset;
  std::stable_sort(buckets.begin(), buckets.end(),
                   [](const Numbered& a, const Numbered& b) { return a.finished < b.finished; });
  for (Numbered& numbered : buckets) {
    form.buckets.push_back(std::move(numbered.bucket));
  }
  divide_updates(form);
  return form;
}

Parameters::Parameters(Device& device, const Plan& plan, ParameterForm form, std::uint64_t seed,
                       std::vector<std::string> slots, const ParameterMemory& memory)
    : device_(&device), form_(std::move(form)), slot_names_(std::move(slots)) {
  gradients_ = memory.gradients ? memory.gradients(form_.trainable_count * 4)
                                : device.allocate(form_.trainable_count * 4);
  fixed_ = device.allocate(form_.fixed_count * 4);
  for (const ParameterGroup& group : form_.groups) {
    const auto allocate = [&] {
      return group.one_copy() ? memory.one_copy(group, group.count * 4)
                              : device.allocate(group.count * 4);
    };
    values_.push_back(allocate());
    std::vector<Memory>& slots_of_group = slots_.emplace_back();
    for (std::size_t i = 0; i < slot_names_.size(); ++i) {
      slots_of_group.push_back(allocate());
    }
  }
  std::vector<float> host;
  for (const ParameterSpan& span : form_.spans) {
    const Variable& variable = plan.graph->variables[span.variable];
    host.assign(static_cast<std::size_t>(span.count), 0.0f);
    initialize(variable.options.initializer, variable.options.shape, span.block,
               random_key(seed, variable.path), host);
    device.copy_in(value(span.variable), host.data(), span.count * 4);
  }
}

float* Parameters::group_values(int group) const {
  return static_cast<float*>(values_[group].data());
}

float* Parameters::group_slot(int index, int group) const {
  return static_cast<float*>(slots_[group][index].data());
}

float* Parameters::value(int variable) const {
  const ParameterSpan& span = form_.spans[variable];
  return span.trainable ? group_values(span.group) + (span.offset - form_.groups[span.group].offset)
                        : fixed() + span.offset;
}

float* Parameters::gradient(int variable) const {
  const ParameterSpan& span = form_.spans[variable];
  if (!span.trainable) {
    internal_error("a variable that is not trained has no gradient");
  }
  return gradients() + span.offset;
}

float* Parameters::slot(int index, int variable) const {
  const ParameterSpan& span = form_.spans[variable];
  if (!span.trainable) {
    internal_error("a variable that is not trained has no optimizer slots");
  }
  return group_slot(index, span.group) + (span.offset - form_.groups[span.group].offset);
}

void Parameters::read_values(std::span<float> trainable, std::span<float> rest) const {
  for (std::size_t g = 0; g < values_.size(); ++g) {
    const ParameterGroup& group = form_.groups[g];
    device_->copy_out(trainable.data() + group.offset, values_[g].data(), group.count * 4);
  }
  device_->copy_out(rest.data(), fixed_.data(), form_.fixed_count * 4);
}

void Parameters::write_values(std::span<const float> trainable, std::span<const float> rest) {
  for (std::size_t g = 0; g < values_.size(); ++g) {
    const ParameterGroup& group = form_.groups[g];
    device_->copy_in(values_[g].data(), trainable.data() + group.offset, group.count * 4);
  }
  device_->copy_in(fixed_.data(), rest.data(), form_.fixed_count * 4);
}

}  // namespace meshwork
