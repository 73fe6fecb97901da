#include "runtime/mesh/lower_redistribution.h"

#include "collectives/error.h"
#include "runtime/mesh/block_copy.h"

namespace meshwork {
namespace {

/// In place only where the pieces stand one behind the other there, for operations that know no
/// offsets.
Pieces in_order(const std::vector<Transfer>& transfers, const Block& block) {
  Pieces ordered(transfers);
  const Pieces placed(transfers, block);
  ordered.in_place = placed.in_place;
  for (std::size_t i = 0; i < ordered.counts.size(); ++i) {
    ordered.in_place &= ordered.counts[i] == 0 || ordered.offsets[i] == placed.offsets[i];
  }
  return ordered;
}

/// Books one redistribution: follows the value from place to place.
class RedistributionLowerer : PieceBooking {
 public:
  RedistributionLowerer(ProgramBuilder& builder, MeshCollectives& collectives, const Shape& shape,
                        ElementType type, const CollectivePurpose& purpose)
      : PieceBooking(builder, type, purpose),
        collectives_(collectives),
        mesh_(collectives.mesh()),
        shape_(shape) {}

  Operand lower(std::span<const RedistributionStep> steps, Operand source,
                std::optional<Operand> destination, bool source_is_free) {
    at_ = source;
    free_ = source_is_free;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      destination_ = i + 1 == steps.size() ? destination : std::nullopt;
      lower(steps[i]);
    }
    // A slice that only moves the place, or the owner of a partial sum, has written nothing.
    if (destination && at_ != *destination) {
      copy({copied_region(after_, after_, 0, after_, 0)}, at_, *destination, "copied");
      at_ = *destination;
    }
    return at_;
  }

  void start(const RedistributionStep& step, Operand source, std::optional<Operand> destination) {
    destination_ = destination;
    look_at(step);
    received_.emplace(transfers(step, shape_, mesh_, collectives_.rank()).receives, after_);
    landed_ = landing(*received_, "gathered");
    auto [start, wait] = collectives_.book_started(
        use(step), AllGather{type_, received_->counts, received_->offsets});
    builder_.emit(std::move(start), {source, landed_}, "start " + purpose_.what);
    wait_ = std::move(wait);
  }
  Operand end() {
    builder_.emit(std::move(wait_), {landed_, landed_}, "wait for " + purpose_.what);
    arrive_in_pieces(*received_, landed_);
    return at_;
  }

 private:
  void look_at(const RedistributionStep& step) {
    before_ = block_of(step.from, shape_, mesh_, collectives_.rank());
    after_ = block_of(step.to, shape_, mesh_, collectives_.rank());
  }

  void lower(const RedistributionStep& step) {
    look_at(step);
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
    if (is_empty(after_) || contiguous(after_, before_)) {
      at_ = within(after_, before_, at_);
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
    const Pieces send =
        in_order(transfers(step, shape_, mesh_, collectives_.rank()).sends, before_);
    const Operand source = packed(send, before_, at_);
    const Operand target = result("scattered");
    builder_.emit(collectives_.book(use(step), ReduceScatter{type_, send.counts}), {source, target},
                  purpose_.what);
    arrive(target);
  }

  void all_gather(const RedistributionStep& step) {
    const Pieces receive(transfers(step, shape_, mesh_, collectives_.rank()).receives, after_);
    const Operand target = landing(receive, "gathered");
    const AllGather gather{type_, receive.counts, receive.offsets};
    builder_.emit(collectives_.book(use(step), gather), {at_, target}, purpose_.what);
    arrive_in_pieces(receive, target);
  }

  void exchange(const RedistributionStep& step) {
    const TransferPlan plan = transfers(step, shape_, mesh_, collectives_.rank());
    const Pieces send(plan.sends, before_), receive(plan.receives, after_);
    const Operand source = packed(send, before_, at_);
    const Operand target = landing(receive, "exchanged");
    const AllToAll blocks{type_, send.counts, send.offsets, receive.counts, receive.offsets};
    builder_.emit(collectives_.book(use(step), blocks), {source, target}, purpose_.what);
    arrive_in_pieces(receive, target);
  }

  void keep_owner(const RedistributionStep& step) {
    if (mesh_.index_over(collectives_.rank(), step.axes) == 0) return;
    const Operand target = free_ && !destination_ ? at_ : result("zero");
    zero(after_, target);
    arrive(target);
  }

  /// Where a step puts its result: the destination if the step is the last one, else scratch.
  Operand result(const std::string& what) {
    return destination_ ? *destination_ : scratch(size_of(after_), what);
  }
  void arrive(Operand target) {
    at_ = target;
    free_ = true;
  }

  /// Where a collective leaves pieces: in their places, if they are to stand there as it leaves
  /// them.
  Operand landing(const Pieces& pieces, const std::string& what) {
    return pieces.in_place ? result(what) : scratch(pieces.elements(), "received");
  }
  void arrive_in_pieces(const Pieces& pieces, Operand received) {
    if (pieces.in_place) return arrive(received);
    const Operand target = result("unpacked");
    unpack(pieces, received, after_, target);
    arrive(target);
  }

  [[nodiscard]] CollectiveUse use(const RedistributionStep& step) const {
    return {purpose_, step.axes, element_count(shape_),
            step.kind == StepKind::permute ? "permute" : ""};
  }

  MeshCollectives& collectives_;
  const MeshShape& mesh_;
  Shape shape_;
  Operand at_;                          // where the value stands
  bool free_ = false;                   // nobody else wants what stands there
  std::optional<Operand> destination_;  // of the step at hand
  Block before_, after_;                // this rank's, of the step at hand
  // Of an all-gather that was started.
  std::optional<Pieces> received_;
  Operand landed_;
  std::unique_ptr<Kernel> wait_;
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

std::function<Operand()> start_all_gather(ProgramBuilder& builder, MeshCollectives& collectives,
                                          const RedistributionStep& step, const Shape& shape,
                                          ElementType type, Operand source,
                                          std::optional<Operand> destination,
                                          const CollectivePurpose& purpose) {
  const auto started =
      std::make_shared<RedistributionLowerer>(builder, collectives, shape, type, purpose);
  started->start(step, source, destination);
  return [started] { return started->end(); };
}

}  // namespace meshwork
