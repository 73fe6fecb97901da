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

}  // namespace

ParameterForm parameter_form(const Plan& plan, std::int64_t rank, std::int64_t bucket_bytes) {
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
    Numbered open{0, {form.trainable_count, 0, 0, axes, {}}};
    const auto close = [&] {
      if (!open.bucket.variables.empty() && !axes.empty()) {
        buckets.push_back(open);
      }
      open = {0, {form.trainable_count, 0, 0, axes, {}}};
    };
    for (std::size_t order = 0; order < finishing.size(); ++order) {
      ParameterSpan& span = form.spans[finishing[order].variable];
      if (span.reduced_over != axes) {
        continue;
      }
      span.offset = form.trainable_count;
      form.trainable_count += span.count;
      open.finished = order;
      open.bucket.count += span.count;
      open.bucket.global_count += element_count(graph.variables[span.variable].options.shape);
      open.bucket.variables.push_back(span.variable);
      // Global sizes decide, so that all ranks cut alike.
      if (open.bucket.global_count * 4 >= bucket_bytes) {
        close();
      }
    }
    close();
  }
  form.updated_count = form.trainable_count;
  for (ParameterSpan& span : form.spans) {
    if (span.trainable && !span.updated) {
      span.offset = form.trainable_count;
      form.trainable_count += span.count;
    }
  }
  std::stable_sort(buckets.begin(), buckets.end(),
                   [](const Numbered& a, const Numbered& b) { return a.finished < b.finished; });
  for (Numbered& numbered : buckets) {
    form.buckets.push_back(std::move(numbered.bucket));
  }
  return form;
}

Parameters::Parameters(Device& device, const Plan& plan, ParameterForm form, std::uint64_t seed,
                       std::vector<std::string> slots, const Allocate& allocate_gradients)
    : device_(&device), form_(std::move(form)), slot_names_(std::move(slots)) {
  values_ = device.allocate(form_.trainable_count * 4);
  gradients_ = allocate_gradients ? allocate_gradients(form_.trainable_count * 4)
                                  : device.allocate(form_.trainable_count * 4);
  fixed_ = device.allocate(form_.fixed_count * 4);
  for (std::size_t i = 0; i < slot_names_.size(); ++i) {
    slots_.push_back(device.allocate(form_.trainable_count * 4));
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

float* Parameters::value(int variable) const {
  const ParameterSpan& span = form_.spans[variable];
  return (span.trainable ? values() : fixed()) + span.offset;
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
  return slot(index) + span.offset;
}

std::vector<std::vector<float>> Parameters::snapshot() const {
  std::vector<std::vector<float>> copies;
  const auto copy = [&](const Memory& memory) {
    std::vector<float> host(static_cast<std::size_t>(memory.bytes() / 4));
    device_->copy_out(host.data(), memory.data(), memory.bytes());
    copies.push_back(std::move(host));
  };
  copy(values_);
  copy(fixed_);
  for (const Memory& slot : slots_) {
    copy(slot);
  }
  return copies;
}

void Parameters::restore(const std::vector<std::vector<float>>& snapshot) {
  if (snapshot.size() != 2 + slots_.size()) {
    internal_error("a snapshot of other parameters");
  }
  const auto copy = [&](Memory& memory, const std::vector<float>& host) {
    device_->copy_in(memory.data(), host.data(), static_cast<std::int64_t>(host.size()) * 4);
  };
  copy(values_, snapshot[0]);
  copy(fixed_, snapshot[1]);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    copy(slots_[i], snapshot[2 + i]);
  }
}

}  // namespace meshwork
