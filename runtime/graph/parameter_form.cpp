#include "runtime/graph/parameter_form.h"

#include <algorithm>

#include "runtime/device/alignment.h"
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
constexpr std::int64_t line = line_bytes / float32_bytes;
std::int64_t gap_before(const ParameterSpan& span, std::int64_t offset) {
  return span.count < large_elements ? 0 : (line - offset % line) % line;
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

// Joins a variable's blocks in its group, if they can be: for the first of its uses that gathers it
// among ranks that all share memory.
void join(const Plan& plan, std::int64_t rank, const ParameterSpan& span,
          const ParameterFormOptions& options, ParameterGroup& group) {
  const Variable& variable = plan.graph->variables[span.variable];
  const Shape& shape = variable.options.shape;
  for (const PlannedOperation& operation : plan.operations) {
    for (std::size_t i = 0; i < operation.inputs.size(); ++i) {
      const Layout needed = operation.needed[i].at(span.layout.places);
      if (operation.inputs[i] != variable.tensor || needed == span.layout) {
        continue;
      }
      const std::vector<RedistributionStep> steps =
          plan_redistribution(span.layout.at(), needed.at(), shape, plan.mesh);
      if (steps.size() != 1 || steps.front().kind != StepKind::all_gather ||
          !stand_side_by_side(span.layout, needed, shape)) {
        continue;
      }
      const std::vector<Axis>& axes = steps.front().axes;
      // Every rank asks of every gather: the answer may differ, and the ranks find it together.
      const bool shared = options.sharers(axes).count == plan.mesh.size_over(axes);
      if (shared && group.home != Home::joined) {
        const Block gathered = block_of(needed, shape, plan.mesh, rank);
        group.home = Home::joined;
        group.shared_over = axes;
        group.gathered = needed.at();
        group.held = size_of(gathered);
        group.own_begin = span.count == 0 ? 0 : offset_of(span.block, gathered);
      }
    }
  }
}

// Who updates what: whole groups, or parts of the buckets of those that are one copy.
void divide_updates(ParameterForm& form) {
  for (int b = 0; b < static_cast<int>(form.buckets.size()); ++b) {
    const GradientBucket& bucket = form.buckets[b];
    const ParameterGroup& group = form.groups[bucket.group];
    if (group.home != Home::one_copy) {
      continue;
    }
    const auto [part, parts] = group.sharers;
    const std::int64_t begin = part_begin(bucket.count, part, parts, ElementType::float32);
    const std::int64_t end = part_begin(bucket.count, part + 1, parts, ElementType::float32);
    form.updates.push_back({bucket.group, b, bucket.offset + begin, end - begin});
  }
  for (int g = 0; g < static_cast<int>(form.groups.size()); ++g) {
    const ParameterGroup& group = form.groups[g];
    if (group.updated && group.home != Home::one_copy) {
      form.updates.push_back({g, -1, group.offset, group.count});
    }
  }
}

// Places for whole gradients: those of one operation side by side, the next ones over them.
class WholeGradients {
 public:
  explicit WholeGradients(const Plan& plan) : plan_(plan) {}

  /// Of a variable with these uses. Variables come in the order of their operations.
  void place(ParameterGroup& joined, const std::vector<Use>& uses) {
    if (uses.size() != 1) {
      return;
    }
    const auto [operation, input] = uses.front();
    if (plan_.operations[operation].raw[input].dimensions != joined.gathered.dimensions) {
      return;
    }
    taken_ = operation == operation_ ? taken_ : 0;
    operation_ = operation;
    joined.whole_gradient = taken_;
    taken_ += (joined.held + line - 1) / line * line;
    count_ = std::max(count_, taken_);
  }
  [[nodiscard]] std::int64_t count() const { return count_; }

 private:
  const Plan& plan_;
  int operation_ = -1;
  std::int64_t taken_ = 0;  // by that one
  std::int64_t count_ = 0;
};

// The form while it is made: places in the flat memory are given out one behind the other, in the
// order in which backward finishes gradients.
class FormMaker {
 public:
  FormMaker(const Plan& plan, std::int64_t rank, const ParameterFormOptions& options)
      : plan_(plan),
        graph_(*plan.graph),
        rank_(rank),
        options_(options),
        uses_(gradient_uses(plan)),
        whole_(plan) {}

  ParameterForm make() {
    describe_variables();
    find_order();
    for (Members& members : grouped()) {
      lay_out(std::move(members));
    }
    lay_out_resting();
    lay_out_whole_gradients();
    std::stable_sort(buckets_.begin(), buckets_.end(),
                     [](const Bucket& a, const Bucket& b) { return a.finished < b.finished; });
    for (Bucket& bucket : buckets_) {
      form_.buckets.push_back(std::move(bucket.bucket));
    }
    divide_updates(form_);
    return std::move(form_);
  }

 private:
  // A group, and its variables by their positions in the order: one, of joined blocks.
  struct Members {
    ParameterGroup group;
    std::vector<std::size_t> positions;
  };
  struct Bucket {
    std::size_t finished;  // the position of its last variable
    GradientBucket bucket;
  };

  void describe_variables() {
    form_.spans.resize(graph_.variables.size());
    for (int v = 0; v < static_cast<int>(graph_.variables.size()); ++v) {
      ParameterSpan& span = form_.spans[v];
      const Variable& variable = graph_.variables[v];
      const std::vector<Use>& uses = uses_[v];
      span.variable = v;
      span.layout = plan_.tensors[variable.tensor].layout;
      span.block = block_of(span.layout, variable.options.shape, plan_.mesh, rank_);
      span.count = element_count(shape_of(span.block));
      span.held = includes(span.layout.places, plan_.mesh, rank_);
      span.trainable = variable.options.trainable;
      span.updated = span.trainable && (!uses.empty() || variable.options.regularizer.active());
      if (!span.trainable) {
        span.offset = form_.fixed_count;
        form_.fixed_count += span.count;
      }
      // A gradient that a single use leaves as the variable lies, but for partial sums, is written
      // in place and reduced with its neighbours. Any other is reduced on its way to its place.
      if (span.updated && uses.size() == 1) {
        const Layout& raw = plan_.operations[uses[0].operation].raw[uses[0].input];
        if (raw.dimensions == span.layout.dimensions && raw.places == span.layout.places) {
          span.in_place = true;
          span.reduced_over = raw.partial;
        }
      }
    }
  }

  // Backward goes from the last operation to the first, and finishes a gradient with the first use;
  // what has none is regularized alone, behind all.
  void find_order() {
    for (const ParameterSpan& span : form_.spans) {
      if (span.updated) {
        order_.push_back(span.variable);
      }
    }
    const auto finished = [&](int v) { return uses_[v].empty() ? Use{-1, v} : uses_[v].front(); };
    std::sort(order_.begin(), order_.end(), [&](int v, int w) {
      const Use a = finished(v), b = finished(w);
      return a.operation != b.operation ? a.operation > b.operation : a.input < b.input;
    });
  }

  // By the axes of the reduction, in the order of their first members; and of one variable each.
  std::vector<Members> grouped() {
    std::vector<Members> groups;
    for (std::size_t position = 0; position < order_.size(); ++position) {
      const int v = order_[position];
      const ParameterSpan& span = form_.spans[v];
      ParameterGroup group{.axes = span.reduced_over};
      if (options_.sharers && !span.in_place) {
        join(plan_, rank_, span, options_, group);
      }
      const bool alone = group.home == Home::joined;
      if (alone) {
        whole_.place(group, uses_[v]);
      }
      auto known = std::find_if(groups.begin(), groups.end(), [&](const Members& other) {
        return !alone && other.group.home != Home::joined && other.group.axes == group.axes;
      });
      if (known == groups.end()) {
        known = groups.insert(groups.end(), Members{std::move(group), {}});
      }
      known->positions.push_back(position);
    }
    return groups;
  }

  void lay_out(Members members) {
    // Of whole variables: global sizes decide, so that all ranks do alike.
    std::int64_t elements = 0, factors = 0;
    for (const std::size_t position : members.positions) {
      form_.trainable_count += gap_before(span_at(position), form_.trainable_count);
      elements += elements_at(position);
      factors += is_factor(members, position) ? elements_at(position) : 0;
    }
    const std::int64_t full = options_.bucket_bytes > 0
                                  ? options_.bucket_bytes
                                  : bucket_bytes_for(elements * float32_bytes);
    ParameterGroup& begun = members.group;
    const std::vector<Axis> axes = begun.axes;
    begun.offset = form_.trainable_count;
    begun.narrowed = options_.narrow_copies && 2 * factors >= elements;
    if (options_.sharers && options_.one_copy && !axes.empty()) {
      begun.sharers = options_.sharers(axes);
      if (begun.sharers.count > 1) {
        begun.home = Home::one_copy;
        begun.shared_over = axes;
      }
    }
    const int group = begin_group(std::move(begun));
    const auto opened = [&] { return Bucket{0, {group, form_.trainable_count, 0, 0, axes, {}}}; };
    Bucket open = opened();
    for (const std::size_t position : members.positions) {
      ParameterSpan& span = span_at(position);
      const std::int64_t gap = gap_before(span, form_.trainable_count);
      form_.trainable_count += gap;
      place(span, group);
      open.finished = position;
      open.bucket.count += gap + span.count;
      open.bucket.global_count += elements_at(position);
      open.bucket.variables.push_back(span.variable);
      const bool last = position == members.positions.back();
      if (last || open.bucket.global_count * float32_bytes >= full) {
        if (!axes.empty()) {
          buckets_.push_back(std::move(open));
        }
        open = opened();
      }
    }
    end_group();
  }

  // Whether products read the variable where it stands.
  [[nodiscard]] bool is_factor(const Members& members, std::size_t position) const {
    const int v = order_[position];
    const ParameterGroup& group = members.group;
    const Layout stands = group.home == Home::joined ? group.gathered : form_.spans[v].layout.at();
    return std::any_of(uses_[v].begin(), uses_[v].end(), [&](const Use& use) {
      const PlannedOperation& planned = plan_.operations[use.operation];
      return use.input < 2 && planned.operation->fusible().multiplies &&
             planned.needed[use.input].at() == stands;
    });
  }

  // What is trainable and not updated.
  void lay_out_resting() {
    const int group = begin_group({.offset = form_.trainable_count, .updated = false});
    for (ParameterSpan& span : form_.spans) {
      if (span.trainable && !span.updated) {
        place(span, group);
      }
    }
    end_group();
  }

  void lay_out_whole_gradients() {
    form_.whole_count = whole_.count();
    if (form_.whole_count == 0) {
      return;
    }
    const std::int64_t gap = (line - form_.trainable_count % line) % line;
    form_.whole_count += gap;
    for (ParameterGroup& group : form_.groups) {
      if (group.whole_gradient) {
        *group.whole_gradient += gap;
      }
    }
  }

  int begin_group(ParameterGroup group) {
    form_.groups.push_back(std::move(group));
    return static_cast<int>(form_.groups.size()) - 1;
  }
  void end_group() {
    ParameterGroup& group = form_.groups.back();
    group.count = form_.trainable_count - group.offset;
    if (group.home != Home::joined) {
      group.held = group.count;
    }
  }
  void place(ParameterSpan& span, int group) {
    span.offset = form_.trainable_count;
    span.group = group;
    form_.trainable_count += span.count;
  }

  ParameterSpan& span_at(std::size_t position) { return form_.spans[order_[position]]; }
  [[nodiscard]] std::int64_t elements_at(std::size_t position) const {
    return element_count(graph_.variables[order_[position]].options.shape);
  }

  const Plan& plan_;
  const Graph& graph_;
  std::int64_t rank_;
  const ParameterFormOptions& options_;
  std::vector<std::vector<Use>> uses_;  // by variable
  WholeGradients whole_;
  std::vector<int> order_;  // the variables that are updated
  std::vector<Bucket> buckets_;
  ParameterForm form_;
};

}  // namespace

std::vector<std::vector<Axis>> shared_axes(const ParameterForm& form, std::optional<Home> home) {
  std::vector<std::vector<Axis>> found;
  for (const ParameterGroup& group : form.groups) {
    if (group.home != Home::own && group.home == home.value_or(group.home) &&
        std::find(found.begin(), found.end(), group.shared_over) == found.end()) {
      found.push_back(group.shared_over);
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
  return FormMaker(plan, rank, options).make();
}

}  // namespace meshwork
