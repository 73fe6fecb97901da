#include "runtime/mesh/redistribution.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "collectives/error.h"
#include "runtime/shape/block_parts.h"

namespace meshwork {
namespace {

// The words of this file. An axis *leaves* if it splits a dimension before and none after; it
// *enters* if it splits a dimension after and was replicated before. The *major product* of an axis
// is the product of the sizes of the axes more major in its dimension's list.

bool contains(const std::vector<Axis>& axes, Axis axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

std::int64_t major_product(const std::vector<Axis>& axes, Axis axis, const MeshShape& mesh) {
  std::int64_t product = 1;
  for (const Axis each : axes) {
    if (each == axis) break;
    product *= mesh.size(each);
  }
  return product;
}

/// Calls `see` with each leaving axis and the entering one that takes its place: of the same dimension
/// and size, in order. Marks both in `substituted`, which starts false for all axes.
template <class See>
void each_substitution(const Layout& from, const Layout& to, const MeshShape& mesh,
                       std::vector<bool>& substituted, const See& see) {
  for (int dimension = 0; dimension < to.dimension_count(); ++dimension) {
    for (const Axis entering : to.dimensions[dimension]) {
      if (!from.replicates(entering)) continue;
      for (const Axis leaving : from.dimensions[dimension]) {
        if (substituted[leaving] || to.dimension_of(leaving) >= 0) continue;
        if (mesh.size(leaving) != mesh.size(entering)) continue;
        substituted[leaving] = substituted[entering] = true;
        see(leaving, entering);
        break;
      }
    }
  }
}

/// The parts of every dimension under both layouts are as many: blocks go over as wholes.
bool same_parts(const Layout& from, const Layout& to, const MeshShape& mesh) {
  for (int dimension = 0; dimension < from.dimension_count(); ++dimension) {
    if (mesh.size_over(from.dimensions[dimension]) != mesh.size_over(to.dimensions[dimension])) {
      return false;
    }
  }
  return true;
}

bool is_prefix(const std::vector<Axis>& a, const std::vector<Axis>& b) {
  return a.size() <= b.size() && std::equal(a.begin(), a.end(), b.begin());
}

void check_layout(const Layout& layout, const Shape& shape, const MeshShape& mesh) {
  std::vector<Axis> axes = layout.splitting_axes();
  axes.insert(axes.end(), layout.partial.begin(), layout.partial.end());
  std::sort(axes.begin(), axes.end());
  const bool unique = std::adjacent_find(axes.begin(), axes.end()) == axes.end();
  const bool known = axes.empty() || (axes.front() >= 0 && axes.back() < mesh.axis_count());
  if (!unique || !known || layout.dimensions.size() != shape.size()) {
    internal_error("a layout that does not fit its tensor of shape " + to_string(shape) +
                   " or the mesh " + to_string(mesh));
  }
}

void check_partial(const Layout& from, const Layout& to, const MeshShape& mesh) {
  for (const Axis axis : to.partial) {
    if (from.is_partial(axis)) continue;
    if (from.dimension_of(axis) >= 0) {
      fail(
          "a tensor that lies as {} cannot be brought to {}: a dimension split by axis \"{}\" "
          "cannot become a partial sum over it",
          to_string(from, mesh), to_string(to, mesh), mesh.name(axis));
    }
    for (const Axis other : from.partial) {
      if (!to.is_partial(other)) {
        fail(
            "a tensor that lies as {} cannot be brought to {}: a partial sum over axis \"{}\" "
            "cannot become one over axis \"{}\"",
            to_string(from, mesh), to_string(to, mesh), mesh.name(other), mesh.name(axis));
      }
    }
  }
}

std::int64_t ceiling(std::int64_t length, std::int64_t parts) {
  return length / parts + (length % parts != 0 ? 1 : 0);
}

/// The blocks of all ranks that differ from one rank on some axes only, in the order of their
/// communicator. A block's number is linear in the coordinates, so that each costs a few additions.
class GroupBlocks {
 public:
  GroupBlocks(const Layout& layout, const Shape& shape, const MeshShape& mesh,
              std::span<const Axis> axes, std::int64_t rank)
      : shape_(shape), sizes_(axes.size()), digits_(axes.size(), 0) {
    for (std::size_t i = 0; i < axes.size(); ++i) sizes_[i] = mesh.size(axes[i]);
    const std::int64_t first = mesh.neighbour(rank, axes, 0);
    for (std::size_t dimension = 0; dimension < shape.size(); ++dimension) {
      const std::vector<Axis>& list = layout.dimensions[dimension];
      parts_.push_back(mesh.size_over(list));
      index_.push_back(mesh.index_over(first, list));
      std::vector<std::int64_t>& weights = weights_.emplace_back(axes.size(), 0);
      for (std::size_t i = 0; i < axes.size(); ++i) {
        if (contains(list, axes[i])) {
          weights[i] = parts_.back() / (major_product(list, axes[i], mesh) * sizes_[i]);
        }
      }
    }
  }

  /// The block of the member at hand.
  [[nodiscard]] Block block() const {
    Block block;
    block.reserve(shape_.size());
    for (std::size_t dimension = 0; dimension < shape_.size(); ++dimension) {
      block.push_back(block_range(shape_[dimension], parts_[dimension], index_[dimension]));
    }
    return block;
  }

  /// The coordinate of the member at hand on the `position`-th of the axes.
  [[nodiscard]] std::int64_t digit(std::size_t position) const { return digits_[position]; }

  /// Goes to the next member.
  void advance() {
    for (std::size_t i = digits_.size(); i-- > 0;) {
      const bool wraps = digits_[i] + 1 == sizes_[i];
      const std::int64_t step = wraps ? -digits_[i] : 1;
      digits_[i] += step;
      for (std::size_t dimension = 0; dimension < shape_.size(); ++dimension) {
        index_[dimension] += step * weights_[dimension][i];
      }
      if (!wraps) return;
    }
  }

 private:
  Shape shape_;
  std::vector<std::int64_t> sizes_, digits_;
  std::vector<std::int64_t> parts_, index_;
  std::vector<std::vector<std::int64_t>> weights_;  // by dimension, by axis of the group
};

}  // namespace

std::string_view name_of(StepKind kind) {
  switch (kind) {
    case StepKind::slice:
      return "slice";
    case StepKind::reduce_scatter:
      return "reduce_scatter";
    case StepKind::all_reduce:
      return "all_reduce";
    case StepKind::permute:
      return "permute";
    case StepKind::all_to_all:
      return "all_to_all";
    case StepKind::all_gather:
      return "all_gather";
    case StepKind::keep_owner:
      return "keep_owner";
  }
  return "?";
}

bool communicates(StepKind kind) {
  return kind != StepKind::slice && kind != StepKind::keep_owner;
}

RedistributionPlanner::RedistributionPlanner(const MeshShape& mesh) : mesh_(mesh) {}

void RedistributionPlanner::locate(const Layout& layout, Positions& positions) const {
  positions.assign(mesh_.axis_count(), {});
  for (int dimension = 0; dimension < layout.dimension_count(); ++dimension) {
    std::int64_t product = 1;
    for (const Axis axis : layout.dimensions[dimension]) {
      positions[axis] = {dimension, product};
      product *= mesh_.size(axis);
    }
  }
  for (const Axis axis : layout.partial) positions[axis].dimension = partial;
}

// The step to `next_`.
void RedistributionPlanner::advance(StepKind kind) {
  RedistributionStep& step = steps_[count_++];
  step.kind = kind;
  std::sort(axes_.begin(), axes_.end());
  step.axes = axes_;
  step.from = *at_;
  step.to = next_;
  at_ = &step.to;
  axes_.clear();
}

std::span<const RedistributionStep> RedistributionPlanner::plan(const Layout& from,
                                                                const Layout& to) {
  count_ = 0;
  at_ = &from;
  axes_.clear();
  locate(from, before_);
  locate(to, after_);
  substituted_.assign(mesh_.axis_count(), false);
  each_substitution(from, to, mesh_, substituted_, [](Axis, Axis) {});
  sliced_.assign(mesh_.axis_count(), false);
  const auto slices = [&](Axis axis) {
    return before_[axis].dimension == nowhere && !substituted_[axis];
  };

  // Slice by what is new, up to the first axis that has yet to be scattered: what the target has
  // more minor than that is sliced along with it, so that both end up in the target's order.
  next_ = *at_;
  for (int dimension = 0; dimension < to.dimension_count(); ++dimension) {
    for (const Axis axis : to.dimensions[dimension]) {
      if (before_[axis].dimension == partial) break;
      if (!slices(axis)) continue;
      next_.dimensions[dimension].push_back(axis);
      axes_.push_back(axis);
      sliced_[axis] = true;
    }
  }
  if (!axes_.empty()) advance(StepKind::slice);

  // Reduce. Scattering comes first: it leaves less to the other sum, whatever the sizes are.
  for (int dimension = 0; dimension < to.dimension_count(); ++dimension) {
    for (const Axis axis : to.dimensions[dimension]) {
      if (before_[axis].dimension == partial) {
        next_.dimensions[dimension].push_back(axis);
        std::erase(next_.partial, axis);
        axes_.push_back(axis);
      } else if (slices(axis) && !sliced_[axis]) {
        next_.dimensions[dimension].push_back(axis);
      }
    }
  }
  if (!axes_.empty()) advance(StepKind::reduce_scatter);
  for (const Axis axis : at_->partial) {
    if (after_[axis].dimension == partial) continue;
    std::erase(next_.partial, axis);
    axes_.push_back(axis);
  }
  if (!axes_.empty()) advance(StepKind::all_reduce);

  // One exchange brings every axis of the target to its place, with those that leave behind it.
  // An axis that splits the same dimension with the same major product before and after has the
  // same digit in both block numbers, so its ranks have nothing for each other.
  leaving_.clear();
  next_.dimensions = to.dimensions;
  for (int dimension = 0; dimension < to.dimension_count(); ++dimension) {
    for (const Axis axis : at_->dimensions[dimension]) {
      if (after_[axis].dimension >= 0 || substituted_[axis]) continue;
      next_.dimensions[dimension].push_back(axis);
      leaving_.push_back(axis);
    }
  }
  locate(*at_, now_);
  locate(next_, then_);
  for (Axis axis = 0; axis < mesh_.axis_count(); ++axis) {
    if (now_[axis] != then_[axis]) axes_.push_back(axis);
  }
  if (!axes_.empty()) {
    advance(same_parts(*at_, next_, mesh_) ? StepKind::permute : StepKind::all_to_all);
  }

  if (!leaving_.empty()) {
    next_.dimensions = to.dimensions;
    axes_ = leaving_;
    advance(StepKind::all_gather);
  }

  for (const Axis axis : to.partial) {
    if (before_[axis].dimension != partial) axes_.push_back(axis);
  }
  if (!axes_.empty()) {
    next_ = to;
    advance(StepKind::keep_owner);
  }
  if (*at_ != to) internal_error("a redistribution that does not arrive");
  return {steps_.data(), count_};
}

std::vector<RedistributionStep> plan_redistribution(const Layout& from, const Layout& to,
                                                    const Shape& shape, const MeshShape& mesh) {
  check_layout(from, shape, mesh);
  check_layout(to, shape, mesh);
  const Layout start = from.canonical(mesh), goal = to.canonical(mesh);
  check_partial(start, goal, mesh);
  RedistributionPlanner planner(mesh);
  const std::span<const RedistributionStep> steps = planner.plan(start, goal);
  return {steps.begin(), steps.end()};
}

double elements_sent_bound(const RedistributionStep& step, const Shape& shape,
                           const MeshShape& mesh) {
  const double n = static_cast<double>(mesh.size_over(step.axes));
  const double others = (n - 1) / n;
  const auto largest = [&](const Layout& layout) {
    return static_cast<double>(largest_block(layout, shape, mesh));
  };
  switch (step.kind) {
    case StepKind::slice:
    case StepKind::keep_owner:
      return 0;
    case StepKind::all_reduce:
      return 2 * others * largest(step.from);
    case StepKind::all_gather:
      return others * largest(step.to);
    case StepKind::reduce_scatter: {
      double handed = 1;
      for (std::size_t dimension = 0; dimension < shape.size(); ++dimension) {
        std::int64_t members = 1;
        for (const Axis axis : step.to.dimensions[dimension]) {
          if (contains(step.axes, axis)) members *= mesh.size(axis);
        }
        const std::int64_t before = mesh.size_over(step.from.dimensions[dimension]);
        const std::int64_t after = mesh.size_over(step.to.dimensions[dimension]);
        handed *= static_cast<double>(std::min(ceiling(shape[dimension], before),
                                               members * ceiling(shape[dimension], after)));
      }
      return others * handed;
    }
    case StepKind::permute:
    case StepKind::all_to_all: {
      // Where one list of axes begins the other, each rank's two blocks lie in each other;
      // elsewhere there is a rank whose blocks have nothing in common.
      double kept = 1;
      for (std::size_t dimension = 0; dimension < shape.size(); ++dimension) {
        const std::vector<Axis>& before = step.from.dimensions[dimension];
        const std::vector<Axis>& after = step.to.dimensions[dimension];
        const std::int64_t parts = std::max(mesh.size_over(before), mesh.size_over(after));
        const bool nested = is_prefix(before, after) || is_prefix(after, before);
        kept *= nested ? static_cast<double>(shape[dimension] / parts) : 0;
      }
      return largest(step.from) - kept;
    }
  }
  return 0;
}

TransferPlan transfers(const RedistributionStep& step, const Shape& shape, const MeshShape& mesh,
                       std::int64_t rank) {
  const std::int64_t n = mesh.size_over(step.axes);
  const Block held = block_of(step.from, shape, mesh, rank);
  const Block wanted = block_of(step.to, shape, mesh, rank);
  GroupBlocks before(step.from, shape, mesh, step.axes, rank);
  GroupBlocks after(step.to, shape, mesh, step.axes, rank);
  TransferPlan plan;
  plan.sends.reserve(static_cast<std::size_t>(n));
  plan.receives.reserve(static_cast<std::size_t>(n));

  switch (step.kind) {
    case StepKind::all_gather:
      for (std::int64_t peer = 0; peer < n; ++peer, before.advance()) {
        plan.sends.push_back({peer, held});
        plan.receives.push_back({peer, before.block()});
      }
      return plan;
    case StepKind::reduce_scatter:
      for (std::int64_t peer = 0; peer < n; ++peer, after.advance()) {
        plan.sends.push_back({peer, after.block()});
        plan.receives.push_back({peer, wanted});
      }
      return plan;
    case StepKind::permute:
    case StepKind::all_to_all:
      break;
    default:
      internal_error(fmt::format("the transfers of a step of kind {}", name_of(step.kind)));
  }

  // Where the coordinates of sender and receiver have to agree: positions in `axes`, and this
  // rank's coordinates.
  struct Condition {
    std::size_t leaving, entering;
    std::int64_t own_leaving, own_entering;
  };
  std::vector<Condition> conditions;
  const auto position = [&](Axis axis) {
    return static_cast<std::size_t>(std::find(step.axes.begin(), step.axes.end(), axis) -
                                    step.axes.begin());
  };
  std::vector<bool> substituted(mesh.axis_count(), false);
  each_substitution(step.from, step.to, mesh, substituted, [&](Axis leaving, Axis entering) {
    conditions.push_back({position(leaving), position(entering), mesh.coordinate(rank, leaving),
                          mesh.coordinate(rank, entering)});
  });
  const Block nothing(shape.size());
  for (std::int64_t peer = 0; peer < n; ++peer, before.advance(), after.advance()) {
    bool sends = true;     // this rank to the peer
    bool receives = true;  // this rank from the peer
    for (const Condition& condition : conditions) {
      sends = sends && condition.own_entering == before.digit(condition.leaving);
      receives = receives && before.digit(condition.entering) == condition.own_leaving;
    }
    plan.sends.push_back({peer, sends ? intersection(held, after.block()) : nothing});
    plan.receives.push_back({peer, receives ? intersection(before.block(), wanted) : nothing});
  }
  return plan;
}

}  // namespace meshwork
