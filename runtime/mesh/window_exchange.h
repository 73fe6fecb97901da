// Windows: what ranks bring each other when each wants a box of a tensor that reaches beyond its
// own block, as a pure plan.
//
// The operation that wants it slides a window: its output lies split over the same axes as the
// tensor, each dimension by its own length, and a block of the output needs, of each dimension, a
// range of the tensor (a convolution's rows: its own and a *halo* of the neighbours'). Words:
//
// - a rank's *block* is what it owns of the tensor by the layout;
// - its *window* in a dimension is the range that its block of the output needs;
// - its *box* is what it gets: in each dimension its block where that contains the window (nothing
//   moves then, and the operation leaves out what it does not need), else exactly the window. A
//   rank whose block of the output is empty gets an empty box.
//
// A box may reach over several blocks, in several dimensions at once (then over corners too), and
// need not contain anything of the rank's own block. What is sent follows from blocks and boxes
// alone: p sends r what r's box and p's block have in common. All dimensions are one exchange, over
// the axes that split those dimensions in which some box leaves its block: the ranks along other
// axes hold other blocks or replicas and take no part. If there is no such dimension, there is no
// exchange on any rank.
//
// The reverse adds: gradients over the boxes go back to the owners, and each element of a block
// becomes the sum of what the boxes that hold it say, in the order of the ranks, its own among
// them; 0 where no box does.
//
// Peers are searched for, not scanned: windows never go back from one block of the output to the
// next, so that the cost is that of the few peers a rank has, whatever the number of ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/mesh/layout.h"
#include "runtime/mesh/redistribution.h"

namespace meshwork {

/// The windows over one dimension of a tensor.
struct DimensionWindows {
  int dimension = 0;
  /// The length of the output's dimension, which is divided over the same axes.
  std::int64_t output_length = 0;
  /// The range of the tensor's dimension that a range of the output's needs, asked for ranges that
  /// are not empty and answered within the tensor's length (which may be an empty range). Neither
  /// end goes back where neither end of the output's range does.
  std::function<Range(Range)> window;
};

/// What every rank owns and wants of a tensor. The layout's partial axes do not matter: the
/// exchange of a partial sum is that of its terms.
struct Windows {
  Shape shape;  // global
  Layout layout;
  std::vector<DimensionWindows> dimensions;  // each at most once; elsewhere box and block are one
};

/// The box of `rank`.
[[nodiscard]] Block box_of(const Windows& windows, const MeshShape& mesh, std::int64_t rank);

/// The axes over which blocks are exchanged, ascending; none if every rank's box lies in its block.
/// The same on all ranks.
[[nodiscard]] std::vector<Axis> exchange_axes(const Windows& windows, const MeshShape& mesh);

/// Whether every rank's box is its block, so that nothing is brought or cut anywhere.
[[nodiscard]] bool boxes_are_blocks(const Windows& windows, const MeshShape& mesh);

/// Whether every rank's box is the same in both, so that what was brought for one serves the other.
[[nodiscard]] bool same_boxes(const Windows& a, const Windows& b, const MeshShape& mesh);

/// Whether the blocks of `layout` hold every box, since it splits no dimension with windows that
/// the windows' own layout splits, and splits nothing else by those axes either: then each rank
/// cuts its box out of what it has.
[[nodiscard]] bool holds_boxes(const Layout& layout, const Windows& windows);
/// The windows' layout with every dimension that has windows whole: the least that holds them.
[[nodiscard]] Layout layout_around_boxes(const Windows& windows);

/// What one rank does. Peers are numbers in the communicator over `axes` (row-major), ascending,
/// never the rank itself; regions are in global indices and not empty.
struct WindowPlan {
  std::vector<Axis> axes;  // exchange_axes
  std::int64_t own = 0;    // this rank's number in the communicator
  Block block, box;
  std::vector<Transfer> sends;     // parts of `block`, to ranks whose boxes hold them
  std::vector<Transfer> receives;  // parts of `box`, from their owners
};
[[nodiscard]] WindowPlan plan_windows(const Windows& windows, const MeshShape& mesh,
                                      std::int64_t rank);

/// What `rank` exchanges: messages and elements out and in. The reverse has out and in exchanged.
struct WindowTraffic {
  std::int64_t messages_sent = 0, elements_sent = 0;
  std::int64_t messages_received = 0, elements_received = 0;
  bool operator==(const WindowTraffic&) const = default;
};
[[nodiscard]] WindowTraffic window_traffic(const Windows& windows, const MeshShape& mesh,
                                           std::int64_t rank);

}  // namespace meshwork
