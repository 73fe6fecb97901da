// How bytes travel: the collective operations, over one interface with several backends.
//
// An operation works on plain memory over a communicator, and every rank of the communicator calls
// it with the same arguments but for its own buffers. Counts and offsets are in elements and 64
// bits wide; blocks may differ in size from rank to rank and may be empty. Operations come
// blocking, or started and then waited for: a `Pending` owns the request, and buffers and
// communicator belong to the operation until it has been waited for.
//
// The result of a reduction is the same bit for bit on all ranks that receive it, and for equal
// inputs it is the same from call to call.
//
// Backends are files of this folder: `mpi_transport`, with MPI's own collectives, is there always;
// `shared_transport` is for ranks of one node; `staged_transport` goes before either where buffers
// lie in memory of a device's own. All of them pass the same tests. `make_transport` is the one
// place that knows which there are. A transport is used by one thread at a time. Between the start
// of an operation and its wait, ranks enter the same collectives in the same order, whether of a
// transport or of MPI.
//
// Buffers may lie in any memory of the host, and in that of the device that the transport was made
// for. In memory that the transport itself has given (`allocate`), ranks that share a node can work
// on each other's buffers where they are, with no copies between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/device_queues.h"
#include "collectives/element_type.h"

namespace meshwork {

enum class Reduction : std::uint8_t { sum, maximum, minimum };

/// A started operation. Destroying one that has not been waited for ends the job with a message:
/// its buffers would be freed under it.
class Pending {
 public:
  /// What a backend implements.
  class Request {
   public:
    virtual ~Request() = default;
    virtual void wait() = 0;
  };

  Pending() = default;  // nothing under way
  explicit Pending(std::shared_ptr<Request> request) : request_(std::move(request)) {}
  Pending(Pending&&) noexcept = default;
  Pending& operator=(Pending&& other) noexcept;
  ~Pending();

  /// Returns when the operation is complete on this rank. Does nothing if nothing is under way.
  void wait();
  [[nodiscard]] bool active() const { return request_ != nullptr; }

 private:
  std::shared_ptr<Request> request_;  // shared with the backend, which may use it again
};

/// What goes to, or comes from, one rank in an exchange between few.
struct NeighbourBlock {
  int rank = 0;  // in the communicator
  std::int64_t count = 0, offset = 0;
  bool operator==(const NeighbourBlock&) const = default;
};

/// Memory of this rank that a transport has given, zeroed and aligned to 4 KiB.
class TransportMemory {
 public:
  /// What a backend implements: its destructor gives the memory back.
  class Owner {
   public:
    virtual ~Owner() = default;
  };

  TransportMemory() = default;  // none
  /// `parts` are those of all ranks as this process sees them, `rank` its own.
  TransportMemory(std::unique_ptr<Owner> owner, std::vector<std::span<std::byte>> parts, int rank)
      : owner_(std::move(owner)), parts_(std::move(parts)), rank_(rank) {}

  [[nodiscard]] std::byte* data() const { return of(rank_).data(); }
  [[nodiscard]] std::int64_t bytes() const { return std::ssize(of(rank_)); }
  /// What rank `rank` of the communicator was given, where this process can read and write it;
  /// empty where it cannot. Who uses the memory of others has to agree with them when.
  [[nodiscard]] std::span<std::byte> of(int rank) const {
    const std::size_t part = static_cast<std::size_t>(rank);
    return part < parts_.size() ? parts_[part] : std::span<std::byte>();
  }

 private:
  std::unique_ptr<Owner> owner_;
  std::vector<std::span<std::byte>> parts_;
  int rank_ = 0;
};

/// Where part `part` of `parts` of `count` elements begins, and the one before ends: parts are as
/// equal as their beginning at multiples of 64 bytes allows.
[[nodiscard]] std::int64_t part_begin(std::int64_t count, int part, int parts, ElementType type);

class Transport {
 public:
  virtual ~Transport() = default;

  /// "mpi" or "shared", whichever serves.
  [[nodiscard]] virtual std::string_view name() const = 0;

  /// Makes what operations over `communicator` need, lest the first of them do. Every rank calls
  /// it. An exchange, which some ranks may miss, is fast only over a prepared communicator. A
  /// backend that needs nothing does nothing.
  virtual void prepare(const Communicator& communicator);

  /// Makes what operations need whose buffers have up to `bytes` on this rank, sent and received
  /// together, and such on `started` bytes that are under way at once, lest the first of them do.
  /// A matter of this rank alone. A backend that needs nothing does nothing.
  virtual void reserve(std::int64_t bytes, std::span<const std::int64_t> started = {});

  /// `bytes` of memory, which may differ from rank to rank, for buffers of operations over
  /// `communicator` or over part of its ranks. Every rank calls it. May outlive the transport. A
  /// backend that has no use for special memory gives what no other rank sees.
  [[nodiscard]] virtual TransportMemory allocate(const Communicator& communicator,
                                                 std::int64_t bytes);

  /// Whether the ranks that it serves read and write each other's parts of what `allocate` gave.
  /// The same on all of them.
  [[nodiscard]] virtual bool shares_memory() const { return false; }
  /// Returns when all ranks have called it; what they wrote before, into memory that they share, is
  /// there.
  virtual void barrier(const Communicator& communicator) = 0;

  /// buffer[i] = reduction over the ranks of buffer[i], in place.
  virtual void all_reduce(const Communicator& communicator, ElementType type, Reduction reduction,
                          void* buffer, std::int64_t count) = 0;
  [[nodiscard]] virtual Pending start_all_reduce(const Communicator& communicator, ElementType type,
                                                 Reduction reduction, void* buffer,
                                                 std::int64_t count) = 0;

  /// The same, of which a rank wants its part alone (`part_begin`, by rank): the others hold
  /// anything. The buffer is not to be written, but for that part, before the next barrier over the
  /// communicator. Where memory is shared, half of the work is saved.
  [[nodiscard]] virtual Pending start_reduce_in_parts(const Communicator& communicator,
                                                      ElementType type, Reduction reduction,
                                                      void* buffer, std::int64_t count);

  /// `send` holds counts[0] + counts[1] + ... elements, block r for rank r; `receive` gets the sum
  /// over the ranks of this rank's block. The buffers do not overlap.
  virtual void reduce_scatter(const Communicator& communicator, ElementType type, const void* send,
                              void* receive, std::span<const std::int64_t> counts) = 0;

  /// Rank r's `send` (counts[r] elements) lands at element offsets[r] of everybody's `receive`.
  /// `send` may be this rank's place in `receive`, as it may be on any subset of the ranks.
  virtual void all_gather(const Communicator& communicator, ElementType type, const void* send,
                          void* receive, std::span<const std::int64_t> counts,
                          std::span<const std::int64_t> offsets) = 0;

  /// send_counts[r] elements at send_offsets[r] of `send` go to rank r; receive_counts[r] elements
  /// from rank r land at receive_offsets[r] of `receive`.
  virtual void all_to_all(const Communicator& communicator, ElementType type, const void* send,
                          std::span<const std::int64_t> send_counts,
                          std::span<const std::int64_t> send_offsets, void* receive,
                          std::span<const std::int64_t> receive_counts,
                          std::span<const std::int64_t> receive_offsets) = 0;

  /// sends[i].count elements at sends[i].offset of `send` go to rank sends[i].rank, and likewise
  /// what comes lands in `receive`. Only ranks that are listed take part, each at most once in a
  /// list and never the calling rank; who lists a rank to send to is listed there to receive from,
  /// with the same count. A rank with nothing to exchange may stay away.
  virtual void exchange(const Communicator& communicator, ElementType type, const void* send,
                        std::span<const NeighbourBlock> sends, void* receive,
                        std::span<const NeighbourBlock> receives) = 0;

  /// `buffer` of rank `root` to everybody's.
  virtual void broadcast(const Communicator& communicator, ElementType type, void* buffer,
                         std::int64_t count, int root) = 0;
};

/// The backend called `name`, for communicators of `ranks` or of part of them. "mpi" is MPI's own
/// collectives, for any ranks; "shared" is memory shared by the ranks of one node, and refuses
/// communicators that span several; "auto" is shared memory if all of `ranks` are on one node and
/// can share memory, else MPI. Buffers may lie in memory of `device`, which outlives the transport,
/// and operations on them come behind the kernels that it was given before, and before those that
/// it is given after; null if all memory is the host's. Every rank of `ranks` calls it. Throws,
/// naming those there are, for any other name.
[[nodiscard]] std::unique_ptr<Transport> make_transport(
    std::string_view name, const Communicator& ranks = Communicator::world(),
    DeviceQueues* device = nullptr);

}  // namespace meshwork
