#include "collectives/mpi_transport.h"

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "collectives/blocks.h"
#include "collectives/error.h"
#include "collectives/request_pool.h"

namespace meshwork {

namespace {

// Messages between pairs; nothing else sends any on the communicators of collectives.
constexpr int exchange_tag = 1;

MPI_Datatype native_type(ElementType type) {
  switch (type) {
    case ElementType::uint8:
      return MPI_UINT8_T;
    case ElementType::int32:
      return MPI_INT32_T;
    case ElementType::int64:
      return MPI_INT64_T;
    case ElementType::float32:
      return MPI_FLOAT;
    case ElementType::float64:
      return MPI_DOUBLE;
  }
  internal_error("an element type that MPI was not told of");
}

// MPI's own maximum and minimum of floating-point numbers lose a NaN or not as it stands left or
// right; here it is the maximum and the minimum.
template <class T, bool largest>
void take_extremes(const T* from, T* to, int count) {
  for (int i = 0; i < count; ++i) {
    const bool better = largest ? to[i] < from[i] : from[i] < to[i];
    if (better || from[i] != from[i]) to[i] = from[i];
  }
}

template <bool largest>
void extremes(void* from, void* to, int* count, MPI_Datatype* type) {
  if (*type == MPI_FLOAT) {
    take_extremes<float, largest>(static_cast<float*>(from), static_cast<float*>(to), *count);
  } else {
    take_extremes<double, largest>(static_cast<double*>(from), static_cast<double*>(to), *count);
  }
}

// Owns an operation of ours.
class OwnedOperation {
 public:
  explicit OwnedOperation(MPI_User_function* function) {
    check_mpi(MPI_Op_create(function, 1, &native_), "MPI_Op_create");
  }
  ~OwnedOperation() {
    int finalized = 0;
    if (MPI_Finalized(&finalized) == MPI_SUCCESS && finalized == 0 &&
        MPI_Op_free(&native_) != MPI_SUCCESS) {
      abort_job(1, "MPI_Op_free failed");
    }
  }
  OwnedOperation(const OwnedOperation&) = delete;
  OwnedOperation& operator=(const OwnedOperation&) = delete;
  [[nodiscard]] MPI_Op native() const { return native_; }

 private:
  MPI_Op native_ = MPI_OP_NULL;
};

class Operations {
 public:
  [[nodiscard]] MPI_Op of(Reduction reduction, ElementType type) const {
    const bool floating = type == ElementType::float32 || type == ElementType::float64;
    switch (reduction) {
      case Reduction::sum:
        return MPI_SUM;
      case Reduction::maximum:
        return floating ? maximum_.native() : MPI_MAX;
      case Reduction::minimum:
        return floating ? minimum_.native() : MPI_MIN;
    }
    internal_error("a reduction that MPI was not told of");
  }

 private:
  OwnedOperation maximum_{extremes<true>}, minimum_{extremes<false>};
};

/// Blocks may be empty and their memory null, which the C library does not allow.
void copy(void* to, const void* from, std::int64_t count, ElementType type) {
  if (count > 0 && to != from) {
    std::memmove(to, from, static_cast<std::size_t>(count * element_bytes(type)));
  }
}

/// Calls `action(begin, count)` for consecutive pieces of at most `largest` of `count` elements.
template <class Action>
void in_pieces(std::int64_t count, std::int64_t largest, const Action& action) {
  for (std::int64_t begin = 0; begin < count; begin += largest) {
    action(begin, static_cast<int>(std::min(largest, count - begin)));
  }
}

/// A started operation that goes on inside MPI calls only.
class MpiRequest final : public Pending::Request {
 public:
  ~MpiRequest() override {
    if (!requests.empty()) abort_job(1, "a started collective failed before it was under way");
  }
  void wait() override {
    const int result =
        MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    requests.clear();
    check_mpi(result, "MPI_Waitall for a started all-reduce");
  }
  [[nodiscard]] bool is_complete() const override {
    return std::all_of(requests.begin(), requests.end(), [](MPI_Request request) {
      int complete = 0;
      check_mpi(MPI_Request_get_status(request, &complete, MPI_STATUS_IGNORE),
                "MPI_Request_get_status");
      return complete != 0;
    });
  }

  std::vector<MPI_Request> requests;
};

/// One that goes on beside what the rank computes.
class BesideRequest final : public Pending::Request {
 public:
  explicit BesideRequest(MpiReductions& reductions) : reductions_(reductions) {}
  void wait() override { reductions_.wait(reduction); }
  [[nodiscard]] bool is_complete() const override { return reduction.is_over(); }

  MpiReduction reduction;

 private:
  MpiReductions& reductions_;
};

class MpiTransport final : public Transport {
 public:
  explicit MpiTransport(const MpiTransportOptions& options)
      : largest_bytes_(
            std::clamp<std::int64_t>(options.largest_bytes, 8, std::numeric_limits<int>::max())),
        nodes_(options.nodes),
        reductions_(settled(options.progress), nodes_ != nullptr && nodes_->has_spare_core()) {}

  [[nodiscard]] std::string_view name() const override { return "mpi"; }

  void prepare(const Communicator& communicator) override {
    if (nodes_ == nullptr || nodes_->ranks_each(communicator) == communicator.size() ||
        communicator.attachment(key_.get()) != nullptr) {
      return;
    }
    communicator.attach(key_, std::make_shared<Communicator>(communicator.duplicate()));
    reductions_.make_courier();
  }

  void reserve(std::int64_t /*bytes*/, std::span<const std::int64_t> started) override {
    beside_.reserve(started.size(), [this] { return make_beside(); });
    reductions_.reserve(started.size());
  }

  void advance() override { reductions_.advance(); }
  [[nodiscard]] bool wants_advancing() const override {
    return nodes_ != nullptr && reductions_.progress() == Progress::polls;
  }

  void all_reduce(const Communicator& communicator, ElementType type, Reduction reduction,
                  void* buffer, std::int64_t count) override {
    if (communicator.size() == 1) return;
    in_pieces(count, largest_count(type), [&](std::int64_t begin, int elements) {
      check_mpi(
          MPI_Allreduce(MPI_IN_PLACE, element_at(buffer, begin, type), elements, native_type(type),
                        operations_.of(reduction, type), communicator.native()),
          "MPI_Allreduce");
    });
  }

  [[nodiscard]] Pending start_all_reduce(const Communicator& communicator, ElementType type,
                                         Reduction reduction, void* buffer,
                                         std::int64_t count) override {
    if (const void* const duplicate = communicator.attachment(key_.get())) {
      const std::shared_ptr<BesideRequest> request =
          beside_.take([](const BesideRequest& known) { return known.reduction.is_over(); },
                       [this] { return make_beside(); });
      MpiReduction& started = request->reduction;
      started.communicator = static_cast<const Communicator*>(duplicate)->native();
      started.type = native_type(type);
      started.operation = operations_.of(reduction, type);
      started.buffer = static_cast<std::byte*>(buffer);
      started.count = count;
      started.width = element_bytes(type);
      started.largest = largest_count(type);
      reductions_.hand_over(started);
      return Pending(request);
    }
    const std::shared_ptr<MpiRequest> request =
        started_.take([](const MpiRequest& known) { return known.requests.empty(); },
                      [] { return std::make_shared<MpiRequest>(); });
    if (communicator.size() > 1) {
      in_pieces(count, largest_count(type), [&](std::int64_t begin, int elements) {
        MPI_Request started = MPI_REQUEST_NULL;
        check_mpi(MPI_Iallreduce(MPI_IN_PLACE, element_at(buffer, begin, type), elements,
                                 native_type(type), operations_.of(reduction, type),
                                 communicator.native(), &started),
                  "MPI_Iallreduce");
        request->requests.push_back(started);
      });
    }
    return Pending(request);
  }

  void reduce_scatter(const Communicator& communicator, ElementType type, const void* send,
                      void* receive, std::span<const std::int64_t> counts) override {
    check_blocks(communicator, {counts});
    const std::int64_t total = total_of(counts);
    if (total == 0) return;
    if (communicator.size() == 1) {
      copy(receive, send, total, type);
      return;
    }
    if (total <= largest_count(type)) {
      counts_.assign(counts.begin(), counts.end());
      check_mpi(MPI_Reduce_scatter(send, or_nowhere(receive), counts_.data(), native_type(type),
                                   MPI_SUM, communicator.native()),
                "MPI_Reduce_scatter");
      return;
    }
    std::int64_t offset = 0;
    for (int root = 0; root < communicator.size(); ++root) {
      const std::int64_t count = counts[static_cast<std::size_t>(root)];
      in_pieces(count, largest_count(type), [&](std::int64_t begin, int elements) {
        void* result = root == communicator.rank() ? element_at(receive, begin, type) : nullptr;
        check_mpi(MPI_Reduce(element_at(send, offset + begin, type), result, elements,
                             native_type(type), MPI_SUM, root, communicator.native()),
                  "MPI_Reduce for a part of a reduce-scatter");
      });
      offset += count;
    }
  }

  void all_gather(const Communicator& communicator, ElementType type, const void* send,
                  void* receive, std::span<const std::int64_t> counts,
                  std::span<const std::int64_t> offsets) override {
    check_blocks(communicator, {counts, offsets});
    const std::size_t own = static_cast<std::size_t>(communicator.rank());
    if (counts[own] > 0) copy(element_at(receive, offsets[own], type), send, counts[own], type);
    if (communicator.size() == 1) return;
    if (total_of(counts) == 0) return;
    if (extent_of(counts, offsets) <= largest_count(type)) {
      counts_.assign(counts.begin(), counts.end());
      offsets_.resize(offsets.size());
      for (std::size_t rank = 0; rank < offsets.size(); ++rank) {
        offsets_[rank] = counts[rank] > 0 ? static_cast<int>(offsets[rank]) : 0;
      }
      check_mpi(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, receive, counts_.data(),
                               offsets_.data(), native_type(type), communicator.native()),
                "MPI_Allgatherv");
      return;
    }
    for (int root = 0; root < communicator.size(); ++root) {
      const std::size_t block = static_cast<std::size_t>(root);
      if (counts[block] > 0) {
        broadcast(communicator, type, element_at(receive, offsets[block], type), counts[block],
                  root);
      }
    }
  }

  void all_to_all(const Communicator& communicator, ElementType type, const void* send,
                  std::span<const std::int64_t> send_counts,
                  std::span<const std::int64_t> send_offsets, void* receive,
                  std::span<const std::int64_t> receive_counts,
                  std::span<const std::int64_t> receive_offsets) override {
    check_blocks(communicator, {send_counts, send_offsets, receive_counts, receive_offsets});
    const int ranks = communicator.size();
    const std::size_t own = static_cast<std::size_t>(communicator.rank());
    if (send_counts[own] != receive_counts[own]) {
      internal_error(
          fmt::format("an all-to-all sends {} elements to its own rank, which expects {}",
                      send_counts[own], receive_counts[own]));
    }
    // Every receive is there before the first message is sent; each rank begins with its neighbour,
    // so that not all send to the same one.
    requests_.clear();
    for (int distance = 1; distance < ranks; ++distance) {
      const int peer = (communicator.rank() + ranks - distance) % ranks;
      const std::size_t block = static_cast<std::size_t>(peer);
      in_pieces(receive_counts[block], largest_count(type), [&](std::int64_t begin, int elements) {
        check_mpi(MPI_Irecv(element_at(receive, receive_offsets[block] + begin, type), elements,
                            native_type(type), peer, exchange_tag, communicator.native(),
                            &requests_.emplace_back(MPI_REQUEST_NULL)),
                  "MPI_Irecv for an all-to-all");
      });
    }
    for (int distance = 1; distance < ranks; ++distance) {
      const int peer = (communicator.rank() + distance) % ranks;
      const std::size_t block = static_cast<std::size_t>(peer);
      in_pieces(send_counts[block], largest_count(type), [&](std::int64_t begin, int elements) {
        check_mpi(MPI_Isend(element_at(send, send_offsets[block] + begin, type), elements,
                            native_type(type), peer, exchange_tag, communicator.native(),
                            &requests_.emplace_back(MPI_REQUEST_NULL)),
                  "MPI_Isend for an all-to-all");
      });
    }
    if (send_counts[own] > 0) {
      copy(element_at(receive, receive_offsets[own], type),
           element_at(send, send_offsets[own], type), send_counts[own], type);
    }
    wait_for_messages("MPI_Waitall for an all-to-all");
  }

  void exchange(const Communicator& communicator, ElementType type, const void* send,
                std::span<const NeighbourBlock> sends, void* receive,
                std::span<const NeighbourBlock> receives) override {
    check_neighbours(communicator, sends);
    check_neighbours(communicator, receives);
    requests_.clear();
    for (const NeighbourBlock& block : receives) {
      in_pieces(block.count, largest_count(type), [&](std::int64_t begin, int elements) {
        check_mpi(MPI_Irecv(element_at(receive, block.offset + begin, type), elements,
                            native_type(type), block.rank, exchange_tag, communicator.native(),
                            &requests_.emplace_back(MPI_REQUEST_NULL)),
                  "MPI_Irecv for an exchange");
      });
    }
    for (const NeighbourBlock& block : sends) {
      in_pieces(block.count, largest_count(type), [&](std::int64_t begin, int elements) {
        check_mpi(MPI_Isend(element_at(send, block.offset + begin, type), elements,
                            native_type(type), block.rank, exchange_tag, communicator.native(),
                            &requests_.emplace_back(MPI_REQUEST_NULL)),
                  "MPI_Isend for an exchange");
      });
    }
    wait_for_messages("MPI_Waitall for an exchange");
  }

  void broadcast(const Communicator& communicator, ElementType type, void* buffer,
                 std::int64_t count, int root) override {
    if (communicator.size() == 1) return;
    in_pieces(count, largest_count(type), [&](std::int64_t begin, int elements) {
      check_mpi(MPI_Bcast(element_at(buffer, begin, type), elements, native_type(type), root,
                          communicator.native()),
                "MPI_Bcast");
    });
  }

 private:
  [[nodiscard]] std::shared_ptr<BesideRequest> make_beside() {
    return std::make_shared<BesideRequest>(reductions_);
  }

  void wait_for_messages(const char* what) {
    check_mpi(
        MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE),
        what);
  }

  [[nodiscard]] std::int64_t largest_count(ElementType type) const {
    return largest_bytes_ / element_bytes(type);
  }

  /// MPI may take a null pointer for a missing argument even where nothing is received.
  [[nodiscard]] void* or_nowhere(void* memory) {
    return memory != nullptr ? memory : static_cast<void*>(&nowhere_);
  }

  Operations operations_;
  std::int64_t largest_bytes_;
  std::shared_ptr<const Nodes> nodes_;
  MpiReductions reductions_;
  std::shared_ptr<const int> key_ = std::make_shared<const int>(0);  // whose attachments are ours
  double nowhere_ = 0;
  // Arguments of the call in progress, kept so that a call allocates only the first time.
  std::vector<int> counts_;
  std::vector<int> offsets_;
  std::vector<MPI_Request> requests_;
  RequestPool<MpiRequest> started_;
  RequestPool<BesideRequest> beside_;
};

}  // namespace

std::unique_ptr<Transport> make_mpi_transport(const MpiTransportOptions& options) {
  return std::make_unique<MpiTransport>(options);
}

}  // namespace meshwork
