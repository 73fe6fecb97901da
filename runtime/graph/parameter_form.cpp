// The form of the flat memory (parameters.h), which follows from a plan and from who shares memory.
#include <algorithm>

#include "runtime/graph/parameters.h"
#include "runtime/mesh/block_copy.h"
#include "runtime/mesh/redistribution.h"

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

// Whether blocks that one all-gather brings from `from` to `to` stand in the gathered block without
// others between them, on all ranks: only the first dimension that has more than one index changes.
bool stand_side_by_side(const Layout& from, const Layout& to, const Shape& shape) {
  std::size_t first = 0;
  while (first + 1 < shape.size() && shape[first] == 1) {
    ++first;
  }
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (d != first && from.dimensions[d] != to.dimensions[d]) {
      return false;
    }
  }
  return true;
}

// How a variable's blocks are joined, if they can be: for the first of its uses that gathers it
// among ranks that all share memory.
std::optional<JoinedBlocks> join(const Plan& plan, std::int64_t rank, const ParameterSpan& span,
                                 const ParameterFormOptions& options) {
  const Variable& variable = plan.graph->variables[span.variable];
  const Shape& shape = variable.options.shape;
  std::optional<JoinedBlocks> found;
  for (const PlannedOperation& operation : plan.operations) {
    for (std::size_t i = 0; i < operation.inputs.size(); ++i) {
      const Layout& needed = operation.needed[i];
      if (operation.inputs[i] != variable.tensor || needed == span.layout) {
        continue;
      }
      const std::vector<RedistributionStep> steps =
          plan_redistribution(span.layout, needed, shape, plan.mesh);
      if (steps.size() != 1 || steps.front().kind != StepKind::all_gather ||
          !stand_side_by_side(span.layout, needed, shape)) {
        continue;
      }
      const std::vector<Axis>& axes = steps.front().axes;
      // Every rank asks of every gather: the answer may differ, and the ranks find it together.
      const bool shared = options.sharers(axes).count == plan.mesh.size_over(axes);
      if (shared && !found) {
        const Block gathered = block_of(needed, shape, plan.mesh, rank);
        found = {axes, needed, size_of(gathered),
                 span.count == 0 ? 0 : offset_of(span.block, gathered)};
      }
    }
  }
  return found;
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

// Places for whole gradients: those of one operation side by side, the next ones over them.
class WholeGradients {
 public:
  explicit WholeGradients(const Plan& plan) : plan_(plan) {}

  /// Of a variable with these uses. Variables come in the order of their operations.
  void place(JoinedBlocks& joined, const std::vector<Use>& uses) {
    if (uses.size() != 1) {
      return;
    }
    const auto [operation, input] = uses.front();
    if (plan_.operations[operation].raw[input].dimensions != joined.layout.dimensions) {
      return;
    }
    taken_ = operation == operation_ ? taken_ : 0;
    operation_ = operation;
    joined.whole_gradient = taken_;
    taken_ += (joined.count + line - 1) / line * line;
    count_ = std::max(count_, taken_);
  }
  [[nodiscard]] std::int64_t count() const { return count_; }

 private:
  const Plan& plan_;
  int operation_ = -1;
  std::int64_t taken_ = 0;  // by that one
  std::int64_t count_ = 0;
};

}  // namespace

std::vector<std::vector<Axis>> axes_of_shared_values(const ParameterForm& form) {
  std::vector<std::vector<Axis>> found;
  for (const ParameterGroup& group : form.groups) {
    const std::vector<Axis>& axes = group.joined ? group.joined->axes : group.axes;
    if ((group.joined || group.one_copy()) &&
        std::find(found.begin(), found.end(), axes) == found.end()) {
      found.push_back(axes);
    }
  }
  return found;
}

std::int64_t bucket_bytes_for(std::int64_t bytes) {
  // A message of 512 KiB takes 400 us at 10 Gb/s, several times what it takes an empty one to start
  // and to arrive. Beyond 4 MiB there is nothing more to win.
  constexpr std::int64_t parts = 4, least = 512 << 10, most = 4 << 20;
  return std::clamp(bytes / parts, least, most);
}

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

  // Groups by the axes of the reduction, in order of their first member; and of one variable each.
  struct Group {
    std::vector<Axis> axes;
    int alone = -1;  // the variable
    std::optional<JoinedBlocks> joined;
  };
  std::vector<Group> groups;
  std::vector<std::size_t> group_of(form.spans.size());
  WholeGradients whole(plan);
  for (const Finish& finish : finishing) {
    const ParameterSpan& span = form.spans[finish.variable];
    Group group{span.reduced_over, -1, {}};
    if (options.sharers && !span.in_place) {
      group.joined = join(plan, rank, span, options);
      if (group.joined) {
        group.alone = finish.variable;
        whole.place(*group.joined, uses[finish.variable]);
      }
    }
    const auto known = std::find_if(groups.begin(), groups.end(), [&](const Group& other) {
      return other.axes == group.axes && other.alone == group.alone;
    });
    group_of[finish.variable] = static_cast<std::size_t>(known - groups.begin());
    if (known == groups.end()) {
      groups.push_back(std::move(group));
    }
  }
  struct Numbered {
    std::size_t finished;
    GradientBucket bucket;
  };
  std::vector<Numbered> buckets;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::vector<Axis>& axes = groups[g].axes;
    const int group = static_cast<int>(form.groups.size());
    for (const Finish& finish : finishing) {
      if (group_of[finish.variable] == g) {
        form.trainable_count += gap_before(form.spans[finish.variable], form.trainable_count);
      }
    }
    const bool one_copy = options.sharers && options.one_copy && !axes.empty();
    form.groups.push_back({form.trainable_count, 0, axes, true,
                           one_copy ? options.sharers(axes) : Sharers(), groups[g].joined});
    Numbered open{0, {group, form.trainable_count, 0, 0, axes, {}}};
    std::int64_t of_group = 0;
    for (const Finish& finish : finishing) {
      if (group_of[finish.variable] == g) {
        of_group += element_count(graph.variables[finish.variable].options.shape) * 4;
      }
    }
    const std::int64_t full =
        options.bucket_bytes > 0 ? options.bucket_bytes : bucket_bytes_for(of_group);
    const auto close = [&] {
      if (!open.bucket.variables.empty() && !axes.empty()) {
        buckets.push_back(open);
      }
      open = {0, {group, form.trainable_count, 0, 0, axes, {}}};
    };
    for (std::size_t order = 0; order < finishing.size(); ++order) {
      ParameterSpan& span = form.spans[finishing[order].variable];
      if (group_of[span.variable] != g) {
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
      if (open.bucket.global_count * 4 >= full) {
        close();
      }
    }
    close();
    form.groups[group].count = form.trainable_count - form.groups[group].offset;
  }
  const int at_rest = static_cast<int>(form.groups.size());
  form.groups.push_back({form.trainable_count, 0, {}, false, {}, {}});
  for (ParameterSpan& span : form.spans) {
    if (span.trainable && !span.updated) {
      span.offset = form.trainable_count;
      span.group = at_rest;
      form.trainable_count += span.count;
    }
  }
  form.groups[at_rest].count = form.trainable_count - form.groups[at_rest].offset;
  form.whole_count = whole.count();
  if (form.whole_count > 0) {
    const std::int64_t gap = (line - form.trainable_count % line) % line;
    form.whole_count += gap;
    for (ParameterGroup& group : form.groups) {
      if (group.joined && group.joined->whole_gradient) {
        *group.joined->whole_gradient += gap;
      }
    }
  }
  std::stable_sort(buckets.begin(), buckets.end(),
                   [](const Numbered& a, const Numbered& b) { return a.finished < b.finished; });
  for (Numbered& numbered : buckets) {
    form.buckets.push_back(std::move(numbered.bucket));
  }
  divide_updates(form);
  return form;
}

}  // namespace meshwork
