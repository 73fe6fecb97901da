#include "runtime/mesh/lower_windows.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/mesh/block_copy.h"

namespace meshwork {
namespace {

/// What a transport is told of pieces to or from these ranks.
std::vector<NeighbourBlock> blocks_of(const std::vector<Transfer>& transfers,
                                      const Pieces& pieces) {
  std::vector<NeighbourBlock> blocks;
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    blocks.push_back({static_cast<int>(transfers[i].peer), pieces.counts[i], pieces.offsets[i]});
  }
  return blocks;
}

class WindowLowerer : PieceBooking {
 public:
  WindowLowerer(ProgramBuilder& builder, MeshCollectives& collectives, const Windows& windows,
                ElementType type, const CollectivePurpose& purpose)
      : PieceBooking(builder, type, purpose),
        collectives_(collectives),
        plan_(plan_windows(windows, collectives.mesh(), collectives.rank())),
        global_elements_(element_count(windows.shape)) {}

  Operand bring(Operand source) {
    const bool stays = plan_.box == plan_.block;
    const Operand target = stays ? source : scratch(size_of(plan_.box), "box");
    const Pieces receive(plan_.receives, plan_.box);
    const Operand received = receive.in_place ? target : scratch(receive.elements(), "received");
    exchange(plan_.sends, plan_.block, source, plan_.receives, receive, received);
    if (stays) return source;
    const Block own = intersection(plan_.block, plan_.box);
    copy({copied_region(own, plan_.block, 0, plan_.box, 0)}, source, target, "own part");
    if (!receive.in_place) unpack(receive, received, plan_.box, target);
    return target;
  }

  Operand give_back(Operand source, std::optional<Operand> destination) {
    const Pieces receive(plan_.sends);
    const Operand received =
        receive.parts.empty() ? source : scratch(receive.elements(), "received");
    exchange(plan_.receives, plan_.box, source, plan_.sends, receive, received);

    const Block own = intersection(plan_.box, plan_.block);
    if (receive.parts.empty() && own == plan_.block && !destination &&
        (is_empty(own) || contiguous(own, plan_.box))) {
      return within(own, plan_.box, source);
    }
    const Operand target = destination ? *destination : scratch(size_of(plan_.block), "returned");
    add(own, receive, source, received, target);
    return target;
  }

 private:
  /// What one rank says of a part of the block.
  struct Term {
    Block part;
    Block stored;  // what it is stored as, from element `base` on
    std::int64_t base;
    bool own;
  };

  /// Writes every element of the block once, as the first rank says it that says something, and
  /// adds what the others say. The block is cut into cells that each term covers whole or not at
  /// all.
  void add(const Block& own, const Pieces& receive, Operand source, Operand received,
           Operand target) {
    std::vector<Term> terms;  // by rank
    std::size_t before = 0;   // terms of lower ranks
    for (std::size_t i = 0; i < receive.parts.size(); ++i) {
      before += plan_.sends[i].peer < plan_.own ? 1 : 0;
      terms.push_back({receive.parts[i], receive.parts[i], receive.offsets[i], false});
    }
    if (size_of(own) > 0) {
      terms.insert(terms.begin() + static_cast<std::ptrdiff_t>(before), {own, plan_.box, 0, true});
    }

    std::vector<std::vector<CopyRegion>> regions(terms.size());
    bool covered = true;
    for_each_cell(terms, [&](const Block& cell) {
      bool written = false;
      for (std::size_t t = 0; t < terms.size(); ++t) {
        if (intersection(cell, terms[t].part) != cell) continue;
        CopyRegion region = copied_region(cell, terms[t].stored, terms[t].base, plan_.block, 0);
        region.add = written;
        regions[t].push_back(std::move(region));
        written = true;
      }
      covered = covered && written;
    });
    if (!covered) {
      zero(plan_.block, target);
    }
    for (std::size_t t = 0; t < terms.size();) {
      const bool of_own = terms[t].own;
      std::vector<CopyRegion> joined;
      for (; t < terms.size() && terms[t].own == of_own; ++t) {
        joined.insert(joined.end(), regions[t].begin(), regions[t].end());
      }
      copy(std::move(joined), of_own ? source : received, target, of_own ? "own part" : "added");
    }
  }

  template <class Visit>
  void for_each_cell(const std::vector<Term>& terms, const Visit& visit) {
    if (size_of(plan_.block) == 0) return;
    const std::size_t dimension_count = plan_.block.size();
    std::vector<std::vector<std::int64_t>> cuts(dimension_count);
    for (std::size_t d = 0; d < dimension_count; ++d) {
      cuts[d] = {plan_.block[d].begin, plan_.block[d].end};
      for (const Term& term : terms) {
        cuts[d].push_back(term.part[d].begin);
        cuts[d].push_back(term.part[d].end);
      }
      std::sort(cuts[d].begin(), cuts[d].end());
      cuts[d].erase(std::unique(cuts[d].begin(), cuts[d].end()), cuts[d].end());
    }
    std::vector<std::size_t> at(dimension_count, 0);
    for (;;) {
      Block cell;
      for (std::size_t d = 0; d < dimension_count; ++d) {
        cell.push_back({cuts[d][at[d]], cuts[d][at[d] + 1]});
      }
      visit(cell);
      std::size_t d = dimension_count;
      while (d > 0 && ++at[d - 1] + 1 == cuts[d - 1].size()) at[--d] = 0;
      if (d == 0) return;
    }
  }

  /// The collective, if the ranks exchange anything: also on a rank that has no part in it, since
  /// all make the same communicators and are held to the same list.
  void exchange(const std::vector<Transfer>& sends, const Block& held, Operand source,
                const std::vector<Transfer>& receives, const Pieces& receive, Operand received) {
    if (plan_.axes.empty()) return;
    const Pieces send(sends, held);
    const Operand from = packed(send, held, source);
    builder_.emit(
        collectives_.book({purpose_, plan_.axes, global_elements_, "halo"},
                          Exchange{type_, blocks_of(sends, send), blocks_of(receives, receive)}),
        {from, received}, purpose_.what);
  }

  MeshCollectives& collectives_;
  WindowPlan plan_;
  std::int64_t global_elements_;
};

}  // namespace

Operand lower_windows(ProgramBuilder& builder, MeshCollectives& collectives, const Windows& windows,
                      ElementType type, Operand source, const CollectivePurpose& purpose) {
  return WindowLowerer(builder, collectives, windows, type, purpose).bring(source);
}

Operand lower_windows_back(ProgramBuilder& builder, MeshCollectives& collectives,
                           const Windows& windows, ElementType type, Operand source,
                           std::optional<Operand> destination, const CollectivePurpose& purpose) {
  return WindowLowerer(builder, collectives, windows, type, purpose).give_back(source, destination);
}

}  // namespace meshwork
