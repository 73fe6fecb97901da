// A collective operation as a value, and what a transport makes of it.
//
// A *collective* says what moves between the ranks of a communicator. Every rank makes an equal
// value, but for the blocks of an all-to-all or an exchange, which are each rank's own. Counts and
// offsets are in elements and 64 bits wide, one for each rank unless it is said otherwise; blocks may
// differ in size and may be empty.
//
// A transport *compiles* it for a communicator (`Transport::compile`): what has to be checked, looked
// up, cut into pieces or made is, once. The compiled one is then run on buffers any number of times,
// or started and waited for.
//
// What wraps a transport needs no kind by name: the functions below say of any collective what it
// sends and what its buffers hold. So a new kind is a value here, what these functions say of it
// (collective.cpp), and the way that MPI does it (mpi_transport.cpp), which all transports fall back
// on; a backend with a better way adds that.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/element_type.h"

namespace meshwork {

enum class Reduction : std::uint8_t { sum, maximum, minimum };

/// Where part `part` of `parts` of `count` elements begins, and the one before ends: parts are as
/// equal as their beginning at multiples of 64 bytes allows.
[[nodiscard]] std::int64_t part_begin(std::int64_t count, int part, int parts, ElementType type);

/// receive[i] = reduction over the ranks of receive[i], in place.
struct AllReduce {
  static constexpr std::string_view name = "all_reduce";
  ElementType type{};
  Reduction reduction = Reduction::sum;
  std::int64_t count = 0;
  /// A rank wants its part alone: `part_begin` of `Transport::sharers`, so the whole where it shares
  /// memory with nobody. The rest holds anything. The buffer is not to be written, but for that
  /// part, before the next `barrier_of_sharers`.
  bool in_parts = false;
};

/// `send` holds the blocks of `counts` one after the other; `receive` gets the sum over the ranks of
/// this rank's block. The buffers do not overlap.
struct ReduceScatter {
  static constexpr std::string_view name = "reduce_scatter";
  ElementType type{};
  std::vector<std::int64_t> counts;
};

/// Rank r's `send` (counts[r] elements) lands at element offsets[r] of everybody's `receive`, where
/// it may be already. If all are, `receive` may be one memory of sharers: then nothing is copied.
struct AllGather {
  static constexpr std::string_view name = "all_gather";
  ElementType type{};
  std::vector<std::int64_t> counts, offsets;
};

/// send_counts[r] elements at send_offsets[r] of `send` go to rank r; receive_counts[r] elements
/// from rank r land at receive_offsets[r] of `receive`.
struct AllToAll {
  static constexpr std::string_view name = "all_to_all";
  ElementType type{};
  std::vector<std::int64_t> send_counts, send_offsets, receive_counts, receive_offsets;
};

/// What goes to, or comes from, one rank.
struct NeighbourBlock {
  int rank = 0;  // in the communicator
  std::int64_t count = 0, offset = 0;
  bool operator==(const NeighbourBlock&) const = default;
};

/// The blocks of `sends` go out of `send`, those of `receives` land in `receive`. Only ranks that
/// are listed take part, each at most once in a list and never the calling rank; who lists a rank to
/// send to is listed there to receive from, with the same count. A rank with nothing to exchange may
/// stay away. Several may be under way: those of one channel are matched in the order in which they
/// are started, those of different channels apart.
struct Exchange {
  static constexpr std::string_view name = "exchange";
  ElementType type{};
  std::vector<NeighbourBlock> sends, receives;
  int channel = 0;
};

/// `receive` of rank `root` to everybody's.
struct Broadcast {
  static constexpr std::string_view name = "broadcast";
  ElementType type{};
  std::int64_t count = 0;
  int root = 0;
};

using Collective = std::variant<AllReduce, ReduceScatter, AllGather, AllToAll, Exchange, Broadcast>;

[[nodiscard]] std::string_view name_of(const Collective& collective);
[[nodiscard]] std::string_view name_of(Reduction reduction);
[[nodiscard]] ElementType type_of(const Collective& collective);
/// What it adds up or compares; null if it only moves.
[[nodiscard]] const Reduction* reduction_of(const Collective& collective);

/// What rank `rank` of `ranks` sends, as a bandwidth-optimal algorithm sends it: an all-reduce of s
/// elements 2 (n - 1) / n s, a reduce-scatter or all-gather of s elements in all blocks
/// (n - 1) / n s, each rounded up to whole elements; an all-to-all or an exchange what goes to
/// other ranks; a broadcast the whole, counted at its root.
[[nodiscard]] std::int64_t elements_sent(const Collective& collective, int rank, int ranks);

/// The elements from the beginning of its buffers that it may read or write on a rank. One in place
/// has no `send`. Of what it may write, it writes all, but for gaps that an all-gather or an
/// all-to-all has between blocks.
struct Extents {
  std::int64_t send = 0, receive = 0;
};
[[nodiscard]] Extents extents_of(const Collective& collective, int rank);
[[nodiscard]] bool is_in_place(const Collective& collective);

/// Throws `Error` unless it is one for this communicator: lists have an entry for each rank, those of
/// an exchange name other ranks, what a rank sends to itself is what it expects.
void check(const Collective& collective, const Communicator& communicator);

/// One that a transport has made, for the transport and the communicator, which outlive it.
class CompiledCollective {
 public:
  CompiledCollective() = default;
  virtual ~CompiledCollective() = default;
  CompiledCollective(const CompiledCollective&) = delete;
  CompiledCollective& operator=(const CompiledCollective&) = delete;

  /// Begins it on these buffers, which belong to it until it was waited for; `send` is not looked at
  /// where it is in place. One that was compiled to be done at once is over then. Throws if it
  /// fails; it is not under way then.
  virtual void start(const void* send, void* receive) = 0;
  /// Returns when it is complete on this rank.
  virtual void wait() {}
  /// Whether a wait would return at once, as far as is known. Does nothing for that.
  [[nodiscard]] virtual bool is_complete() const { return true; }

  /// Whether on memory of the device it is enqueued: the processor does nothing but start it. Then
  /// it can be captured (device_queues.h), by all ranks of the communicator or by none, as it can be
  /// started again by all or by none. The same on all ranks. Announcements may change it.
  [[nodiscard]] virtual bool is_enqueued() const { return false; }

  void run(const void* send, void* receive) {
    start(send, receive);
    wait();
  }
};

using Compiled = std::unique_ptr<CompiledCollective>;

/// One that is over when `run(send, receive)` returns.
template <class Run>
[[nodiscard]] Compiled done_by(Run run) {
  class Done final : public CompiledCollective {
   public:
    explicit Done(Run&& by) : run_(std::move(by)) {}
    void start(const void* send, void* receive) override { run_(send, receive); }

   private:
    Run run_;
  };
  return std::make_unique<Done>(std::move(run));
}

/// A collective under way. Destroying it before it was waited for ends the job with a message: its
/// buffers would be freed under it.
class Pending {
 public:
  Pending() = default;  // nothing under way
  /// Starts it.
  Pending(std::shared_ptr<CompiledCollective> collective, const void* send, void* receive);
  Pending(Pending&&) noexcept = default;
  Pending& operator=(Pending&& other) noexcept;
  ~Pending();

  /// Returns when the operation is complete on this rank. Does nothing if nothing is under way.
  void wait();
  [[nodiscard]] bool active() const { return collective_ != nullptr; }
  /// Whether a wait would return at once: nothing is under way, or it is over and not waited for.
  [[nodiscard]] bool is_complete() const {
    return collective_ == nullptr || collective_->is_complete();
  }

 private:
  std::shared_ptr<CompiledCollective> collective_;
};

}  // namespace meshwork
