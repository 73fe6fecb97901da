// How bytes travel: the collective operations, over one interface with several backends.
//
// An operation works on plain memory over a communicator, and every rank of the communicator calls
// it with the same arguments but for its own buffers. Counts and offsets are in elements and 64
// bits wide; blocks may differ in size from rank to rank and may be empty. Operations come
// blocking, or started and then waited for: a `Pending` owns the request, and the buffers belong to
// the operation until it has been waited for.
//
// The result of a reduction is the same bit for bit on all ranks that receive it, and for equal
// inputs it is the same from call to call.
//
// Backends are files of this folder: `mpi_transport`, with MPI's own collectives, is there always.
// All of them pass the same tests. `make_transport` is the one place that knows which there are. A
// transport is used by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "collectives/communicator.h"
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

class Transport {
 public:
  virtual ~Transport() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;

  /// buffer[i] = reduction over the ranks of buffer[i], in place.
  virtual void all_reduce(const Communicator& communicator, ElementType type, Reduction reduction,
                          void* buffer, std::int64_t count) = 0;
  [[nodiscard]] virtual Pending start_all_reduce(const Communicator& communicator, ElementType type,
                                                 Reduction reduction, void* buffer,
                                                 std::int64_t count) = 0;

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

  /// `buffer` of rank `root` to everybody's.
  virtual void broadcast(const Communicator& communicator, ElementType type, void* buffer,
                         std::int64_t count, int root) = 0;
};

/// The backend called `name`: "mpi", or "auto" for the best there is. Throws, naming those there
/// are.
[[nodiscard]] std::unique_ptr<Transport> make_transport(std::string_view name);

}  // namespace meshwork
