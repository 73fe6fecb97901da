// How bytes travel: the collective operations, over one interface with several backends.
//
// An operation is a value (collective.h) that a transport compiles for a communicator, every rank of
// which does so and starts it, with its own buffers. What is done once can be asked for in one call.
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

#include "collectives/collective.h"
#include "collectives/communicator.h"
#include "collectives/device_queues.h"
#include "collectives/element_type.h"
#include "collectives/enqueued.h"
#include "collectives/memory.h"

namespace meshwork {

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

/// How a compiled collective is used: run, done when `start` returns; or started, so that it goes on
/// beside other work until it is waited for.
enum class Use : std::uint8_t { at_once, started };

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

  /// What does `collective` over `communicator`. Every rank of the communicator calls it, but for
  /// those that stay away from an exchange. Throws `Error` unless the value is one for it.
  [[nodiscard]] Compiled compile(const Communicator& communicator, const Collective& collective,
                                 Use use = Use::at_once);

  /// Announces a collective over a prepared communicator. Every rank that the transport serves calls
  /// it at the same time. So a backend whose siblings would add this sum in different orders learns
  /// of it before copies of a value part. Others do nothing.
  virtual void announce(const Communicator& communicator, const Collective& collective);

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

  /// Those that were enqueued, as long as the transport lives; null if it enqueues none.
  [[nodiscard]] virtual Enqueued* enqueued() { return nullptr; }

  // What is done once: compiled, and run or started. One in place has one buffer.

  void run(const Communicator& communicator, const Collective& collective, const void* send,
           void* receive) {
    compile(communicator, collective)->run(send, receive);
  }
  void run(const Communicator& communicator, const Collective& collective, void* buffer) {
    run(communicator, collective, nullptr, buffer);
  }
  [[nodiscard]] Pending start(const Communicator& communicator, const Collective& collective,
                              void* buffer) {
    return {compile(communicator, collective, Use::started), nullptr, buffer};
  }

 protected:
  /// What a backend implements, for a value that was checked.
  [[nodiscard]] virtual Compiled make(const Communicator& communicator,
                                      const Collective& collective, Use use) = 0;
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
