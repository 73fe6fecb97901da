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
// `shared_transport` is for ranks of one node; `hierarchical_transport` puts the two together for
// ranks of several; `staged_transport` goes before any of them where buffers lie in memory of a
// device's own, and `nccl/nccl_transport` before that where every rank has a GPU. All of them pass
// the same tests. `make_transport` is the one place that knows which there are. A transport is used
// by one thread at a time. Between the start of an operation and its wait, ranks enter the same
// collectives in the same order, whether of a transport or of MPI.
//
// Buffers may lie in any memory of the host, and in that of the device that the transport was made
// for: those of an operation in the same on all ranks, but for all-to-alls and exchanges, whose
// buffers lie where each rank likes. In memory that the transport itself has given (`allocate`),
// ranks that share a node can work on each other's buffers where they are, with no copies between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/device_queues.h"
#include "collectives/element_type.h"
#include "collectives/enqueued.h"
#include "collectives/memory.h"

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
    /// Whether a wait would return at once, as far as is known. Does nothing for that.
    [[nodiscard]] virtual bool is_complete() const { return false; }
  };

  Pending() = default;  // nothing under way
  explicit Pending(std::shared_ptr<Request> request) : request_(std::move(request)) {}
  Pending(Pending&&) noexcept = default;
  Pending& operator=(Pending&& other) noexcept;
  ~Pending();

  /// Returns when the operation is complete on this rank. Does nothing if nothing is under way.
  void wait();
  [[nodiscard]] bool active() const { return request_ != nullptr; }
  /// Whether a wait would return at once: nothing is under way, or it is over and not waited for.
  [[nodiscard]] bool is_complete() const { return request_ == nullptr || request_->is_complete(); }

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

/// The ranks of a communicator that read and write each other's parts of what `allocate` gave: this
/// rank and `count` - 1 others. It is number `index` of them, in the order of their ranks.
struct Sharers {
  int index = 0;
  int count = 1;
  bool operator==(const Sharers&) const = default;
};

/// Where part `part` of `parts` of `count` elements begins, and the one before ends: parts are as
/// equal as their beginning at multiples of 64 bytes allows.
[[nodiscard]] std::int64_t part_begin(std::int64_t count, int part, int parts, ElementType type);

class Transport {
 public:
  virtual ~Transport() = default;

  /// As `make_transport` names them, whichever serves: never "auto".
  [[nodiscard]] virtual std::string_view name() const = 0;

  /// What people should know of how it was chosen: what a faster one lacks here. The same on all
  /// ranks; empty if there is nothing to say.
  [[nodiscard]] virtual std::string remark() const { return {}; }

  /// Makes what operations over `communicator` need. Every rank that the transport serves calls it
  /// at the same time, each with the communicator that it is part of: such siblings are treated
  /// alike, so that replicas of a value which each of them computes are alike. Operations over
  /// others work, but they may be slower, and an exchange, which some ranks may miss, is. A backend
  /// that needs nothing does nothing.
  virtual void prepare(const Communicator& communicator);

  /// Announces a sum over a prepared communicator: an all-reduce of counts[0] elements, or a
  /// reduce-scatter of blocks of `counts`. Every rank that the transport serves calls it at the same
  /// time. So a backend whose siblings would add this one in different orders learns of it before
  /// copies of a value part. Others do nothing.
  virtual void prepare_sum(const Communicator& communicator, std::span<const std::int64_t> counts);

  /// Makes what operations need whose buffers have up to `bytes` on this rank, sent and received
  /// together, and such on `started` bytes that are under way at once, lest the first of them do.
  /// A matter of this rank alone. A backend that needs nothing does nothing.
  virtual void reserve(std::int64_t bytes, std::span<const std::int64_t> started = {});

  /// `bytes` of memory, which may differ from rank to rank, for buffers of operations over
  /// `communicator` or over part of its ranks. Every rank calls it. May outlive the transport. A
  /// backend that has no use for special memory gives what no other rank sees.
  [[nodiscard]] virtual TransportMemory allocate(const Communicator& communicator,
                                                 std::int64_t bytes);

  /// Whether other ranks may read and write what `allocate` gives. The same on all ranks.
  [[nodiscard]] virtual bool shares_memory() const { return false; }
  /// With whom this rank shares memory over a prepared communicator. Not collective.
  [[nodiscard]] virtual Sharers sharers(const Communicator& communicator) const;
  /// Returns when all sharers have called it; what they wrote before, into memory that they share,
  /// is there. Every rank of the prepared communicator calls it.
  virtual void barrier_of_sharers(const Communicator& communicator);

  /// Brings started operations on, as far as it goes without waiting. Calls it or not, and when,
  /// each rank as it likes. Costs next to nothing where nothing is under way.
  virtual void advance() {}
  /// Whether started operations go on faster if `advance` is called between other work. If not, it
  /// need not be called.
  [[nodiscard]] virtual bool wants_advancing() const { return false; }

  /// For a run that goes on from one whose transport was `name`: where this one was chosen by timing
  /// and `name` was the other choice, that is taken, and it is true. Nothing may be under way. Every
  /// rank that the transport serves calls it. The same on all.
  [[nodiscard]] virtual bool take_up(std::string_view name) {
    (void)name;
    return false;
  }

  /// After an error, before memory is given back that operations may still use: waits some seconds
  /// for what was started. Whether it is over.
  [[nodiscard]] virtual bool settle() { return true; }
  /// Ends what was started and other ranks never join. What was captured has been given back, and
  /// no operation may follow.
  virtual void give_up() {}

  /// buffer[i] = reduction over the ranks of buffer[i], in place.
  virtual void all_reduce(const Communicator& communicator, ElementType type, Reduction reduction,
                          void* buffer, std::int64_t count) = 0;
  [[nodiscard]] virtual Pending start_all_reduce(const Communicator& communicator, ElementType type,
                                                 Reduction reduction, void* buffer,
                                                 std::int64_t count) = 0;

  /// The same, of which a rank wants its part alone: `part_begin` of `sharers`, so the whole where
  /// it shares memory with nobody. The rest holds anything. The buffer is not to be written, but
  /// for that part, before the next `barrier_of_sharers`.
  [[nodiscard]] virtual Pending start_reduce_in_parts(const Communicator& communicator,
                                                      ElementType type, Reduction reduction,
                                                      void* buffer, std::int64_t count);

  /// `send` holds counts[0] + counts[1] + ... elements, block r for rank r; `receive` gets the sum
  /// over the ranks of this rank's block. The buffers do not overlap.
  virtual void reduce_scatter(const Communicator& communicator, ElementType type, const void* send,
                              void* receive, std::span<const std::int64_t> counts) = 0;

  /// Rank r's `send` (counts[r] elements) lands at element offsets[r] of everybody's `receive`,
  /// where it may be already. If all are, `receive` may be one memory of sharers: then nothing is
  /// copied.
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

  /// Whether operations over a prepared communicator on memory of the device, reductions of `type`
  /// and those that only move, are enqueued: the processor does nothing but start them. Then they
  /// can be captured (device_queues.h), by all ranks of the communicator or by none, as they can be
  /// started again by all or by none. The same on all ranks.
  [[nodiscard]] virtual bool enqueues(const Communicator& communicator, ElementType type,
                                      Reduction reduction = Reduction::sum) const;
  /// Those that were enqueued, as long as the transport lives; null if it enqueues none.
  [[nodiscard]] virtual Enqueued* enqueued() { return nullptr; }
};

/// What `make_transport` takes, "auto" first.
[[nodiscard]] const std::vector<std::string>& transport_names();

/// Gives `bytes` of a device's memory.
using DeviceMemory = std::function<Memory(std::int64_t bytes)>;

/// The backend called `name`, for communicators of `ranks` or of part of them. "mpi" is MPI's own
/// collectives, for any ranks; "shared" is memory shared by the ranks of one node, and refuses
/// communicators that span several; "hierarchical" is shared memory inside nodes and MPI between
/// them. "auto" is MPI if memory cannot be shared on some node or no node has two ranks; else
/// shared memory on one node, hierarchical on several.
///
/// Buffers may lie in memory of `device`, which outlives the transport, and operations on them come
/// behind the kernels that it was given before, and before those that it is given after; null if
/// all memory is the host's. Those above stage them. "nccl" and "cuda_aware_mpi" are for memory of
/// GPUs alone, which they reach (device_transports.h); with a device "auto" is the first of these
/// that there is on all ranks, else staged. The choice of "cuda_aware_mpi" is by timing, on
/// `device_memory`; without that it is not considered.
///
/// Every rank of `ranks` calls it. Throws, on all ranks alike, for any other name and for one that
/// is not to be had, saying what there is.
[[nodiscard]] std::unique_ptr<Transport> make_transport(
    std::string_view name, const Communicator& ranks = Communicator::world(),
    DeviceQueues* device = nullptr, const DeviceMemory& device_memory = {});

}  // namespace meshwork
