#include "runtime/mesh/lower_windows.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/device/kernels/copies.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/mesh/block_copy.h"

namespace meshwork {
namespace {

/// One side of the exchange: a part for each peer, and where the transport takes or leaves it.
struct Side {
  std::vector<Block> regions;
  std::vector<NeighbourBlock> blocks;
  std::int64_t elements = 0;  // of a buffer in which they stand one behind the other
  bool in_place = false;      // they stand where they are in the rank's own block or box
};

/// The parts in `transfers`: in place if each is contiguous in `whole`, else one behind the other.
Side side_of(const std::vector<Transfer>& transfers, const Block& whole, bool may_be_in_place) {
  Side side;
  side.in_place = may_be_in_place &&
                  std::all_of(transfers.begin(), transfers.end(), [&](const Transfer& transfer) {
                    return contiguous(transfer.region, whole);
                  });
  for (const Transfer& transfer : transfers) {
    const std::int64_t count = size_of(transfer.region);
    side.regions.push_back(transfer.region);
    side.blocks.push_back(
        {.rank = static_cast<int>(transfer.peer),
         .count = count,
         .offset = side.in_place ? offset_of(transfer.region, whole) : side.elements});
    side.elements += count;
  }
  return side;
}

class WindowLowerer {
 public:
  WindowLowerer(ProgramBuilder& builder, MeshCollectives& collectives, const Windows& windows,
                ElementType type, const CollectivePurpose& purpose)
      : builder_(builder),
        collectives_(collectives),
        plan_(plan_windows(windows, collectives.mesh(), collectives.rank())),
        global_elements_(element_count(windows.shape)),
        type_(type),
        purpose_(purpose) {}

  Operand bring(Operand source) {
    const bool stays = plan_.box == plan_.block;
    const Operand target = stays ? source : scratch(size_of(plan_.box), "box");
    const Side receive = side_of(plan_.receives, plan_.box, true);
    const Operand received = receive.in_place ? target : scratch(receive.elements, "received");
    exchange(side_of(plan_.sends, plan_.block, true), plan_.block, source, receive, received);
    if (stays) return source;
    const Block own = intersection(plan_.block, plan_.box);
    copy({copied_region(own, plan_.block, 0, plan_.box, 0)}, source, target, "own part");
    if (!receive.in_place) {
      std::vector<CopyRegion> regions;
      for (std::size_t i = 0; i < receive.regions.size(); ++i) {
        regions.push_back(copied_region(receive.regions[i], receive.regions[i],
                                        receive.blocks[i].offset, plan_.box, 0));
      }
      copy(std::move(regions), received, target, "unpacked");
    }
    return target;
  }

  Operand give_back(Operand source, std::optional<Operand> destination) {
    const Side receive = side_of(plan_.sends, plan_.block, false);
    const Operand received =
        receive.regions.empty() ? source : scratch(receive.elements, "received");
    exchange(side_of(plan_.receives, plan_.box, true), plan_.box, source, receive, received);

    const Block own = intersection(plan_.box, plan_.block);
    if (receive.regions.empty() && own == plan_.block && !destination &&
        (size_of(own) == 0 || contiguous(own, plan_.box))) {
      const std::int64_t offset = size_of(own) == 0 ? 0 : offset_of(own, plan_.box);
      return {source.buffer, source.offset + offset * element_bytes(type_)};
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
  void add(const Block& own, const Side& receive, Operand source, Operand received,
           Operand target) {
    std::vector<Term> terms;  // by rank
    std::size_t before = 0;   // terms of lower ranks
    for (std::size_t i = 0; i < receive.regions.size(); ++i) {
      before += receive.blocks[i].rank < plan_.own ? 1 : 0;
      terms.push_back({receive.regions[i], receive.regions[i], receive.blocks[i].offset, false});
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
      builder_.emit(ZeroSpec{.bytes = size_of(plan_.block) * element_bytes(type_)}, {target},
                    purpose_.what + " zero");
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
  void exchange(const Side& send, const Block& held, Operand source, const Side& receive,
                Operand received) {
    if (plan_.axes.empty()) return;
    Operand from = source;
    if (!send.in_place) {
      std::vector<CopyRegion> regions;
      for (std::size_t i = 0; i < send.regions.size(); ++i) {
        regions.push_back(
            copied_region(send.regions[i], held, 0, send.regions[i], send.blocks[i].offset));
      }
      from = scratch(send.elements, "packed");
      copy(std::move(regions), source, from, "packed");
    }
    builder_.emit(collectives_.book({purpose_, plan_.axes, global_elements_, "halo"},
                                    Exchange{type_, send.blocks, receive.blocks}),
                  {from, received}, purpose_.what);
  }

  Operand scratch(std::int64_t elements, const std::string& what) {
    return builder_.scratch(elements * element_bytes(type_), purpose_.what + " " + what);
  }

  void copy(std::vector<CopyRegion> regions, Operand source, Operand target,
            const std::string& what) {
    std::erase_if(regions, [](const CopyRegion& region) {
      return std::count(region.extents.begin(), region.extents.end(), 0) > 0;
    });
    if (regions.empty()) return;
    builder_.emit(CopySpec{.type = type_, .regions = std::move(regions)}, {source, target},
                  purpose_.what + " " + what);
  }

  ProgramBuilder& builder_;
  MeshCollectives& collectives_;
  WindowPlan plan_;
  std::int64_t global_elements_;
  ElementType type_;
  const CollectivePurpose& purpose_;
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
