#include "collectives/hierarchical_transport.h"

#include <mpi.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "collectives/blocks.h"
#include "collectives/error.h"
#include "collectives/mpi_transport.h"
#include "collectives/nodes.h"
#include "collectives/request_pool.h"

namespace meshwork {

namespace {

class HierarchicalTransport final : public Transport {
 public:
  HierarchicalTransport(const Communicator& ranks, const SharedTransportOptions& options,
                        Progress progress)
      : ranks_(ranks.duplicate()),
        nodes_(std::make_shared<const Nodes>(ranks, options.ranks_a_node)),
        progress_(settled(progress)),
        mpi_(make_mpi_transport({.nodes = nodes_, .progress = progress_})),
        shared_(make_shared_transport(ranks, options)) {
    shared_->follow_with([this] { hand_over_reduced(); });
  }

  [[nodiscard]] std::string_view name() const override { return "hierarchical"; }

  void prepare(const Communicator& communicator) override {
    if (communicator.attachment(key_.get()) != nullptr) return;
    const int here = nodes_->ranks_each(communicator);
    // The same number on all siblings, and whether all of them are as long.
    const int own[4] = {here, -here, communicator.size(), -communicator.size()};
    int least[4];
    check_mpi(MPI_Allreduce(own, least, 4, MPI_INT, MPI_MIN, ranks_.native()), "MPI_Allreduce");
    const bool alike = least[0] == -least[1] && least[2] == -least[3];
    const auto levels = std::make_shared<Levels>();
    if (alike && here == communicator.size()) {
      levels->by = shared_.get();
      shared_->prepare(communicator);
    } else if (alike && here > 1) {
      const int node = communicator.rank() / here;
      const int index = communicator.rank() % here;
      levels->node = std::make_unique<Communicator>(communicator.split(node, index));
      levels->peers = std::make_unique<Communicator>(communicator.split(index, node));
      shared_->prepare(*levels->node);
      mpi_->prepare(*levels->peers);
      levels->counts.reserve(static_cast<std::size_t>(communicator.size()));
      levels->offsets.reserve(static_cast<std::size_t>(communicator.size()));
    } else {
      levels->by = mpi_.get();
      mpi_->prepare(communicator);
    }
    communicator.attach(key_, levels);
  }

  void reserve(std::int64_t bytes, std::span<const std::int64_t> started) override {
    mpi_->reserve(bytes, started);
    shared_->reserve(bytes, started);
    reserve_sums(bytes);
    started_.reserve(started.size(), [this] { return std::make_shared<Started>(*this); });
    queue_.reserve(started.size());
  }

  void advance() override {
    if (progress_ == Progress::none) return;
    shared_->advance();
    mpi_->advance();
  }
  [[nodiscard]] bool wants_advancing() const override { return progress_ != Progress::none; }

  [[nodiscard]] TransportMemory allocate(const Communicator& communicator,
                                         std::int64_t bytes) override {
    return shared_->allocate(communicator, bytes);
  }

  [[nodiscard]] bool shares_memory() const override { return true; }

  [[nodiscard]] Sharers sharers(const Communicator& communicator) const override {
    const Levels* levels = levels_of(communicator);
    if (levels != nullptr) return {levels->node->rank(), levels->node->size()};
    return is_on_node(communicator) ? shared_->sharers(communicator) : Sharers();
  }

  void barrier_of_sharers(const Communicator& communicator) override {
    if (const Levels* levels = levels_of(communicator)) {
      shared_->barrier_of_sharers(*levels->node);
    } else if (is_on_node(communicator)) {
      shared_->barrier_of_sharers(communicator);
    }
  }

  void all_reduce(const Communicator& communicator, ElementType type, Reduction reduction,
                  void* buffer, std::int64_t count) override {
    Levels* levels = levels_of(communicator);
    if (levels == nullptr) {
      alone(communicator).all_reduce(communicator, type, reduction, buffer, count);
      return;
    }
    finish_whole();
    const Parts parts{levels, type, static_cast<std::byte*>(buffer), count};
    shared_->start_reduce_in_parts(*levels->node, type, reduction, buffer, count).wait();
    by_mpi().all_reduce(*levels->peers, type, reduction, parts.own(), parts.own_count());
    gather(parts);
  }

  [[nodiscard]] Pending start_all_reduce(const Communicator& communicator, ElementType type,
                                         Reduction reduction, void* buffer,
                                         std::int64_t count) override {
    if (Levels* levels = levels_of(communicator)) {
      return start(*levels, type, reduction, buffer, count, true);
    }
    return starting(communicator).start_all_reduce(communicator, type, reduction, buffer, count);
  }

  [[nodiscard]] Pending start_reduce_in_parts(const Communicator& communicator, ElementType type,
                                              Reduction reduction, void* buffer,
                                              std::int64_t count) override {
    if (Levels* levels = levels_of(communicator)) {
      return start(*levels, type, reduction, buffer, count, false);
    }
    return starting(communicator)
        .start_reduce_in_parts(communicator, type, reduction, buffer, count);
  }

  void reduce_scatter(const Communicator& communicator, ElementType type, const void* send,
                      void* receive, Counts counts) override {
    Levels* levels = levels_of(communicator);
    if (levels == nullptr) {
      alone(communicator).reduce_scatter(communicator, type, send, receive, counts);
      return;
    }
    finish_whole();
    const std::int64_t width = element_bytes(type);
    const int index = levels->node->rank();
    const int each = levels->node->size();
    take_counts_of_peers(*levels, counts);
    reserve_sums(width * begin_of(levels->counts, levels->size()));
    std::byte* sums = sums_.get();
    for (int node = 0; node < levels->size(); ++node) {
      const Counts of_node =
          counts.subspan(static_cast<std::size_t>(node * each), static_cast<std::size_t>(each));
      shared_->reduce_scatter(
          *levels->node, type,
          static_cast<const std::byte*>(send) + width * begin_of(counts, node * each), sums,
          of_node);
      sums += width * of_node[static_cast<std::size_t>(index)];
    }
    by_mpi().reduce_scatter(*levels->peers, type, sums_.get(), receive, levels->counts);
  }

  void all_gather(const Communicator& communicator, ElementType type, const void* send,
                  void* receive, Counts counts, Counts offsets) override {
    Levels* levels = levels_of(communicator);
    if (levels == nullptr) {
      alone(communicator).all_gather(communicator, type, send, receive, counts, offsets);
      return;
    }
    finish_whole();
    const int index = levels->node->rank();
    const int each = levels->node->size();
    take_counts_of_peers(*levels, counts);
    levels->offsets.clear();
    for (int node = 0; node < levels->size(); ++node) {
      levels->offsets.push_back(offsets[static_cast<std::size_t>(node * each + index)]);
    }
    by_mpi().all_gather(*levels->peers, type, send, receive, levels->counts, levels->offsets);
    for (int node = 0; node < levels->size(); ++node) {
      const auto begin = static_cast<std::size_t>(node * each);
      const std::byte* own = static_cast<const std::byte*>(receive) +
                             element_bytes(type) * levels->offsets[static_cast<std::size_t>(node)];
      shared_->all_gather(*levels->node, type, own, receive,
                          counts.subspan(begin, static_cast<std::size_t>(each)),
                          offsets.subspan(begin, static_cast<std::size_t>(each)));
    }
  }

  void all_to_all(const Communicator& communicator, ElementType type, const void* send,
                  Counts send_counts, Counts send_offsets, void* receive, Counts receive_counts,
                  Counts receive_offsets) override {
    alone(communicator)
        .all_to_all(communicator, type, send, send_counts, send_offsets, receive, receive_counts,
                    receive_offsets);
  }

  void exchange(const Communicator& communicator, ElementType type, const void* send,
                std::span<const NeighbourBlock> sends, void* receive,
                std::span<const NeighbourBlock> receives) override {
    alone(communicator).exchange(communicator, type, send, sends, receive, receives);
  }

  void broadcast(const Communicator& communicator, ElementType type, void* buffer,
                 std::int64_t count, int root) override {
    alone(communicator).broadcast(communicator, type, buffer, count, root);
  }

 private:
  /// What is kept for a prepared communicator.
  struct Levels {
    Transport* by = nullptr;  // the one that serves it alone; null: it has two levels
    std::unique_ptr<Communicator> node, peers;
    // Of the call in progress, kept so that a call allocates only the first time.
    std::vector<std::int64_t> counts, offsets;

    [[nodiscard]] int size() const { return peers->size(); }  // nodes
  };

  /// A buffer that is reduced in parts, one for each rank of a node.
  struct Parts {
    Levels* levels = nullptr;
    ElementType type{};
    std::byte* buffer = nullptr;
    std::int64_t count = 0;

    [[nodiscard]] std::int64_t begin(int rank) const {
      return part_begin(count, rank, levels->node->size(), type);
    }
    [[nodiscard]] std::int64_t count_of(int rank) const { return begin(rank + 1) - begin(rank); }
    [[nodiscard]] std::byte* own() const {
      return buffer + element_bytes(type) * begin(levels->node->rank());
    }
    [[nodiscard]] std::int64_t own_count() const { return count_of(levels->node->rank()); }
  };

  /// An all-reduce over two levels on its way: on the node, handed over to MPI, gathered.
  class Started final : public Pending::Request {
   public:
    explicit Started(HierarchicalTransport& of) : transport(of) {}
    void wait() override {
      while (under_way) transport.finish(transport.first_to_finish_before(*this));
    }
    [[nodiscard]] bool is_complete() const override {
      return !under_way || (handed_over && !whole && between_nodes.is_complete());
    }

    HierarchicalTransport& transport;
    bool under_way = false;
    bool whole = true;  // else in parts
    bool handed_over = false;
    Parts parts;
    Reduction reduction{};
    Pending on_node, between_nodes;
  };

  /// Null if the communicator does not have two levels.
  [[nodiscard]] Levels* levels_of(const Communicator& communicator) const {
    auto* const levels = static_cast<Levels*>(communicator.attachment(key_.get()));
    return levels != nullptr && levels->by == nullptr ? levels : nullptr;
  }
  /// Whether the ranks of the communicator, which has not two levels, are on one node.
  [[nodiscard]] bool is_on_node(const Communicator& communicator) const {
    const auto* const levels = static_cast<Levels*>(communicator.attachment(key_.get()));
    return levels != nullptr && levels->by == shared_.get();
  }
  /// Who serves an operation that is not done on two levels.
  [[nodiscard]] Transport& alone(const Communicator& communicator) {
    return is_on_node(communicator) ? *shared_ : by_mpi();
  }
  /// A rank that is in MPI brings no node on, so it first does what others may wait for.
  [[nodiscard]] Transport& by_mpi() {
    shared_->finish_started();
    hand_over_reduced();
    return *mpi_;
  }
  /// Who starts one: nobody is waited for.
  [[nodiscard]] Transport& starting(const Communicator& communicator) {
    return is_on_node(communicator) ? static_cast<Transport&>(*shared_) : *mpi_;
  }

  /// Memory for the sums of nodes, which costs nothing before it is written to.
  void reserve_sums(std::int64_t bytes) {
    if (bytes <= sums_bytes_) return;
    sums_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes));
    sums_bytes_ = bytes;
  }

  static void take_counts_of_peers(Levels& levels, Counts counts) {
    const auto each = static_cast<std::size_t>(levels.node->size());
    if (counts.size() != each * static_cast<std::size_t>(levels.size())) {
      internal_error(fmt::format("{} blocks were given to a collective of {} ranks", counts.size(),
                                 each * static_cast<std::size_t>(levels.size())));
    }
    levels.counts.clear();
    for (auto rank = static_cast<std::size_t>(levels.node->rank()); rank < counts.size();
         rank += each) {
      levels.counts.push_back(counts[rank]);
    }
  }

  [[nodiscard]] Pending start(Levels& levels, ElementType type, Reduction reduction, void* buffer,
                              std::int64_t count, bool whole) {
    const std::shared_ptr<Started> started =
        started_.take([](const Started& known) { return !known.under_way; },
                      [this] { return std::make_shared<Started>(*this); });
    started->under_way = true;
    started->whole = whole;
    started->handed_over = false;
    started->parts = {&levels, type, static_cast<std::byte*>(buffer), count};
    started->reduction = reduction;
    queue_.push_back(started.get());
    started->on_node = shared_->start_reduce_in_parts(*levels.node, type, reduction, buffer, count);
    hand_over_reduced();
    return Pending(started);
  }

  /// Hands over to MPI what is reduced on the node, in the order of the start.
  void hand_over_reduced() {
    if (progress_ == Progress::none) return;
    for (Started* const started : queue_) {
      if (started->handed_over) continue;
      if (!started->on_node.active() || !started->on_node.is_complete()) return;
      hand_over(*started);
    }
  }

  void hand_over(Started& started) {
    started.on_node.wait();
    started.handed_over = true;
    const Parts& parts = started.parts;
    started.between_nodes = mpi_->start_all_reduce(
        *parts.levels->peers, parts.type, started.reduction, parts.own(), parts.own_count());
  }

  /// Brings a started operation to its end, and no other.
  void finish(Started& started) {
    shared_->finish_started();
    hand_over_reduced();
    // To MPI they all go, in the order of their start: peers may wait for another one first.
    for (Started* const other : queue_) {
      if (!other->handed_over) hand_over(*other);
    }
    started.between_nodes.wait();
    std::erase(queue_, &started);
    if (started.whole) gather(started.parts);
    started.under_way = false;
  }

  /// What comes first of a started operation and the whole ones before it: all ranks of a node
  /// gather these in one order, whatever they wait for.
  [[nodiscard]] Started& first_to_finish_before(Started& last) {
    return **std::ranges::find_if(
        queue_, [&](const Started* started) { return started->whole || started == &last; });
  }

  /// Who gathers has its part, so it has read what it needs of the buffers of others: what is
  /// written to a buffer now, its owner's part and those of ranks that gather, nobody reads.
  void gather(const Parts& parts) {
    Levels& levels = *parts.levels;
    levels.counts.clear();
    levels.offsets.clear();
    for (int rank = 0; rank < levels.node->size(); ++rank) {
      levels.counts.push_back(parts.count_of(rank));
      levels.offsets.push_back(parts.begin(rank));
    }
    shared_->all_gather(*levels.node, parts.type, parts.own(), parts.buffer, levels.counts,
                        levels.offsets);
  }

  /// Before another operation over two levels: on a node, all ranks gather before they come to it.
  void finish_whole() {
    const auto first = [this] {
      return std::ranges::find_if(queue_, [](const Started* started) { return started->whole; });
    };
    for (auto at = first(); at != queue_.end(); at = first()) finish(**at);
  }

  Communicator ranks_;
  std::shared_ptr<const Nodes> nodes_;
  Progress progress_;
  std::unique_ptr<Transport> mpi_;
  std::unique_ptr<SharedTransport> shared_;
  std::shared_ptr<const int> key_ = std::make_shared<const int>(0);  // whose attachments are ours
  RequestPool<Started> started_;
  std::vector<Started*> queue_;        // in the order of their start
  std::unique_ptr<std::byte[]> sums_;  // of nodes, in a reduce-scatter
  std::int64_t sums_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Transport> make_hierarchical_transport(const Communicator& ranks,
                                                       const SharedTransportOptions& options,
                                                       Progress progress) {
  return std::make_unique<HierarchicalTransport>(ranks, options, progress);
}

}  // namespace meshwork
