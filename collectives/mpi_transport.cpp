#include "collectives/mpi_transport.h"

#include <mpi.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "collectives/blocks.h"
#include "collectives/error.h"
#include "collectives/hosted.h"
#include "collectives/with_type.h"

namespace meshwork {

namespace {

// Messages between pairs. Tag 0 is left to transports of extensions.
// The tag of messages on `channel`.
int tag_of(int channel) {
  constexpr int first = 1;
  void* largest = nullptr;
  int known = 0;
  check_mpi(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &largest, &known), "MPI_Comm_get_attr");
  if (known != 0 && channel > *static_cast<int*>(largest) - first) {
    fail("messages between ranks need {} tags, this MPI has {}", first + channel + 1,
         *static_cast<int*>(largest));
  }
  return first + channel;
}

MPI_Datatype native_type(ElementType type) {
  const std::pair<MPI_Datatype, MPI_Datatype> integers[] = {{MPI_UINT8_T, MPI_INT8_T},
                                                            {MPI_UINT16_T, MPI_INT16_T},
                                                            {MPI_UINT32_T, MPI_INT32_T},
                                                            {MPI_UINT64_T, MPI_INT64_T}};
  return with_type(type, [&](auto number) {
    if (!is_integer(type)) return sizeof number == 4 ? MPI_FLOAT : MPI_DOUBLE;
    const auto& [without_sign, with_sign] = integers[std::countr_zero(sizeof number)];
    return std::is_signed_v<decltype(number)> ? with_sign : without_sign;
  });
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
      abort_or_break("MPI_Op_free failed");
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
    switch (reduction) {
      case Reduction::sum:
        return MPI_SUM;
      case Reduction::maximum:
        return is_integer(type) ? MPI_MAX : maximum_.native();
      case Reduction::minimum:
        return is_integer(type) ? MPI_MIN : minimum_.native();
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

bool is_complete_request(MPI_Request request) {
  int complete = 0;
  check_mpi(MPI_Request_get_status(request, &complete, MPI_STATUS_IGNORE),
            "MPI_Request_get_status");
  return complete != 0;
}

/// A started all-reduce that goes on inside MPI calls only.
class StartedInMpi final : public CompiledCollective {
 public:
  StartedInMpi(MPI_Comm communicator, MPI_Datatype type, MPI_Op operation, const AllReduce& what,
               std::int64_t largest)
      : communicator_(communicator),
        type_(type),
        operation_(operation),
        what_(what),
        largest_(largest) {
    requests_.reserve(static_cast<std::size_t>((what.count + largest - 1) / largest));
  }
  ~StartedInMpi() override {
    if (!requests_.empty() && Hosted::current() == nullptr) {
      abort_job(1, "a started collective failed before it was under way");
    }
  }
  void start(const void* /*send*/, void* buffer) override {
    in_pieces(what_.count, largest_, [&](std::int64_t begin, int elements) {
      MPI_Request started = MPI_REQUEST_NULL;
      check_mpi(MPI_Iallreduce(MPI_IN_PLACE, element_at(buffer, begin, what_.type), elements, type_,
                               operation_, communicator_, &started),
                "MPI_Iallreduce");
      requests_.push_back(started);
    });
  }
  void wait() override {
    await(requests_, "MPI_Waitall for a started all-reduce");
    requests_.clear();
  }
  [[nodiscard]] bool is_complete() const override {
    return std::all_of(requests_.begin(), requests_.end(), is_complete_request);
  }

 private:
  MPI_Comm communicator_;
  MPI_Datatype type_;
  MPI_Op operation_;
  AllReduce what_;
  std::int64_t largest_;  // elements of one call
  std::vector<MPI_Request> requests_;
};

/// One that goes on beside what the rank computes.
class StartedBeside final : public CompiledCollective {
 public:
  StartedBeside(MpiReductions& reductions, MPI_Comm communicator, MPI_Datatype type,
                MPI_Op operation, const AllReduce& what, std::int64_t largest)
      : reductions_(reductions) {
    reduction_.communicator = communicator;
    reduction_.type = type;
    reduction_.operation = operation;
    reduction_.count = what.count;
    reduction_.width = element_bytes(what.type);
    reduction_.largest = largest;
  }
  void start(const void* /*send*/, void* buffer) override {
    reduction_.buffer = static_cast<std::byte*>(buffer);
    reductions_.hand_over(reduction_);
  }
  void wait() override { reductions_.wait(reduction_); }
  [[nodiscard]] bool is_complete() const override { return reduction_.is_over(); }

 private:
  MpiReductions& reductions_;
  MpiReduction reduction_;
};

class MpiTransport final : public Transport {
 public:
  explicit MpiTransport(const MpiTransportOptions& options)
      : largest_bytes_(
            std::clamp<std::int64_t>(options.largest_bytes, 8, std::numeric_limits<int>::max())),
        nodes_(options.nodes),
        reductions_(settled(options.progress), nodes_ != nullptr && nodes_->has_spare_core()) {}

  [[nodiscard]] std::string_view name() const override { return "mpi"; }
  void give_up() override { reductions_.stop(); }

  void prepare(const Communicator& communicator) override {
    if (nodes_ == nullptr || nodes_->ranks_each(communicator) == communicator.size() ||
        communicator.attachment(key_.get()) != nullptr) {
      return;
    }
    communicator.attach(key_, std::make_shared<Communicator>(communicator.duplicate()));
    reductions_.make_courier();
  }

  void reserve(std::int64_t /*bytes*/, std::span<const std::int64_t> started) override {
    reductions_.reserve(started.size());
  }

  void advance() override {
    reductions_.advance();
    // A look at one that is not complete brings on all.
    for (const BroughtOn* const one : under_way_) {
      if (!one->is_complete()) break;
    }
  }
  [[nodiscard]] bool wants_advancing() const override {
    return startable_ > 0 || (nodes_ != nullptr && reductions_.progress() == Progress::polls);
  }

 protected:
  [[nodiscard]] Compiled make(const Communicator& communicator, const Collective& collective,
                              Use use) override {
    return std::visit(
        [&](const auto& one) -> Compiled {
          const On on{communicator.native(),
                      communicator.rank(),
                      communicator.size(),
                      native_type(one.type),
                      one.type,
                      largest_bytes_ / element_bytes(one.type)};
          if constexpr (std::is_same_v<std::decay_t<decltype(one)>, AllReduce>) {
            if (use == Use::started) return started(communicator, on, one);
          }
          if constexpr (std::is_same_v<std::decay_t<decltype(one)>, Exchange>) {
            if (use == Use::started) return std::make_unique<StartedMessages>(*this, on, one);
          }
          if constexpr (std::is_same_v<std::decay_t<decltype(one)>, AllGather>) {
            const bool spans_nodes = communicator.attachment(key_.get()) != nullptr;
            if (use == Use::started && spans_nodes && PlacedBlocks(on, one).fits) {
              return std::make_unique<StartedGather>(*this, on, one);
            }
          }
          return at_once(on, one);
        },
        collective);
  }

 private:
  /// What every call of MPI for a collective is given.
  struct On {
    MPI_Comm communicator;
    int rank, size;
    MPI_Datatype native;
    ElementType type;
    std::int64_t largest;  // elements of one call
  };

  [[nodiscard]] Compiled started(const Communicator& communicator, const On& on,
                                 const AllReduce& what) {
    const MPI_Op operation = operations_.of(what.reduction, what.type);
    if (const void* const duplicate = communicator.attachment(key_.get())) {
      return std::make_unique<StartedBeside>(reductions_,
                                             static_cast<const Communicator*>(duplicate)->native(),
                                             on.native, operation, what, on.largest);
    }
    if (on.size == 1) return done_by([](const void*, void*) {});
    return std::make_unique<StartedInMpi>(on.communicator, on.native, operation, what, on.largest);
  }

  [[nodiscard]] Compiled at_once(const On& on, const AllReduce& what) {
    if (on.size == 1) return done_by([](const void*, void*) {});
    return done_by([on, count = what.count, operation = operations_.of(what.reduction, what.type)](
                       const void*, void* buffer) {
      await_ranks(on.communicator);
      in_pieces(count, on.largest, [&](std::int64_t begin, int elements) {
        check_mpi(MPI_Allreduce(MPI_IN_PLACE, element_at(buffer, begin, on.type), elements,
                                on.native, operation, on.communicator),
                  "MPI_Allreduce");
      });
    });
  }

  [[nodiscard]] Compiled at_once(const On& on, const ReduceScatter& what) {
    const std::int64_t total = total_of(what.counts);
    if (total == 0) return done_by([](const void*, void*) {});
    if (on.size == 1) {
      return done_by(
          [on, total](const void* send, void* receive) { copy(receive, send, total, on.type); });
    }
    if (total <= on.largest) {
      return done_by([on, counts = std::vector<int>(what.counts.begin(), what.counts.end())](
                         const void* send, void* receive) {
        await_ranks(on.communicator);
        check_mpi(MPI_Reduce_scatter(send, or_nowhere(receive), counts.data(), on.native, MPI_SUM,
                                     on.communicator),
                  "MPI_Reduce_scatter");
      });
    }
    return done_by([on, counts = what.counts](const void* send, void* receive) {
      await_ranks(on.communicator);
      std::int64_t offset = 0;
      for (int root = 0; root < on.size; ++root) {
        const std::int64_t count = counts[static_cast<std::size_t>(root)];
        in_pieces(count, on.largest, [&](std::int64_t begin, int elements) {
          void* result = root == on.rank ? element_at(receive, begin, on.type) : nullptr;
          check_mpi(MPI_Reduce(element_at(send, offset + begin, on.type), result, elements,
                               on.native, MPI_SUM, root, on.communicator),
                    "MPI_Reduce for a part of a reduce-scatter");
        });
        offset += count;
      }
    });
  }

  /// The blocks of an all-gather as MPI wants them.
  struct PlacedBlocks {
    PlacedBlocks(const On& on, const AllGather& what)
        : own(what.counts[static_cast<std::size_t>(on.rank)]),
          at(what.offsets[static_cast<std::size_t>(on.rank)]),
          is_alone(on.size == 1 || total_of(what.counts) == 0),
          fits(!is_alone && extent_of(what.counts, what.offsets) <= on.largest) {
      for (std::size_t rank = 0; fits && rank < what.counts.size(); ++rank) {
        counts.push_back(static_cast<int>(what.counts[rank]));
        offsets.push_back(counts.back() > 0 ? static_cast<int>(what.offsets[rank]) : 0);
      }
    }
    void put_own(const On& on, const void* send, void* receive) const {
      if (own > 0) copy(element_at(receive, at, on.type), send, own, on.type);
    }

    std::int64_t own, at;  // this rank's, in elements
    bool is_alone;         // nobody sends anything
    bool fits;             // in one call
    std::vector<int> counts, offsets;
  };

  [[nodiscard]] Compiled at_once(const On& on, const AllGather& what) {
    PlacedBlocks blocks(on, what);
    if (blocks.is_alone) {
      return done_by(
          [on, blocks](const void* send, void* receive) { blocks.put_own(on, send, receive); });
    }
    if (blocks.fits) {
      return done_by([on, blocks = std::move(blocks)](const void* send, void* receive) {
        blocks.put_own(on, send, receive);
        await_ranks(on.communicator);
        check_mpi(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, receive, blocks.counts.data(),
                                 blocks.offsets.data(), on.native, on.communicator),
                  "MPI_Allgatherv");
      });
    }
    return done_by([on, blocks, what](const void* send, void* receive) {
      blocks.put_own(on, send, receive);
      for (int root = 0; root < on.size; ++root) {
        const auto block = static_cast<std::size_t>(root);
        if (what.counts[block] == 0) continue;
        broadcast(on, element_at(receive, what.offsets[block], on.type), what.counts[block], root);
      }
    });
  }

  // Every receive is there before the first message is sent; each rank begins with its neighbour,
  // so that not all send to the same one.
  [[nodiscard]] Compiled at_once(const On& on, const AllToAll& what) {
    std::vector<NeighbourBlock> sends, receives;
    for (int distance = 1; distance < on.size; ++distance) {
      const int from = (on.rank + on.size - distance) % on.size;
      const int to = (on.rank + distance) % on.size;
      const auto block_from = static_cast<std::size_t>(from);
      const auto block_to = static_cast<std::size_t>(to);
      receives.push_back({from, what.receive_counts[block_from], what.receive_offsets[block_from]});
      sends.push_back({to, what.send_counts[block_to], what.send_offsets[block_to]});
    }
    const auto own = static_cast<std::size_t>(on.rank);
    return done_by([on, messages = Messages(sends, receives), count = what.send_counts[own],
                    from = what.send_offsets[own],
                    to = what.receive_offsets[own]](const void* send, void* receive) mutable {
      messages.start(on, send, receive);
      if (count > 0) {
        copy(element_at(receive, to, on.type), element_at(send, from, on.type), count, on.type);
      }
      messages.wait();
    });
  }

  [[nodiscard]] Compiled at_once(const On& on, const Exchange& what) {
    return done_by([on, messages = Messages(what.sends, what.receives, what.channel)](
                       const void* send, void* receive) mutable {
      messages.start(on, send, receive);
      messages.wait();
    });
  }

  [[nodiscard]] Compiled at_once(const On& on, const Broadcast& what) {
    return done_by(
        [on, what](const void*, void* buffer) { broadcast(on, buffer, what.count, what.root); });
  }

  static void broadcast(const On& on, void* buffer, std::int64_t count, int root) {
    if (on.size == 1) return;
    await_ranks(on.communicator);
    in_pieces(count, on.largest, [&](std::int64_t begin, int elements) {
      check_mpi(
          MPI_Bcast(element_at(buffer, begin, on.type), elements, on.native, root, on.communicator),
          "MPI_Bcast");
    });
  }

  /// Messages between this rank and others, as one operation.
  class Messages {
   public:
    Messages(std::vector<NeighbourBlock> sends, std::vector<NeighbourBlock> receives,
             int channel = 0)
        : sends_(std::move(sends)), receives_(std::move(receives)), tag_(tag_of(channel)) {}

    void start(const On& on, const void* send, void* receive) {
      requests_.clear();
      for (const NeighbourBlock& block : receives_) {
        in_pieces(block.count, on.largest, [&](std::int64_t begin, int elements) {
          check_mpi(MPI_Irecv(element_at(receive, block.offset + begin, on.type), elements,
                              on.native, block.rank, tag_, on.communicator,
                              &requests_.emplace_back(MPI_REQUEST_NULL)),
                    "MPI_Irecv for messages between ranks");
        });
      }
      for (const NeighbourBlock& block : sends_) {
        in_pieces(block.count, on.largest, [&](std::int64_t begin, int elements) {
          check_mpi(MPI_Isend(element_at(send, block.offset + begin, on.type), elements, on.native,
                              block.rank, tag_, on.communicator,
                              &requests_.emplace_back(MPI_REQUEST_NULL)),
                    "MPI_Isend for messages between ranks");
        });
      }
    }
    void wait() { await(requests_, "MPI_Waitall for messages between ranks"); }
    [[nodiscard]] bool are_there() const {
      return std::all_of(requests_.begin(), requests_.end(), is_complete_request);
    }

   private:
    std::vector<NeighbourBlock> sends_, receives_;
    int tag_;
    std::vector<MPI_Request> requests_;  // kept so that a call allocates only the first time
  };

  /// One that is brought on by `advance` until it is waited for.
  class BroughtOn : public CompiledCollective {
   public:
    BroughtOn(MpiTransport& transport, const On& on) : on_(on), transport_(transport) {
      transport_.under_way_.reserve(++transport_.startable_);
    }
    ~BroughtOn() override {
      --transport_.startable_;
      if (std::erase(transport_.under_way_, this) > 0 && Hosted::current() == nullptr) {
        abort_job(1, "messages of a collective are destroyed on their way");
      }
    }
    void start(const void* send, void* receive) final {
      begin(send, receive);
      transport_.under_way_.push_back(this);
    }
    void wait() final {
      end();
      std::erase(transport_.under_way_, this);
    }

   protected:
    virtual void begin(const void* send, void* receive) = 0;
    virtual void end() = 0;
    On on_;

   private:
    MpiTransport& transport_;
  };

  class StartedMessages final : public BroughtOn {
   public:
    StartedMessages(MpiTransport& transport, const On& on, const Exchange& what)
        : BroughtOn(transport, on), messages_(what.sends, what.receives, what.channel) {}
    [[nodiscard]] bool is_complete() const override { return messages_.are_there(); }

   private:
    void begin(const void* send, void* receive) override { messages_.start(on_, send, receive); }
    void end() override { messages_.wait(); }

    Messages messages_;
  };

  class StartedGather final : public BroughtOn {
   public:
    StartedGather(MpiTransport& transport, const On& on, const AllGather& what)
        : BroughtOn(transport, on), blocks_(on, what) {}
    [[nodiscard]] bool is_complete() const override { return is_complete_request(request_); }

   private:
    void begin(const void* send, void* receive) override {
      blocks_.put_own(on_, send, receive);
      check_mpi(MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, receive, blocks_.counts.data(),
                                blocks_.offsets.data(), on_.native, on_.communicator, &request_),
                "MPI_Iallgatherv");
    }
    void end() override { await(std::span(&request_, 1), "MPI_Waitall for a started all-gather"); }

    PlacedBlocks blocks_;
    MPI_Request request_ = MPI_REQUEST_NULL;
  };

  /// MPI may take a null pointer for a missing argument even where nothing is received.
  [[nodiscard]] static void* or_nowhere(void* memory) {
    static double nowhere = 0;
    return memory != nullptr ? memory : static_cast<void*>(&nowhere);
  }

  Operations operations_;
  std::vector<BroughtOn*> under_way_;
  std::size_t startable_ = 0;  // that were compiled and may be in it
  std::int64_t largest_bytes_;
  std::shared_ptr<const Nodes> nodes_;
  MpiReductions reductions_;
  std::shared_ptr<const int> key_ = std::make_shared<const int>(0);  // whose attachments are ours
};

}  // namespace

std::unique_ptr<Transport> make_mpi_transport(const MpiTransportOptions& options) {
  return std::make_unique<MpiTransport>(options);
}

}  // namespace meshwork
