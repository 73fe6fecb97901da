#include "collectives/nccl/nccl_transport.h"

#include <mpi.h>
#include <nccl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <functional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/blocks.h"
#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/hosted.h"
#include "collectives/nccl/clique.h"
#include "collectives/nccl/messages.h"
#include "collectives/nccl/sibling_sums.h"

namespace meshwork::nccl {

namespace {

ncclRedOp_t native_operation(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return ncclSum;
    case Reduction::maximum:
      return ncclMax;
    case Reduction::minimum:
      return ncclMin;
  }
  internal_error("a reduction that NCCL was not told of");
}

/// Whether NCCL's result is ours: its maxima and minima lose a NaN.
bool has(Reduction reduction, ElementType type) {
  return reduction == Reduction::sum ||
         (type != ElementType::float32 && type != ElementType::float64);
}

std::size_t unsigned_of(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

class NcclTransport final : public Transport {
 public:
  NcclTransport(const Communicator& ranks, std::unique_ptr<Transport> staged, DeviceQueues& device,
                std::string remark)
      : ranks_(ranks.duplicate()),
        staged_(std::move(staged)),
        device_(device),
        remark_(std::move(remark)),
        enqueued_(device),
        behind_kernels_(device.make_mark()),
        captured_turn_(device.make_mark()) {
    for (std::unique_ptr<Mark>& turn : turns_) turn = device.make_mark();
  }
  ~NcclTransport() override {
    // Watched to the last: a peer may fail at the end.
    if (std::uncaught_exceptions() == 0) {
      try {
        for (const std::unique_ptr<Mark>& turn : turns_) turn->wait();
      } catch (const std::exception& error) {
        abort_or_break(error.what());
      }
    }
    // First of all: where an error unwinds this, the rest could wait for operations that never end.
    if (std::uncaught_exceptions() > 0) NcclTransport::give_up();
    watch_.reset();
    while (!cliques_.empty()) cliques_.pop_back();  // parts before the whole
  }
  NcclTransport(const NcclTransport&) = delete;
  NcclTransport& operator=(const NcclTransport&) = delete;

  [[nodiscard]] std::string_view name() const override { return "nccl"; }
  [[nodiscard]] std::string remark() const override { return remark_; }

  void prepare(const Communicator& communicator) override {
    if (communicator.attachment(key_.get()) != nullptr) return;
    staged_->prepare(communicator);
    const auto attached = std::make_shared<Attached>();
    attached->clique = make_clique(communicator);
    attached->may_part = are_siblings(ranks_, communicator);
    communicator.attach(key_, attached);
    if (!tried_) {
      tried_ = true;
      try_sum(attached->clique);
      try_capturing(attached->clique);
    }
    // Of those that nobody announces, a small, a middle and a large one: NCCL has an algorithm for
    // each.
    for (const std::int64_t count : {256, 65'536, 2'097'152}) {
      announce(communicator, AllReduce{ElementType::float32, Reduction::sum, count});
    }
  }

  void announce(const Communicator& communicator, const Collective& collective) override {
    auto* const attached = static_cast<Attached*>(communicator.attachment(key_.get()));
    const Reduction* const reduction = reduction_of(collective);
    const ElementType type = type_of(collective);
    if (attached == nullptr || !attached->may_part || reduction == nullptr ||
        *reduction != Reduction::sum ||
        (type != ElementType::float32 && type != ElementType::float64)) {
      return;
    }
    std::vector<std::int64_t> known{static_cast<std::int64_t>(type)};
    Enqueue enqueued;
    if (const auto* const scatter = std::get_if<ReduceScatter>(&collective)) {
      known.insert(known.end(), scatter->counts.begin(), scatter->counts.end());
      enqueued = enqueue(communicator, *scatter);
    } else {
      const AllReduce& whole = std::get<AllReduce>(collective);
      known.push_back(whole.count);
      enqueued = enqueue(communicator, whole);
    }
    if (on_all(ranks_, attached->alike.contains(known))) return;
    const std::string problem = why_siblings_part(
        ranks_, communicator, device_, collective, known, [&](const void* send, void* receive) {
          enqueued(*attached->clique, send, receive, nullptr);
          turn().wait();
        });
    if (problem.empty()) {
      attached->alike.insert(known);
      return;
    }
    attached->clique = nullptr;
    attached->may_part = false;
    stages_sums_ = true;
    add_remark(fmt::format(
        "collectives over groups of {} ranks are staged through the host's memory, since {}: "
        "copies of a value would part",
        communicator.size(), problem));
  }

  [[nodiscard]] bool settle() override {
    if (watch_ == nullptr) return true;  // it was given up
    constexpr std::chrono::seconds patience{3};
    const auto end = std::chrono::steady_clock::now() + patience;
    // By count, which captured operations have too.
    while (enqueued_.done() < enqueued_.started()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  /// Cliques stay, without NCCL's: who starts one more operation is told.
  void give_up() override {
    watch_.reset();
    std::vector<ncclComm_t> under_way;
    for (auto clique = cliques_.rbegin(); clique != cliques_.rend(); ++clique) {
      if ((*clique)->exists()) under_way.push_back((*clique)->release());
    }
    abort_all(under_way);
  }

  void reserve(std::int64_t bytes, std::span<const std::int64_t> started) override {
    if (stages_sums_) staged_->reserve(bytes, started);
  }

  [[nodiscard]] TransportMemory allocate(const Communicator& communicator,
                                         std::int64_t bytes) override {
    return staged_->allocate(communicator, bytes);
  }
  [[nodiscard]] bool shares_memory() const override { return staged_->shares_memory(); }
  [[nodiscard]] Sharers sharers(const Communicator& communicator) const override {
    return staged_->sharers(communicator);
  }
  void barrier_of_sharers(const Communicator& communicator) override {
    staged_->barrier_of_sharers(communicator);
  }
  [[nodiscard]] Enqueued* enqueued() override { return &enqueued_; }

 protected:
  [[nodiscard]] Compiled make(const Communicator& communicator, const Collective& collective,
                              Use use) override {
    const auto* const attached = static_cast<Attached*>(communicator.attachment(key_.get()));
    const Reduction* const reduction = reduction_of(collective);
    // Messages that pass each other would wait in a stream, each for the one behind the other.
    const bool passes = use == Use::started && std::holds_alternative<Exchange>(collective);
    if (attached == nullptr || passes ||
        (reduction != nullptr && !has(*reduction, type_of(collective)))) {
      return staged_->compile(communicator, collective, use);
    }
    Enqueue enqueued =
        std::visit([&](const auto& one) { return enqueue(communicator, one); }, collective);
    if (!enqueued) return staged_->compile(communicator, collective, use);
    return std::make_unique<Enqueuing>(*this, communicator, *attached, collective, use,
                                       std::move(enqueued));
  }

 private:
  /// What is kept for a prepared communicator.
  struct Attached {
    Clique* clique = nullptr;                     // null: the transport that stages serves it
    bool may_part = false;                        // siblings may add in different orders
    std::set<std::vector<std::int64_t>> alike{};  // sums for which they do not: type, counts
  };

  /// Enqueues an operation, and `done` behind it unless that is null.
  using Enqueue = std::function<void(Clique&, const void* send, void* receive, Mark* done)>;

  class Enqueuing final : public CompiledCollective {
   public:
    Enqueuing(NcclTransport& transport, const Communicator& communicator, const Attached& attached,
              const Collective& collective, Use use, Enqueue enqueue)
        : transport_(transport),
          communicator_(communicator),
          attached_(attached),
          collective_(collective),
          use_(use),
          enqueue_(std::move(enqueue)),
          // Messages go through pinned memory where they are the host's.
          takes_any_memory_(std::holds_alternative<AllToAll>(collective) ||
                            std::holds_alternative<Exchange>(collective)),
          decided_by_send_(std::holds_alternative<ReduceScatter>(collective)),
          is_empty_(!takes_any_memory_ && deciding_extent() == 0) {
      if (use == Use::started) done_ = transport.device_.make_mark();
      if (attached.clique == nullptr) (void)staged();
    }

    void start(const void* send, void* receive) override {
      Clique* const clique = attached_.clique;
      const void* const buffer = decided_by_send_ ? send : receive;
      is_staged_ = clique == nullptr || is_empty_ ||
                   (!takes_any_memory_ && !transport_.device_.owns(buffer));
      if (is_staged_) return staged().start(send, receive);
      enqueue_(*clique, send, receive, done_.get());
      if (use_ == Use::at_once) transport_.lead_kernels();
    }
    void wait() override {
      if (is_staged_) return staged().wait();
      if (use_ == Use::started) transport_.device_.kernels().wait_for(*done_);
    }
    [[nodiscard]] bool is_complete() const override {
      return is_staged_ ? staged_->is_complete() : use_ == Use::at_once;
    }
    [[nodiscard]] bool is_enqueued() const override {
      return transport_.captures_ && attached_.clique != nullptr;
    }

   private:
    /// Of the buffer whose memory decides who does it, on all ranks alike.
    [[nodiscard]] std::int64_t deciding_extent() const {
      const Extents extents = extents_of(collective_, communicator_.rank());
      return decided_by_send_ ? extents.send : extents.receive;
    }
    /// Made when it is first needed: for buffers of the host, or where an announcement said that
    /// NCCL cannot serve the communicator.
    [[nodiscard]] CompiledCollective& staged() {
      if (!staged_) staged_ = transport_.staged_->compile(communicator_, collective_, use_);
      return *staged_;
    }

    NcclTransport& transport_;
    const Communicator& communicator_;
    const Attached& attached_;
    Collective collective_;
    Use use_;
    Enqueue enqueue_;
    bool takes_any_memory_, decided_by_send_, is_empty_;
    std::unique_ptr<Mark> done_;  // of a started one
    Compiled staged_;
    bool is_staged_ = false;  // the one under way
  };

  // ---- operations -------------------------------------------------------------------------------

  [[nodiscard]] Enqueue enqueue(const Communicator&, const AllReduce& one) {
    return [this, one](Clique& clique, const void*, void* buffer, Mark* done) {
      begin(clique, "an all-reduce");
      check_nccl(ncclAllReduce(buffer, buffer, unsigned_of(one.count), native_type(one.type),
                               native_operation(one.reduction), clique.native(), stream()),
                 "ncclAllReduce");
      end(done);
    };
  }

  [[nodiscard]] Enqueue enqueue(const Communicator& communicator, const ReduceScatter& one) {
    const bool is_even = std::all_of(one.counts.begin(), one.counts.end(),
                                     [&](auto each) { return each == one.counts[0]; });
    return [this, one, is_even, ranks = communicator.size()](Clique& clique, const void* send,
                                                             void* receive, Mark* done) {
      begin(clique, "a reduce-scatter");
      if (is_even) {
        check_nccl(ncclReduceScatter(send, receive, unsigned_of(one.counts[0]),
                                     native_type(one.type), ncclSum, clique.native(), stream()),
                   "ncclReduceScatter");
      } else {
        Group group;
        std::int64_t offset = 0;
        for (int root = 0; root < ranks; ++root) {
          const std::int64_t count = one.counts[static_cast<std::size_t>(root)];
          if (count > 0) {
            check_nccl(ncclReduce(element_at(send, offset, one.type), receive, unsigned_of(count),
                                  native_type(one.type), ncclSum, root, clique.native(), stream()),
                       "ncclReduce");
          }
          offset += count;
        }
        group.end();
      }
      end(done);
    };
  }

  [[nodiscard]] Enqueue enqueue(const Communicator& communicator, const AllGather& one) {
    bool side_by_side = true;
    for (std::size_t rank = 0; rank < one.counts.size(); ++rank) {
      side_by_side =
          side_by_side && one.counts[rank] == one.counts[0] &&
          one.offsets[rank] == one.offsets[0] + static_cast<std::int64_t>(rank) * one.counts[0];
    }
    return [this, one, side_by_side, rank = communicator.rank(), ranks = communicator.size()](
               Clique& clique, const void* send, void* receive, Mark* done) {
      begin(clique, "an all-gather");
      if (side_by_side) {
        check_nccl(ncclAllGather(send, element_at(receive, one.offsets[0], one.type),
                                 unsigned_of(one.counts[0]), native_type(one.type), clique.native(),
                                 stream()),
                   "ncclAllGather");
      } else {
        Group group;
        for (int root = 0; root < ranks; ++root) {
          const auto block = static_cast<std::size_t>(root);
          if (one.counts[block] == 0) continue;
          std::byte* const to = element_at(receive, one.offsets[block], one.type);
          check_nccl(ncclBroadcast(root == rank ? send : to, to, unsigned_of(one.counts[block]),
                                   native_type(one.type), root, clique.native(), stream()),
                     "ncclBroadcast");
        }
        group.end();
      }
      end(done);
    };
  }

  // Each rank begins with itself, then comes its neighbour, so that not all send to the same one.
  [[nodiscard]] Enqueue enqueue(const Communicator& communicator, const AllToAll& one) {
    std::vector<NeighbourBlock> sends, receives;
    const int ranks = communicator.size();
    for (int distance = 0; distance < ranks; ++distance) {
      const int to = (communicator.rank() + distance) % ranks;
      const int from = (communicator.rank() + ranks - distance) % ranks;
      const auto block_to = static_cast<std::size_t>(to);
      const auto block_from = static_cast<std::size_t>(from);
      sends.push_back({to, one.send_counts[block_to], one.send_offsets[block_to]});
      receives.push_back({from, one.receive_counts[block_from], one.receive_offsets[block_from]});
    }
    return messages(communicator, "an all-to-all", one.type, std::move(sends), std::move(receives));
  }

  [[nodiscard]] Enqueue enqueue(const Communicator& communicator, const Exchange& one) {
    return messages(communicator, "an exchange", one.type, one.sends, one.receives);
  }

  [[nodiscard]] Enqueue enqueue(const Communicator&, const Broadcast& one) {
    return [this, one](Clique& clique, const void*, void* buffer, Mark* done) {
      begin(clique, "a broadcast");
      check_nccl(ncclBroadcast(buffer, buffer, unsigned_of(one.count), native_type(one.type),
                               one.root, clique.native(), stream()),
                 "ncclBroadcast");
      end(done);
    };
  }

  /// What NCCL has nothing for.
  template <class Other>
  [[nodiscard]] Enqueue enqueue(const Communicator&, const Other&) {
    return nullptr;
  }

  /// Messages between pairs, as one operation.
  [[nodiscard]] Enqueue messages(const Communicator& communicator, const char* operation,
                                 ElementType type, std::vector<NeighbourBlock> sends,
                                 std::vector<NeighbourBlock> receives) {
    return [this, operation, type, rank = communicator.rank(), sends = std::move(sends),
            receives = std::move(receives)](Clique& clique, const void* send, void* receive,
                                            Mark* done) {
      messages_.take(sends, receives);
      if (messages_.go_through_host(device_, send, receive)) {
        if (device_.is_capturing()) internal_error("what lies in the host's memory is captured");
        turn().wait();
      }
      messages_.bring_to_device(device_, type, send, receive);
      begin(clique, operation);
      messages_.enqueue(device_, clique, rank, type);
      end(done);
      if (messages_.arrive_on_host()) {
        turn().wait();
        messages_.bring_to_host(type, receive);
      }
    };
  }

  // ---- cliques ----------------------------------------------------------------------------------

  /// Null for a rank that is alone. Every rank of `ranks_` calls it.
  Clique* make_clique(const Communicator& communicator) {
    if (ranks_.size() == 1) return nullptr;
    if (cliques_.empty()) keep(clique_of_all());
    if (on_all(ranks_, is_like(ranks_, communicator))) return cliques_.front().get();
    for (const std::unique_ptr<Mark>& turn : turns_) turn->wait();
    int number = ranks_.rank();
    await_ranks(communicator);
    check_mpi(MPI_Bcast(&number, 1, MPI_INT, 0, communicator.native()),
              "MPI_Bcast of a group's number");
    std::unique_ptr<Clique> made;
    together(ranks_,
             [&] { made = std::make_unique<Clique>(*cliques_.front(), communicator, number); });
    return made->exists() ? keep(std::move(made)) : nullptr;
  }

  std::unique_ptr<Clique> clique_of_all() {
    ncclUniqueId identifier{};
    together(ranks_, [&] {
      if (ranks_.rank() == 0) check_nccl(ncclGetUniqueId(&identifier), "ncclGetUniqueId");
    });
    await_ranks(ranks_);
    check_mpi(MPI_Bcast(&identifier, sizeof identifier, MPI_BYTE, 0, ranks_.native()),
              "MPI_Bcast of NCCL's identifier");
    std::unique_ptr<Clique> made;
    together(ranks_, [&] { made = std::make_unique<Clique>(ranks_, identifier); });
    return made;
  }

  Clique* keep(std::unique_ptr<Clique> made) {
    watch_->add(*made);
    return cliques_.emplace_back(std::move(made)).get();
  }

  /// Whether they have the same ranks in the same order.
  static bool is_like(const Communicator& one, const Communicator& other) {
    int likeness = MPI_UNEQUAL;
    check_mpi(MPI_Comm_compare(one.native(), other.native(), &likeness), "MPI_Comm_compare");
    return likeness == MPI_IDENT || likeness == MPI_CONGRUENT;
  }

  /// The first operation, in which NCCL does what it does once. Throws on all ranks if it fails on
  /// one.
  void try_sum(Clique* clique) {
    constexpr std::int64_t count = 256;
    first_sum_ = device_.allocate_pinned(count * element_bytes(ElementType::float32));
    auto* const values = static_cast<float*>(first_sum_.data());
    std::fill_n(values, count, 1.0F);
    const Enqueue sum = enqueue(ranks_, AllReduce{ElementType::float32, Reduction::sum, count});
    // Where one rank could not start it, the others do not wait for it.
    together(ranks_, [&] {
      if (clique != nullptr) {
        sum(*clique, nullptr, values, nullptr);
      }
    });
    together(ranks_, [&] {
      if (clique == nullptr) return;
      turn().wait();
      if (std::count(values, values + count, static_cast<float>(clique->size())) != count) {
        fail("NCCL's first sum over {} ranks is wrong", clique->size());
      }
    });
    first_sum_ = {};
  }

  /// Finds out whether an operation that was captured does what it should, on all ranks.
  void try_capturing(Clique* clique) {
    constexpr std::int64_t count = 256;
    const Memory memory = device_.allocate_pinned(count * element_bytes(ElementType::float32));
    auto* const values = static_cast<float*>(memory.data());
    const Enqueue sum = enqueue(ranks_, AllReduce{ElementType::float32, Reduction::sum, count});
    std::unique_ptr<CapturedWork> work;
    std::uint64_t operations = 0;
    try {
      together(ranks_, [&] {
        const std::uint64_t before = enqueued_.captured();
        work = device_.capture([&] {
          if (clique == nullptr) return;
          sum(*clique, nullptr, values, nullptr);
          lead_kernels();
        });
        operations = enqueued_.captured() - before;
      });
      if (!on_all(ranks_, work != nullptr)) return;  // MESHWORK_GRAPHS may differ between hosts
      together(ranks_, [&] {
        std::fill_n(values, count, 1.0F);
        work->start();
        enqueued_.add_captured(operations);
        device_.kernels().record(*behind_kernels_);
        behind_kernels_->wait();
        const auto total = static_cast<float>(clique != nullptr ? clique->size() : 1);
        if (std::count(values, values + count, total) != count) fail("its sum is wrong");
      });
      captures_ = true;
    } catch (const std::exception& error) {
      add_remark(fmt::format(
          "collectives are started one by one, since NCCL's cannot be captured: {}", error.what()));
    }
  }

  void add_remark(const std::string& text) { remark_ += (remark_.empty() ? "" : "; ") + text; }

  // ---- order ------------------------------------------------------------------------------------

  [[nodiscard]] cudaStream_t stream() const {
    return static_cast<cudaStream_t>(device_.transfers().native());
  }
  /// Behind the operation that is, or was last, put between `begin` and `end`.
  [[nodiscard]] Mark& turn() {
    return device_.is_capturing() ? *captured_turn_ : *turns_[operations_ % operations_ahead];
  }

  void begin(Clique& clique, const char* operation) {
    if (!clique.exists()) fail("NCCL was given up when an error left operations without an end");
    clique.note(operation);
    if (!device_.is_capturing()) {
      ++operations_;
      turn().wait();  // of the operation that had it before
    }
    device_.kernels().record(*behind_kernels_);
    device_.transfers().wait_for(*behind_kernels_);
  }
  /// What is captured is counted behind the marks: nobody waits for that but what comes later. What
  /// is not is counted before, since a captured piece that counts, beside the kernels, may follow.
  void end(Mark* done = nullptr) {
    const bool captured = device_.is_capturing();
    if (!captured) enqueued_.add(device_.transfers());
    device_.transfers().record(turn());
    if (done != nullptr) device_.transfers().record(*done);
    if (captured) enqueued_.add(device_.transfers());
  }
  void lead_kernels() { device_.kernels().wait_for(turn()); }

  Communicator ranks_;
  std::unique_ptr<Transport> staged_;
  DeviceQueues& device_;
  std::shared_ptr<const int> key_ = std::make_shared<const int>(0);  // whose attachments are ours
  std::vector<std::unique_ptr<Clique>> cliques_;  // the first of all ranks, the others parts of it
  std::unique_ptr<Watch> watch_ = std::make_unique<Watch>();
  std::string remark_;
  bool stages_sums_ = false;  // of some groups
  bool tried_ = false, captures_ = false;
  Memory first_sum_;  // until it is done: giving it back waits for that, and it may never be
  Enqueued enqueued_;
  std::unique_ptr<Mark> behind_kernels_, captured_turn_;
  std::array<std::unique_ptr<Mark>, operations_ahead> turns_;
  std::size_t operations_ = 0;  // that were enqueued
  Messages messages_;
};

}  // namespace

std::unique_ptr<Transport> make_nccl_transport(const Communicator& ranks,
                                               std::unique_ptr<Transport> staged,
                                               DeviceQueues& device, std::string remark) {
  return std::make_unique<NcclTransport>(ranks, std::move(staged), device, std::move(remark));
}

std::string loaded_version() {
  int code = 0;
  check_nccl(ncclGetVersion(&code), "ncclGetVersion");
  // 22809 is 2.28.9; up to 2.8 it was 2806 of 2.8.6.
  return code < 10'000 ? fmt::format("{}.{}.{}", code / 1000, code % 1000 / 100, code % 100)
                       : fmt::format("{}.{}.{}", code / 10'000, code % 10'000 / 100, code % 100);
}

}  // namespace meshwork::nccl
