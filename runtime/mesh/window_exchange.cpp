#include "runtime/mesh/window_exchange.h"

#include <algorithm>
#include <utility>

#include "runtime/shape/block_parts.h"

namespace meshwork {
namespace {

/// A dimension cut into blocks. Those that are not empty are numbered anew: one for each element
/// where there are more blocks than elements, else all of them.
struct Parts {
  std::int64_t length = 0;
  std::int64_t count = 1;

  [[nodiscard]] Range block(std::int64_t index) const { return block_range(length, count, index); }

  [[nodiscard]] std::int64_t filled_count() const { return std::min(length, count); }
  /// The index of filled block `number`.
  [[nodiscard]] std::int64_t filled(std::int64_t number) const {
    return length >= count ? number : index_of(number);
  }
  /// The number of the filled block that holds `element`.
  [[nodiscard]] std::int64_t number_of(std::int64_t element) const {
    return length >= count ? index_of(element) : element;
  }

 private:
  /// The block that holds `element`: the last i with i * length / count < element + 1.
  [[nodiscard]] std::int64_t index_of(std::int64_t element) const {
    __extension__ using Wide = __int128;
    return static_cast<std::int64_t>((static_cast<Wide>(element + 1) * count - 1) / length);
  }
};

/// What blocks want of one dimension.
class Dimension {
 public:
  Dimension(const Windows& windows, const DimensionWindows& at, const MeshShape& mesh)
      : window_(at.window),
        axes_(windows.layout.dimensions[at.dimension]),
        input_{windows.shape[at.dimension], mesh.size_over(axes_)},
        output_{at.output_length, input_.count} {}

  [[nodiscard]] const std::vector<Axis>& axes() const { return axes_; }
  [[nodiscard]] std::int64_t count() const { return input_.count; }
  [[nodiscard]] Range block(std::int64_t index) const { return input_.block(index); }

  [[nodiscard]] Range box(std::int64_t index) const {
    const Range block = input_.block(index);
    const Range output = output_.block(index);
    if (output.length() == 0) return {block.begin, block.begin};
    const Range window = window_(output);
    if (window.length() == 0) return {block.begin, block.begin};
    return block.begin <= window.begin && window.end <= block.end ? block : window;
  }

  /// Whether some box leaves its block.
  [[nodiscard]] bool exchanges() const {
    if (count() == 1) return false;
    for (std::int64_t number = 0; number < output_.filled_count(); ++number) {
      const std::int64_t index = output_.filled(number);
      if (leaves(box(index), block(index))) return true;
    }
    return false;
  }

  [[nodiscard]] bool boxes_are_blocks() const {
    for (std::int64_t index = 0; index < count(); ++index) {
      if (box(index) != block(index)) return false;
    }
    return true;
  }

  struct Share {
    std::int64_t index;
    Range range;
  };

  /// Blocks whose boxes hold something of block `index`, with what they hold of it, ascending.
  [[nodiscard]] std::vector<Share> wanting(std::int64_t index) const {
    const Range own = block(index);
    std::vector<Share> shares;
    if (own.length() == 0) return shares;
    // The first block of the output whose window ends behind the beginning of what is owned.
    std::int64_t first = 0;
    std::int64_t behind = output_.filled_count();
    while (first < behind) {
      const std::int64_t middle = first + (behind - first) / 2;
      if (window_(output_.block(output_.filled(middle))).end <= own.begin) {
        first = middle + 1;
      } else {
        behind = middle;
      }
    }
    for (; first < output_.filled_count(); ++first) {
      const std::int64_t wanting = output_.filled(first);
      if (window_(output_.block(wanting)).begin >= own.end) break;
      const Range range = intersection(box(wanting), own);
      if (range.length() > 0) shares.push_back({wanting, range});
    }
    return shares;
  }

  /// Blocks that hold something of the box of block `index`, with what they hold of it, ascending.
  [[nodiscard]] std::vector<Share> giving(std::int64_t index) const {
    const Range wanted = box(index);
    std::vector<Share> shares;
    if (wanted.length() == 0) return shares;
    const std::int64_t last = input_.number_of(wanted.end - 1);
    for (std::int64_t number = input_.number_of(wanted.begin); number <= last; ++number) {
      const std::int64_t giving = input_.filled(number);
      shares.push_back({giving, intersection(block(giving), wanted)});
    }
    return shares;
  }

  [[nodiscard]] bool same_boxes(const Dimension& other) const {
    for (std::int64_t index = 0; index < count(); ++index) {
      if (box(index) != other.box(index)) return false;
    }
    return true;
  }

 private:
  static bool leaves(const Range& box, const Range& block) {
    return box.length() > 0 && (box.begin < block.begin || box.end > block.end);
  }

  const std::function<Range(Range)>& window_;
  std::vector<Axis> axes_;
  Parts input_, output_;
};

std::vector<Dimension> dimensions_of(const Windows& windows, const MeshShape& mesh) {
  std::vector<Dimension> dimensions;
  for (const DimensionWindows& at : windows.dimensions) {
    dimensions.emplace_back(windows, at, mesh);
  }
  return dimensions;
}

/// Calls action(peer, region) for every rank but `rank` that shares a part with it, where `shares`
/// gives those of one dimension: wanting, with `whole` the rank's block, or giving, with its box.
/// Peers come in the order of the dimensions, which need not be that of the ranks.
template <class Shares, class Action>
void for_each_peer(const Windows& windows, const std::vector<Dimension>& dimensions,
                   const MeshShape& mesh, std::int64_t rank, const Block& whole,
                   const Shares& shares_of, const Action& action) {
  for (std::size_t d = 0; d < whole.size(); ++d) {
    const bool windowed = std::any_of(
        windows.dimensions.begin(), windows.dimensions.end(),
        [&](const DimensionWindows& at) { return at.dimension == static_cast<int>(d); });
    if (!windowed && whole[d].length() == 0) return;
  }
  std::vector<std::vector<Dimension::Share>> shares;
  for (const Dimension& dimension : dimensions) {
    shares.push_back(shares_of(dimension, mesh.index_over(rank, dimension.axes())));
    if (shares.back().empty()) return;
  }
  std::vector<std::size_t> at(dimensions.size(), 0);
  for (;;) {
    std::int64_t peer = rank;
    Block region = whole;
    for (std::size_t i = 0; i < dimensions.size(); ++i) {
      const Dimension::Share& share = shares[i][at[i]];
      peer = mesh.neighbour(peer, dimensions[i].axes(), share.index);
      region[windows.dimensions[i].dimension] = share.range;
    }
    if (peer != rank) action(peer, std::move(region));
    std::size_t i = dimensions.size();
    while (i > 0 && ++at[i - 1] == shares[i - 1].size()) at[--i] = 0;
    if (i == 0) return;
  }
}

Block box_of(const Windows& windows, const std::vector<Dimension>& dimensions,
             const MeshShape& mesh, std::int64_t rank) {
  Block box = block_of(windows.layout, windows.shape, mesh, rank);
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    box[windows.dimensions[i].dimension] =
        dimensions[i].box(mesh.index_over(rank, dimensions[i].axes()));
  }
  return box;
}

const auto wanting = [](const Dimension& dimension, std::int64_t index) {
  return dimension.wanting(index);
};
const auto giving = [](const Dimension& dimension, std::int64_t index) {
  return dimension.giving(index);
};

}  // namespace

Block box_of(const Windows& windows, const MeshShape& mesh, std::int64_t rank) {
  return box_of(windows, dimensions_of(windows, mesh), mesh, rank);
}

std::vector<Axis> exchange_axes(const Windows& windows, const MeshShape& mesh) {
  std::vector<Axis> axes;
  for (const Dimension& dimension : dimensions_of(windows, mesh)) {
    if (dimension.exchanges()) {
      axes.insert(axes.end(), dimension.axes().begin(), dimension.axes().end());
    }
  }
  std::sort(axes.begin(), axes.end());
  return axes;
}

bool boxes_are_blocks(const Windows& windows, const MeshShape& mesh) {
  const std::vector<Dimension> dimensions = dimensions_of(windows, mesh);
  return std::all_of(dimensions.begin(), dimensions.end(),
                     [](const Dimension& dimension) { return dimension.boxes_are_blocks(); });
}

bool same_boxes(const Windows& a, const Windows& b, const MeshShape& mesh) {
  if (a.shape != b.shape || a.layout != b.layout || a.dimensions.size() != b.dimensions.size()) {
    return false;
  }
  const std::vector<Dimension> first = dimensions_of(a, mesh), second = dimensions_of(b, mesh);
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (a.dimensions[i].dimension != b.dimensions[i].dimension || !first[i].same_boxes(second[i])) {
      return false;
    }
  }
  return true;
}

bool holds_boxes(const Layout& layout, const Windows& windows) {
  return std::all_of(
      windows.dimensions.begin(), windows.dimensions.end(), [&](const DimensionWindows& at) {
        const std::vector<Axis>& axes = windows.layout.dimensions[at.dimension];
        return axes.empty() || (layout.dimensions[at.dimension].empty() &&
                                std::all_of(axes.begin(), axes.end(),
                                            [&](Axis axis) { return layout.replicates(axis); }));
      });
}

Layout layout_around_boxes(const Windows& windows) {
  Layout layout = windows.layout;
  for (const DimensionWindows& at : windows.dimensions) layout.dimensions[at.dimension].clear();
  return layout;
}

WindowPlan plan_windows(const Windows& windows, const MeshShape& mesh, std::int64_t rank) {
  const std::vector<Dimension> dimensions = dimensions_of(windows, mesh);
  WindowPlan plan;
  plan.axes = exchange_axes(windows, mesh);
  plan.own = mesh.index_over(rank, plan.axes);
  plan.block = block_of(windows.layout, windows.shape, mesh, rank);
  plan.box = box_of(windows, dimensions, mesh, rank);
  const auto collect = [&](const Block& whole, const auto& shares_of,
                           std::vector<Transfer>& transfers) {
    for_each_peer(windows, dimensions, mesh, rank, whole, shares_of,
                  [&](std::int64_t peer, Block region) {
                    transfers.push_back({mesh.index_over(peer, plan.axes), std::move(region)});
                  });
    std::sort(transfers.begin(), transfers.end(),
              [](const Transfer& a, const Transfer& b) { return a.peer < b.peer; });
  };
  collect(plan.block, wanting, plan.sends);
  collect(plan.box, giving, plan.receives);
  return plan;
}

WindowTraffic window_traffic(const Windows& windows, const MeshShape& mesh, std::int64_t rank) {
  const std::vector<Dimension> dimensions = dimensions_of(windows, mesh);
  WindowTraffic traffic;
  for_each_peer(windows, dimensions, mesh, rank,
                block_of(windows.layout, windows.shape, mesh, rank), wanting,
                [&](std::int64_t, const Block& region) {
                  traffic.messages_sent += 1;
                  traffic.elements_sent += size_of(region);
                });
  for_each_peer(windows, dimensions, mesh, rank, box_of(windows, dimensions, mesh, rank), giving,
                [&](std::int64_t, const Block& region) {
                  traffic.messages_received += 1;
                  traffic.elements_received += size_of(region);
                });
  return traffic;
}

}  // namespace meshwork
