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

struct Substitution {
  Axis leaving;
  Axis entering;
};

/// Which entering axes take the place of which leaving ones: those of the same dimension and size,
/// in order.
std::vector<Substitution> substitutions(const Layout& from, const Layout& to,
                                        const MeshShape& mesh) {
  std::vector<Substitution> pairs;
  for (int dimension = 0; dimension < to.dimension_count(); ++dimension) {
    std::vector<Axis> leaving;
    for (const Axis axis : from.dimensions[dimension]) {
      if (to.dimension_of(axis) < 0) leaving.push_back(axis);
    }
    for (const Axis entering : to.dimensions[dimension]) {
      if (!from.replicates(entering)) continue;
      const auto found = std::find_if(leaving.begin(), leaving.end(), [&](Axis axis) {
        return mesh.size(axis) == mesh.size(entering);
      });
      if (found == leaving.end()) continue;
      pairs.push_back({*found, entering});
      leaving.erase(found);
    }
  }
  return pairs;
}

/// The axes whose ranks have to talk in an exchange, ascending. An axis that splits the same
/// dimension with the same major product before and after has the same digit in both block numbers,
/// so its ranks have nothing for each other.
std::vector<Axis> axes_of_exchange(const Layout& from, const Layout& to, const MeshShape& mesh) {
  std::vector<Axis> axes;
  for (Axis axis = 0; axis < mesh.axis_count(); ++axis) {
    const int before = from.dimension_of(axis);
    const int after = to.dimension_of(axis);
    if (before < 0 && after < 0) continue;
    if (before != after || major_product(from.dimensions[before], axis, mesh) !=
                               major_product(to.dimensions[after], axis, mesh)) {
      axes.push_back(axis);
    }
  }
  return axes;
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

std::vector<RedistributionStep> plan_redistribution(const Layout& from, const Layout& to,
                                                    const Shape& shape, const MeshShape& mesh) {
  check_layout(from, shape, mesh);
  check_layout(to, shape, mesh);
  const Layout goal = to.canonical(mesh);
  Layout at = from.canonical(mesh);
  check_partial(at, goal, mesh);
  const Layout start = at;
  const std::vector<Substitution> substituted = substitutions(start, goal, mesh);

  std::vector<RedistributionStep> steps;
  const auto advance = [&](StepKind kind, std::vector<Axis> axes, Layout next) {
    std::sort(axes.begin(), axes.end());
    steps.push_back({kind, std::move(axes), at, next});
    at = std::move(next);
  };
  const auto slices = [&](Axis axis) {
    return start.replicates(axis) &&
           std::none_of(substituted.begin(), substituted.end(),
                        [&](const Substitution& pair) { return pair.entering == axis; });
  };

  // Slice by what is new, up to the first axis that has yet to be scattered: what the target has
  // more minor than that is sliced along with it, so that both end up in the target's order.
  Layout next = at;
  std::vector<Axis> axes;
  for (int dimension = 0; dimension < goal.dimension_count(); ++dimension) {
    for (const Axis axis : goal.dimensions[dimension]) {
      if (start.is_partial(axis)) break;
      if (!slices(axis)) continue;
      next.dimensions[dimension].push_back(axis);
      axes.push_back(axis);
    }
  }
  if (!axes.empty()) advance(StepKind::slice, axes, next);

  // Reduce. Scattering comes first: it leaves less to the other sum, whatever the sizes are.
  next = at;
  axes.clear();
  for (int dimension = 0; dimension < goal.dimension_count(); ++dimension) {
    for (const Axis axis : goal.dimensions[dimension]) {
      if (start.is_partial(axis)) {
        next.dimensions[dimension].push_back(axis);
        std::erase(next.partial, axis);
        axes.push_back(axis);
      } else if (slices(axis) && at.replicates(axis)) {
        next.dimensions[dimension].push_back(axis);
      }
    }
  }
  if (!axes.empty()) advance(StepKind::reduce_scatter, axes, next);
  next = at;
  axes.clear();
  for (const Axis axis : at.partial) {
    if (goal.is_partial(axis)) continue;
    std::erase(next.partial, axis);
    axes.push_back(axis);
  }
  if (!axes.empty()) advance(StepKind::all_reduce, axes, next);

  // One exchange brings every axis of the target to its place, with those that leave behind it.
  std::vector<Axis> leaving;
  next = at;
  next.dimensions = goal.dimensions;
  for (int dimension = 0; dimension < goal.dimension_count(); ++dimension) {
    for (const Axis axis : at.dimensions[dimension]) {
      if (goal.dimension_of(axis) >= 0 ||
          std::any_of(substituted.begin(), substituted.end(),
                      [&](const Substitution& pair) { return pair.leaving == axis; })) {
        continue;
      }
      next.dimensions[dimension].push_back(axis);
      leaving.push_back(axis);
    }
  }
  axes = axes_of_exchange(at, next, mesh);
  if (!axes.empty()) {
    advance(same_parts(at, next, mesh) ? StepKind::permute : StepKind::all_to_all, axes, next);
  }

  next.dimensions = goal.dimensions;
  if (!leaving.empty()) advance(StepKind::all_gather, leaving, next);

  axes.clear();
  for (const Axis axis : goal.partial) {
    if (!at.is_partial(axis)) axes.push_back(axis);
  }
  if (!axes.empty()) advance(StepKind::keep_owner, axes, goal);
  if (at != goal) internal_error("a redistribution that does not arrive");
  return steps;
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
  for (const auto& [leaving, entering] : substitutions(step.from, step.to, mesh)) {
    conditions.push_back({position(leaving), position(entering), mesh.coordinate(rank, leaving),
                          mesh.coordinate(rank, entering)});
  }
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
