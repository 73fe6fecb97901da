// Redistribution: how a tensor comes from one layout to another, as a pure plan.
//
// A plan is a function of two layouts, the global shape and the mesh; it needs no MPI, and the same
// function tells the planner what a step costs, `meshwork plan` what will happen, and the executor
// what to pack. It is a sequence of at most a few steps, each from a layout to the next, in this
// order, so that no intermediate block is larger than the larger end:
//
// - slice: each rank keeps part of what it has; nothing is sent.
// - reduce_scatter: partial over some axes -> split by them at the minor ends of dimensions. An
//   axis that the target has more minor than one of them is sliced in the same step.
// - all_reduce: partial over some axes -> replicated over them.
// - permute: every rank sends its whole block to one rank and gets one; axes of a dimension change
//   order, or an axis takes the place of another of its size.
// - all_to_all: axes move between dimensions; a rank sends each peer what the two blocks share.
// - all_gather: axes at the minor ends of their dimensions leave; the only step that grows a block.
// - keep_owner: replicated -> partial; the first rank along the axes keeps the value, the others
//   take zero.
//
// There is at most one step of each kind, and only one of permute and all_to_all. All axes of a
// step are one collective, on one communicator over `axes`. The common major prefix of a dimension
// stays where it is. Axes of size 1 never cause a step.
//
// What an exchange (permute, all_to_all) sends follows from the blocks alone: rank r needs block
// B_to(r), peer p holds B_from(p), and p sends their intersection. Only an axis y that takes the
// place of an axis x lets several ranks hold the same block before; of those, the sender is the one
// whose coordinate on y is the receiver's on x, so that every rank has as much to send as it holds.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/mesh/layout.h"

namespace meshwork {

enum class StepKind : std::uint8_t {
  slice,
  reduce_scatter,
  all_reduce,
  permute,
  all_to_all,
  all_gather,
  keep_owner
};
[[nodiscard]] std::string_view name_of(StepKind kind);
/// Whether ranks talk in a step of this kind: all but slice and keep_owner.
[[nodiscard]] bool communicates(StepKind kind);

struct RedistributionStep {
  StepKind kind = StepKind::slice;
  std::vector<Axis> axes;  // the axes whose ranks take part, ascending: one communicator
  Layout from;
  Layout to;
  bool operator==(const RedistributionStep&) const = default;
};

/// The steps from `from` to `to`; none if the canonical layouts are equal. Layouts in the steps are
/// canonical, and only the last may be partial over an axis that `from` is not. Throws `Error` for
/// what has no meaning: a split becoming a partial sum, a partial sum becoming one over another
/// axis.
[[nodiscard]] std::vector<RedistributionStep> plan_redistribution(const Layout& from,
                                                                  const Layout& to,
                                                                  const Shape& shape,
                                                                  const MeshShape& mesh);

/// Plans one redistribution after another on a mesh, in memory that it keeps: a planner asks for a
/// hundred thousand of them.
class RedistributionPlanner {
 public:
  /// `mesh` must outlive it.
  explicit RedistributionPlanner(const MeshShape& mesh);

  /// The steps of plan_redistribution, for canonical layouts that it accepts. They stay until the next
  /// call.
  [[nodiscard]] std::span<const RedistributionStep> plan(const Layout& from, const Layout& to);

 private:
  // Where a layout has an axis: a dimension and the product of the sizes of the axes that are more
  // major there. Axes that split nothing are `partial`, or `nowhere`.
  static constexpr int nowhere = -1, partial = -2;
  struct Position {
    int dimension = nowhere;
    std::int64_t major_product = 1;
    bool operator==(const Position&) const = default;
  };
  using Positions = std::vector<Position>;  // by axis

  void locate(const Layout& layout, Positions& positions) const;
  void advance(StepKind kind);

  const MeshShape& mesh_;
  std::array<RedistributionStep, 6> steps_;
  std::size_t count_ = 0;
  const Layout* at_ = nullptr;  // where the steps so far lead
  Layout next_;                 // where the next one leads
  std::vector<Axis> axes_;      // whose ranks talk in it
  std::vector<Axis> leaving_;
  Positions before_, after_, now_, then_;
  std::vector<bool> substituted_, sliced_;  // by axis
};

/// A bound of the elements that any rank sends in `step`, for a tensor of global `shape`, as a
/// bandwidth-optimal algorithm over the n ranks of `axes` sends them: all_reduce 2(n-1)/n of its
/// block, reduce_scatter (n-1)/n of what the n ranks keep of its block, all_gather (n-1)/n of the
/// gathered block; permute, all_to_all: what goes to other ranks. From sizes alone: equal on all
/// ranks, and cheap for any number of ranks. Blocks are counted by the largest there is; for
/// lengths that divide evenly it is what the rank that sends most sends (but for the rounding).
/// What the planner's costs are made of.
[[nodiscard]] double elements_sent_bound(const RedistributionStep& step, const Shape& shape,
                                         const MeshShape& mesh);

/// A part of a tensor on its way in a step: `region` in global indices, to or from the rank that is
/// number `peer` in the step's communicator (row-major over `axes`).
struct Transfer {
  std::int64_t peer = 0;
  Block region;
};

/// What `rank` sends and receives in an exchanging step (permute, all_to_all, all_gather,
/// reduce_scatter), by ascending peer, itself included, one entry a peer; regions may be empty.
/// For all_gather `sends` has the rank's own block once for every peer; for reduce_scatter
/// `receives` has the rank's own new block once for every peer. Time and memory are linear in the
/// number of peers, whatever the number of ranks.
struct TransferPlan {
  std::vector<Transfer> sends;
  std::vector<Transfer> receives;
};
[[nodiscard]] TransferPlan transfers(const RedistributionStep& step, const Shape& shape,
                                     const MeshShape& mesh, std::int64_t rank);

}  // namespace meshwork
