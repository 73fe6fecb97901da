#include "collectives/nccl/nccl_transport.h"

#include <mpi.h>
#include <nccl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/blocks.h"
#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/nccl/clique.h"
#include "collectives/nccl/messages.h"
#include "collectives/nccl/sibling_sums.h"
#include "collectives/request_pool.h"

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
        abort_job(1, error.what());
      }
    }
    // First of all: where an error unwinds this, the rest could wait for operations that never end.
    end_cliques();
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
      prepare_sum(communicator, std::span(&count, 1));
    }
  }

  void prepare_sum(const Communicator& communicator, Counts counts) override {
    auto* const attached = static_cast<Attached*>(communicator.attachment(key_.get()));
    if (attached == nullptr || !attached->may_part) return;
    const std::vector<std::int64_t> known(counts.begin(), counts.end());
    if (on_all(ranks_, attached->alike.contains(known))) return;
    const auto sum = [&](float* send, float* receive) {
      if (counts.size() == 1) {
        enqueue_all_reduce(*attached->clique, ElementType::float32, Reduction::sum, send,
                           counts.front());
      } else {
        enqueue_reduce_scatter(*attached->clique, communicator, ElementType::float32, send, receive,
                               counts);
      }
      turn().wait();
    };
    if (siblings_add_alike(ranks_, communicator, device_, counts, sum)) {
      attached->alike.insert(known);
      return;
    }
    attached->clique = nullptr;
    attached->may_part = false;
    stages_sums_ = true;
    add_remark(fmt::format(
        "collectives over groups of {} ranks are staged through the host's memory, since NCCL "
        "adds in another order in each: copies of a value would part",
        communicator.size()));
  }

  [[nodiscard]] bool settle() override {
    constexpr std::chrono::seconds patience{3};
    const auto end = std::chrono::steady_clock::now() + patience;
    // By count, which captured operations have too.
    while (enqueued_.done() < enqueued_.started()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  void give_up() override {
    for (const std::unique_ptr<Clique>& clique : cliques_) clique->give_up();
    end_cliques();
  }

  void reserve(std::int64_t bytes, std::span<const std::int64_t> started) override {
    started_.reserve(started.size(), [this] { return make_request(); });
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
  [[nodiscard]] bool enqueues(const Communicator& communicator, ElementType type,
                              Reduction reduction) const override {
    return captures_ && has(reduction, type) && clique_of(communicator) != nullptr;
  }
  [[nodiscard]] Enqueued* enqueued() override { return &enqueued_; }

  void all_reduce(const Communicator& communicator, ElementType type, Reduction reduction,
                  void* buffer, std::int64_t count) override {
    Clique* const clique = reducing_clique(communicator, type, reduction, buffer, count);
    if (clique == nullptr) {
      staged_->all_reduce(communicator, type, reduction, buffer, count);
      return;
    }
    enqueue_all_reduce(*clique, type, reduction, buffer, count);
    lead_kernels();
  }

  [[nodiscard]] Pending start_all_reduce(const Communicator& communicator, ElementType type,
                                         Reduction reduction, void* buffer,
                                         std::int64_t count) override {
    if (Clique* clique = reducing_clique(communicator, type, reduction, buffer, count)) {
      return start(*clique, type, reduction, buffer, count);
    }
    return staged_->start_all_reduce(communicator, type, reduction, buffer, count);
  }

  /// A reduction whose other parts are not to be had is the same on a GPU: they come anyway.
  [[nodiscard]] Pending start_reduce_in_parts(const Communicator& communicator, ElementType type,
                                              Reduction reduction, void* buffer,
                                              std::int64_t count) override {
    if (Clique* clique = reducing_clique(communicator, type, reduction, buffer, count)) {
      return start(*clique, type, reduction, buffer, count);
    }
    return staged_->start_reduce_in_parts(communicator, type, reduction, buffer, count);
  }

  void reduce_scatter(const Communicator& communicator, ElementType type, const void* send,
                      void* receive, Counts counts) override {
    check_blocks(communicator, {counts});
    Clique* const clique = clique_of(communicator, send, total_of(counts));
    if (clique == nullptr) {
      staged_->reduce_scatter(communicator, type, send, receive, counts);
      return;
    }
    enqueue_reduce_scatter(*clique, communicator, type, send, receive, counts);
    lead_kernels();
  }

  void all_gather(const Communicator& communicator, ElementType type, const void* send,
                  void* receive, Counts counts, Counts offsets) override {
    check_blocks(communicator, {counts, offsets});
    Clique* const clique = clique_of(communicator, receive, total_of(counts));
    if (clique == nullptr) {
      staged_->all_gather(communicator, type, send, receive, counts, offsets);
      return;
    }
    begin(*clique, "an all-gather");
    bool side_by_side = true;
    for (std::size_t rank = 0; rank < counts.size(); ++rank) {
      side_by_side = side_by_side && counts[rank] == counts[0] &&
                     offsets[rank] == offsets[0] + static_cast<std::int64_t>(rank) * counts[0];
    }
    if (side_by_side) {
      check_nccl(ncclAllGather(send, element_at(receive, offsets[0], type), unsigned_of(counts[0]),
                               native_type(type), clique->native(), stream()),
                 "ncclAllGather");
    } else {
      Group group;
      for (int root = 0; root < communicator.size(); ++root) {
        const auto block = static_cast<std::size_t>(root);
        if (counts[block] == 0) continue;
        std::byte* const to = element_at(receive, offsets[block], type);
        check_nccl(
            ncclBroadcast(root == communicator.rank() ? send : to, to, unsigned_of(counts[block]),
                          native_type(type), root, clique->native(), stream()),
            "ncclBroadcast");
      }
      group.end();
    }
    end();
    lead_kernels();
  }

  void all_to_all(const Communicator& communicator, ElementType type, const void* send,
                  Counts send_counts, Counts send_offsets, void* receive, Counts receive_counts,
                  Counts receive_offsets) override {
    check_blocks(communicator, {send_counts, send_offsets, receive_counts, receive_offsets});
    Clique* const clique = clique_of(communicator);
    if (clique == nullptr) {
      staged_->all_to_all(communicator, type, send, send_counts, send_offsets, receive,
                          receive_counts, receive_offsets);
      return;
    }
    const auto own = static_cast<std::size_t>(communicator.rank());
    if (send_counts[own] != receive_counts[own]) {
      internal_error(
          fmt::format("an all-to-all sends {} elements to its own rank, which expects {}",
                      send_counts[own], receive_counts[own]));
    }
    // Each rank begins with itself, then comes its neighbour, so that not all send to the same one.
    messages_.clear();
    const int ranks = communicator.size();
    for (int distance = 0; distance < ranks; ++distance) {
      const int to = (communicator.rank() + distance) % ranks;
      const int from = (communicator.rank() + ranks - distance) % ranks;
      const auto block_to = static_cast<std::size_t>(to);
      const auto block_from = static_cast<std::size_t>(from);
      messages_.add_send({to, send_counts[block_to], send_offsets[block_to]});
      messages_.add_receive({from, receive_counts[block_from], receive_offsets[block_from]});
    }
    send_messages(*clique, "an all-to-all", communicator.rank(), type, send, receive);
  }

  void exchange(const Communicator& communicator, ElementType type, const void* send,
                std::span<const NeighbourBlock> sends, void* receive,
                std::span<const NeighbourBlock> receives) override {
    check_neighbours(communicator, sends);
    check_neighbours(communicator, receives);
    Clique* const clique = clique_of(communicator);
    if (clique == nullptr) {
      staged_->exchange(communicator, type, send, sends, receive, receives);
      return;
    }
    messages_.clear();
    for (const NeighbourBlock& block : sends) messages_.add_send(block);
    for (const NeighbourBlock& block : receives) messages_.add_receive(block);
    send_messages(*clique, "an exchange", communicator.rank(), type, send, receive);
  }

  void broadcast(const Communicator& communicator, ElementType type, void* buffer,
                 std::int64_t count, int root) override {
    Clique* const clique = clique_of(communicator, buffer, count);
    if (clique == nullptr) {
      staged_->broadcast(communicator, type, buffer, count, root);
      return;
    }
    begin(*clique, "a broadcast");
    check_nccl(ncclBroadcast(buffer, buffer, unsigned_of(count), native_type(type), root,
                             clique->native(), stream()),
               "ncclBroadcast");
    end();
    lead_kernels();
  }

 private:
  /// What is kept for a prepared communicator.
  struct Attached {
    Clique* clique = nullptr;                        // null: the transport that stages serves it
    bool may_part = false;                           // siblings may add in different orders
    std::set<std::vector<std::int64_t>> alike = {};  // counts of sums for which they do not
  };

  class Started final : public Pending::Request {
   public:
    explicit Started(DeviceQueues& of) : done(of.make_mark()), device_(of) {}
    void wait() override {
      device_.kernels().wait_for(*done);
      under_way = false;
    }

    std::unique_ptr<Mark> done;
    bool under_way = false;

   private:
    DeviceQueues& device_;
  };

  // ---- cliques ----------------------------------------------------------------------------------

  /// Null for a rank that is alone. Every rank of `ranks_` calls it.
  Clique* make_clique(const Communicator& communicator) {
    if (ranks_.size() == 1) return nullptr;
    if (cliques_.empty()) keep(clique_of_all());
    if (on_all(ranks_, is_like(ranks_, communicator))) return cliques_.front().get();
    for (const std::unique_ptr<Mark>& turn : turns_) turn->wait();
    int number = ranks_.rank();
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
    check_mpi(MPI_Bcast(&identifier, sizeof identifier, MPI_BYTE, 0, ranks_.native()),
              "MPI_Bcast of NCCL's identifier");
    std::unique_ptr<Clique> made;
    together(ranks_, [&] { made = std::make_unique<Clique>(ranks_, identifier); });
    return made;
  }

  void end_cliques() {
    watch_.reset();
    while (!cliques_.empty()) cliques_.pop_back();  // parts before the whole
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
    // Where one rank could not start it, the others do not wait for it.
    together(ranks_, [&] {
      if (clique != nullptr) {
        enqueue_all_reduce(*clique, ElementType::float32, Reduction::sum, values, count);
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
    std::unique_ptr<CapturedWork> work;
    std::uint64_t operations = 0;
    try {
      together(ranks_, [&] {
        const std::uint64_t before = enqueued_.captured();
        work = device_.capture([&] {
          if (clique == nullptr) return;
          enqueue_all_reduce(*clique, ElementType::float32, Reduction::sum, values, count);
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
        const auto sum = static_cast<float>(clique != nullptr ? clique->size() : 1);
        if (std::count(values, values + count, sum) != count) fail("its sum is wrong");
      });
      captures_ = true;
    } catch (const std::exception& error) {
      add_remark(fmt::format(
          "collectives are started one by one, since NCCL's cannot be captured: {}", error.what()));
    }
  }

  void add_remark(const std::string& text) { remark_ += (remark_.empty() ? "" : "; ") + text; }

  /// Null where the transport that stages serves an operation, on all its ranks alike.
  [[nodiscard]] Clique* clique_of(const Communicator& communicator) const {
    const auto* const attached = static_cast<Attached*>(communicator.attachment(key_.get()));
    return attached != nullptr ? attached->clique : nullptr;
  }
  [[nodiscard]] Clique* clique_of(const Communicator& communicator, const void* buffer,
                                  std::int64_t count) const {
    return count > 0 && device_.owns(buffer) ? clique_of(communicator) : nullptr;
  }
  [[nodiscard]] Clique* reducing_clique(const Communicator& communicator, ElementType type,
                                        Reduction reduction, const void* buffer,
                                        std::int64_t count) const {
    return has(reduction, type) ? clique_of(communicator, buffer, count) : nullptr;
  }

  // ---- order ------------------------------------------------------------------------------------

  [[nodiscard]] cudaStream_t stream() const {
    return static_cast<cudaStream_t>(device_.transfers().native());
  }
  /// Behind the operation that is, or was last, put between `begin` and `end`.
  [[nodiscard]] Mark& turn() {
    return device_.is_capturing() ? *captured_turn_ : *turns_[operations_ % operations_ahead];
  }

  void begin(Clique& clique, const char* operation) {
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

  // ---- operations -------------------------------------------------------------------------------

  void enqueue_all_reduce(Clique& clique, ElementType type, Reduction reduction, void* buffer,
                          std::int64_t count, Mark* done = nullptr) {
    begin(clique, "an all-reduce");
    check_nccl(ncclAllReduce(buffer, buffer, unsigned_of(count), native_type(type),
                             native_operation(reduction), clique.native(), stream()),
               "ncclAllReduce");
    end(done);
  }

  void enqueue_reduce_scatter(Clique& clique, const Communicator& communicator, ElementType type,
                              const void* send, void* receive, Counts counts) {
    begin(clique, "a reduce-scatter");
    if (std::all_of(counts.begin(), counts.end(), [&](auto each) { return each == counts[0]; })) {
      check_nccl(ncclReduceScatter(send, receive, unsigned_of(counts[0]), native_type(type),
                                   ncclSum, clique.native(), stream()),
                 "ncclReduceScatter");
    } else {
      Group group;
      std::int64_t offset = 0;
      for (int root = 0; root < communicator.size(); ++root) {
        const std::int64_t count = counts[static_cast<std::size_t>(root)];
        if (count > 0) {
          check_nccl(ncclReduce(element_at(send, offset, type), receive, unsigned_of(count),
                                native_type(type), ncclSum, root, clique.native(), stream()),
                     "ncclReduce");
        }
        offset += count;
      }
      group.end();
    }
    end();
  }

  Pending start(Clique& clique, ElementType type, Reduction reduction, void* buffer,
                std::int64_t count) {
    const std::shared_ptr<Started> started = free_request();
    enqueue_all_reduce(clique, type, reduction, buffer, count, started->done.get());
    started->under_way = true;
    return Pending(started);
  }

  [[nodiscard]] std::shared_ptr<Started> free_request() {
    return started_.take([](const Started& known) { return !known.under_way; },
                         [this] { return make_request(); });
  }
  [[nodiscard]] std::shared_ptr<Started> make_request() {
    return std::make_shared<Started>(device_);
  }

  /// What `messages_` lists, as one operation.
  void send_messages(Clique& clique, const char* operation, int rank, ElementType type,
                     const void* send, void* receive) {
    if (messages_.go_through_host(device_, send, receive)) {
      if (device_.is_capturing()) internal_error("what lies in the host's memory is captured");
      turn().wait();
    }
    messages_.bring_to_device(device_, type, send, receive);
    begin(clique, operation);
    messages_.enqueue(device_, clique, rank, type);
    end();
    lead_kernels();
    if (messages_.arrive_on_host()) {
      turn().wait();
      messages_.bring_to_host(type, receive);
    }
  }

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
  RequestPool<Started> started_;
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
