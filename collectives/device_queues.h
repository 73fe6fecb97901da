// The queues of a device: what a transport, which knows nothing of kernels, has to know of it.
//
// A device works beside the processor. Work is started in one of its *queues* and done in the order
// of the queue; queues run beside each other. A *mark* is a point of a queue: the processor, or
// another queue, waits for the work in front of it. A device may have memory *of its own*, which
// the processor and so most transports cannot touch; copies bring it to the host's and back, at
// full speed and beside the processor where the host's side is *pinned*.
//
// A transport puts itself between kernels with these. One that
//   - stages (staged_transport.h) lets `transfers` wait for a mark behind the kernels that wrote
//     the buffer, copies to pinned memory, communicates there, copies back, and lets `kernels` wait
//     for a mark behind that;
//   - reads the device's memory itself (CUDA-aware MPI) waits for a mark behind the kernels, and
//     communicates;
//   - enqueues (NCCL) gives its operations to `native()` of a queue, and marks order the queues.
//
// A device may be able to *capture*: what is started in its queues is then kept instead of done, as
// one piece of work, which costs as much to start as one kernel does. It begins in the queue of
// kernels. Another queue is captured too from where it waits for a mark of a captured one, and the
// queue of kernels waits for it in the end. Marks that were recorded in it are for queues that are
// captured, and for nobody afterwards, until they are recorded anew; no other mark is waited for
// meanwhile. So operations that are enqueued can be captured with the kernels around them, and
// those that the host has a part in cannot.
//
// A device that works on the host's memory and is done when a call returns has queues too: copies
// are made at once, and every mark is reached.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "collectives/memory.h"

namespace meshwork {

/// A point of a queue, once it was recorded; of no queue before. Destroying or recording it anew
/// disturbs nobody who waits for the point that it was.
class Mark {
 public:
  virtual ~Mark() = default;
  /// Returns when what was in front of it is done; at once if it was never recorded. Throws `Error`
  /// if the device failed meanwhile.
  virtual void wait() = 0;
  /// Whether `wait` would return at once.
  [[nodiscard]] virtual bool reached() = 0;
  /// The time between two marks that are timed and were waited for.
  [[nodiscard]] virtual double seconds_since(const Mark& earlier) const = 0;
};

/// Work of one device that is done in order.
class Queue {
 public:
  virtual ~Queue() = default;
  /// Starts a copy, within the host's memory or the device's or between them; the ranges do not
  /// overlap. The destination is there, and the source free again, when a mark behind it is
  /// reached. From or to memory that is not pinned it may be done before the call returns. `bytes`
  /// may be 0.
  virtual void start_copy(void* destination, const void* source, std::int64_t bytes) = 0;
  /// Sets `mark`, which is of the same device, behind everything that was started here so far.
  virtual void record(Mark& mark) = 0;
  /// What is started here from now on begins when what is in front of `mark`, as it was last
  /// recorded, is done. The processor goes on.
  virtual void wait_for(Mark& mark) = 0;
  /// Adds one to `count`, in pinned memory, when what was started here so far is done; also each
  /// time that it is done again, captured. Counted in one queue alone. The host may read it
  /// meanwhile.
  virtual void start_count(std::uint64_t& count) = 0;
  /// The device's own handle, a `cudaStream_t`; null where there is none.
  [[nodiscard]] virtual void* native() { return nullptr; }
};

/// What was captured, on the addresses that it was captured on.
class CapturedWork {
 public:
  virtual ~CapturedWork() = default;
  /// Starts it in the queue of kernels. It may be started again before it is done.
  virtual void start() = 0;
};

class DeviceQueues {
 public:
  virtual ~DeviceQueues() = default;
  /// Whether `address` lies in memory of the device that the processor cannot touch.
  [[nodiscard]] virtual bool owns(const void* address) const = 0;
  /// Memory of the host, zeroed, that copies reach at full speed. Taking it is slow, and releasing
  /// it waits for what was started: not for a step.
  [[nodiscard]] virtual Memory allocate_pinned(std::int64_t bytes) = 0;
  /// A mark, which the device outlives. Timed ones cost more.
  [[nodiscard]] virtual std::unique_ptr<Mark> make_mark(bool timed = false) = 0;

  /// Where the device's kernels run.
  [[nodiscard]] virtual Queue& kernels() = 0;
  /// For what travels between ranks, beside the kernels.
  [[nodiscard]] virtual Queue& transfers() = 0;
  /// For batches on their way to the device, beside both.
  [[nodiscard]] virtual Queue& feeds() = 0;

  /// What `start` starts, captured. Nothing is done by the call itself, and what is started has
  /// been started before. Null, without calling `start`, on a device that gains nothing by it.
  [[nodiscard]] virtual std::unique_ptr<CapturedWork> capture(const std::function<void()>& start) {
    (void)start;
    return nullptr;
  }
  /// Whether that is under way.
  [[nodiscard]] virtual bool is_capturing() const { return false; }
};

}  // namespace meshwork
