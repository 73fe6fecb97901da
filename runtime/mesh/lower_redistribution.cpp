#include "runtime/mesh/lower_redistribution.h"

#include <algorithm>

#include "collectives/error.h"
#include "runtime/device/kernels/copies.h"
#include "runtime/device/kernels/elementwise.h"
#include "runtime/mesh/block_copy.h"

namespace meshwork {
namespace {

/// Parts of a block, by peer, as a collective takes or leaves them: at `offsets`, in elements.
struct Pieces {
  std::vector<Block> parts;
  std::vector<std::int64_t> counts, offsets;
  bool in_place = false;  // `offsets` are those in the block itself
};

Pieces pieces_of(const std::vector<Transfer>& transfers) {
  Pieces pieces;
  for (const Transfer& transfer : transfers) {
    pieces.parts.push_back(transfer.region);
    pieces.counts.push_back(size_of(transfer.region));
  }
  return pieces;
}

/// Lets the parts stand one behind the other.
void concatenate(Pieces& pieces) {
  pieces.offsets.clear();
  std::int64_t offset = 0;
  for (const std::int64_t count : pieces.counts) {
    pieces.offsets.push_back(offset);
    offset += count;
  }
}

/// Lets the parts stand where they are in `block`, if each is contiguous there.
void place(Pieces& pieces, const Block& block) {
  std::vector<std::int64_t> offsets;
  pieces.in_place = true;
  for (std::size_t i = 0; i < pieces.parts.size() && pieces.in_place; ++i) {
    const bool empty = pieces.counts[i] == 0;
    pieces.in_place = empty || contiguous(pieces.parts[i], block);
    offsets.push_back(empty ? 0 : offset_of(pieces.parts[i], block));
  }
  if (pieces.in_place) {
    pieces.offsets = std::move(offsets);
  } else {
    concatenate(pieces);
  }
}

/// The same with the offsets that concatenation gives, for operations that know no offsets.
void place_in_order(Pieces& pieces, const Block& block) {
  place(pieces, block);
  const std::vector<std::int64_t> placed = pieces.offsets;
  concatenate(pieces);
  for (std::size_t i = 0; i < pieces.counts.size(); ++i) {
    pieces.in_place = pieces.in_place && (pieces.counts[i] == 0 || pieces.offsets[i] == placed[i]);
  }
}

/// Books one redistribution: follows the value from place to place.
class RedistributionLowerer {
 public:
  RedistributionLowerer(ProgramBuilder& builder, MeshCollectives& collectives, const Shape& shape,
                        ElementType type, const CollectivePurpose& purpose)
      : builder_(builder),
        collectives_(collectives),
        mesh_(collectives.mesh()),
        shape_(shape),
        type_(type),
        purpose_(purpose) {}

  Operand lower(std::span<const RedistributionStep> steps, Operand source,
                std::optional<Operand> destination, bool source_is_free) {
    at_ = source;
    free_ = source_is_free;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      destination_ = i + 1 == steps.size() ? destination : std::nullopt;
      lower(steps[i]);
    }
    // A slice that only moves the place, or the owner of a partial sum, has written nothing.
    if (destination && !same(at_, *destination)) {
      copy({copied_region(after_, after_, 0, after_, 0)}, at_, *destination, "copied");
      at_ = *destination;
    }
    return at_;
  }

 private:
  void lower(const RedistributionStep& step) {
    before_ = block_of(step.from, shape_, mesh_, collectives_.rank());
    after_ = block_of(step.to, shape_, mesh_, collectives_.rank());
    switch (step.kind) {
      case StepKind::slice:
        return slice();
      case StepKind::reduce_scatter:
        return reduce_scatter(step);
      case StepKind::all_reduce:
        return all_reduce(step);
      case StepKind::permute:
      case StepKind::all_to_all:
        return exchange(step);
      case StepKind::all_gather:
        return all_gather(step);
      case StepKind::keep_owner:
        return keep_owner(step);
    }
  }

  void slice() {
    if (size_of(after_) == 0 || contiguous(after_, before_)) {
      const std::int64_t offset = size_of(after_) == 0 ? 0 : offset_of(after_, before_);
      at_ = Operand(at_.buffer, at_.offset + offset * element_bytes(type_));
      return;
    }
    const Operand target = result("sliced");
    copy({copied_region(after_, before_, 0, after_, 0)}, at_, target, "sliced");
    arrive(target);
  }

  void all_reduce(const RedistributionStep& step) {
    if (!free_ || destination_) {
      const Operand target = result("to reduce");
      copy({copied_region(before_, before_, 0, before_, 0)}, at_, target, "to reduce");
      arrive(target);
    }
    const AllReduce sum{type_, Reduction::sum, size_of(before_)};
    builder_.emit(collectives_.book(use(step), sum), {at_}, purpose_.what);
  }

  void reduce_scatter(const RedistributionStep& step) {
    Pieces send = pieces_of(transfers(step, shape_, mesh_, collectives_.rank()).sends);
    place_in_order(send, before_);
    const Operand source = packed(send);
    const Operand target = result("scattered");
    builder_.emit(collectives_.book(use(step), ReduceScatter{type_, send.counts}), {source, target},
                  purpose_.what);
    arrive(target);
  }

  void all_gather(const RedistributionStep& step) {
    Pieces receive = pieces_of(transfers(step, shape_, mesh_, collectives_.rank()).receives);
    place(receive, after_);
    const Operand target = receive.in_place ? result("gathered") : unpacked(receive);
    const AllGather gather{type_, receive.counts, receive.offsets};
    builder_.emit(collectives_.book(use(step), gather), {at_, target}, purpose_.what);
    unpack(receive, target);
  }

  void exchange(const RedistributionStep& step) {
    const TransferPlan plan = transfers(step, shape_, mesh_, collectives_.rank());
    Pieces send = pieces_of(plan.sends), receive = pieces_of(plan.receives);
    place(send, before_);
    place(receive, after_);
    const Operand source = packed(send);
    const Operand target = receive.in_place ? result("exchanged") : unpacked(receive);
    const AllToAll blocks{type_, send.counts, send.offsets, receive.counts, receive.offsets};
    builder_.emit(collectives_.book(use(step), blocks), {source, target}, purpose_.what);
    unpack(receive, target);
  }

  void keep_owner(const RedistributionStep& step) {
    if (mesh_.index_over(collectives_.rank(), step.axes) == 0) return;
    const Operand target = free_ && !destination_ ? at_ : result("zero");
    builder_.emit(ZeroSpec{.bytes = size_of(after_) * element_bytes(type_)}, {target},
                  purpose_.what + " zero");
    arrive(target);
  }

  /// Where a step puts its result: the destination if the step is the last one, else scratch.
  Operand result(const std::string& what) {
    return destination_ ? *destination_ : scratch(size_of(after_), what);
  }
  Operand scratch(std::int64_t elements, const std::string& what) {
    return builder_.scratch(elements * element_bytes(type_), purpose_.what + " " + what);
  }
  void arrive(Operand target) {
    at_ = target;
    free_ = true;
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

  /// Where the pieces stand one behind the other as the collective takes them.
  Operand packed(const Pieces& pieces) {
    if (pieces.in_place) return at_;
    std::vector<CopyRegion> regions;
    std::int64_t elements = 0;
    for (std::size_t i = 0; i < pieces.parts.size(); ++i) {
      const Block& part = pieces.parts[i];
      regions.push_back(copied_region(part, before_, 0, part, pieces.offsets[i]));
      elements += pieces.counts[i];
    }
    const Operand target = scratch(elements, "packed");
    copy(std::move(regions), at_, target, "packed");
    return target;
  }

  /// Memory for pieces as the collective leaves them.
  Operand unpacked(const Pieces& pieces) {
    std::int64_t elements = 0;
    for (const std::int64_t count : pieces.counts) elements += count;
    return scratch(elements, "received");
  }

  /// Brings the pieces that stand at `received` to their places.
  void unpack(const Pieces& pieces, Operand received) {
    if (pieces.in_place) return arrive(received);
    std::vector<CopyRegion> regions;
    for (std::size_t i = 0; i < pieces.parts.size(); ++i) {
      const Block& part = pieces.parts[i];
      regions.push_back(copied_region(part, part, pieces.offsets[i], after_, 0));
    }
    const Operand target = result("unpacked");
    copy(std::move(regions), received, target, "unpacked");
    arrive(target);
  }

  [[nodiscard]] CollectiveUse use(const RedistributionStep& step) const {
    return {purpose_, step.axes, element_count(shape_),
            step.kind == StepKind::permute ? "permute" : ""};
  }

  static bool same(const Operand& a, const Operand& b) {
    return a.buffer == b.buffer && a.offset == b.offset;
  }

  ProgramBuilder& builder_;
  MeshCollectives& collectives_;
  const MeshShape& mesh_;
  const Shape& shape_;
  ElementType type_;
  const CollectivePurpose& purpose_;
  Operand at_;                          // where the value stands
  bool free_ = false;                   // nobody else wants what stands there
  std::optional<Operand> destination_;  // of the step at hand
  Block before_, after_;                // this rank's, of the step at hand
};

}  // namespace

Operand lower_redistribution(ProgramBuilder& builder, MeshCollectives& collectives,
                             std::span<const RedistributionStep> steps, const Shape& shape,
                             ElementType type, Operand source, std::optional<Operand> destination,
                             const CollectivePurpose& purpose, bool source_is_free) {
  if (steps.empty() && destination)
    internal_error("a redistribution of no steps into a destination");
  return RedistributionLowerer(builder, collectives, shape, type, purpose)
      .lower(steps, source, destination, source_is_free);
}

}  // namespace meshwork
