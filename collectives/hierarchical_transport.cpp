#include "collectives/hierarchical_transport.h"

#include <mpi.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "collectives/blocks.h"
#include "collectives/error.h"
#include "collectives/hosted.h"
#include "collectives/mpi_transport.h"
#include "collectives/nodes.h"

namespace meshwork {

namespace {

SharedTransportOptions with_nodes(SharedTransportOptions options,
                                  std::shared_ptr<const Nodes> nodes) {
  options.nodes = std::move(nodes);
  return options;
}

class HierarchicalTransport final : public Transport {
 public:
  HierarchicalTransport(const Communicator& ranks, const SharedTransportOptions& options,
                        Progress progress)
      : ranks_(ranks.duplicate()),
        nodes_(nodes_for(ranks, options)),
        progress_(settled(progress)),
        mpi_(make_mpi_transport({.nodes = nodes_, .progress = progress_})),
        shared_(make_shared_transport(ranks, with_nodes(options, nodes_))) {
    shared_->follow_with([this] { hand_over_reduced(); });
  }

  [[nodiscard]] std::string_view name() const override { return "hierarchical"; }
  void give_up() override { mpi_->give_up(); }

  void prepare(const Communicator& communicator) override {
    if (communicator.attachment(key_.get()) != nullptr) return;
    const int here = nodes_->ranks_each(communicator);
    // The same number on all siblings, and whether all of them are as long.
    const int own[4] = {here, -here, communicator.size(), -communicator.size()};
    int least[4];
    await_ranks(ranks_);
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
    } else {
      levels->by = mpi_.get();
      mpi_->prepare(communicator);
    }
    communicator.attach(key_, levels);
  }

  void reserve(std::int64_t bytes, std::span<const std::int64_t> started) override {
    mpi_->reserve(bytes, started);
  }

  void advance() override {
    if (!wants_advancing()) return;
    shared_->advance();
    mpi_->advance();
  }
  [[nodiscard]] bool wants_advancing() const override {
    return progress_ != Progress::none || shared_->wants_advancing() || mpi_->wants_advancing();
  }

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

  [[nodiscard]] Compiled make(const Communicator& communicator, const Collective& collective,
                              Use use) override {
    if (const Levels* levels = levels_of(communicator)) {
      const auto on_two = [&](const auto& one) { return on_levels(*levels, one, use); };
      if (const auto* const one = std::get_if<AllReduce>(&collective)) return on_two(*one);
      if (const auto* const one = std::get_if<ReduceScatter>(&collective)) return on_two(*one);
      if (const auto* const one = std::get_if<AllGather>(&collective)) return on_two(*one);
    }
    if (is_on_node(communicator)) return shared_->compile(communicator, collective, use);
    Compiled by_mpi = mpi_->compile(communicator, collective, use);
    if (use == Use::started && std::holds_alternative<AllGather>(collective)) {
      return std::make_unique<Gathered>(*this, std::move(by_mpi));
    }
    if (use == Use::started) return by_mpi;  // nobody is waited for
    return done_by([this, by_mpi = std::move(by_mpi)](const void* send, void* receive) {
      before_mpi();
      by_mpi->run(send, receive);
    });
  }

 private:
  /// What is kept for a prepared communicator.
  struct Levels {
    Transport* by = nullptr;  // the one that serves it alone; null: it has two levels
    std::unique_ptr<Communicator> node, peers;

    [[nodiscard]] int nodes() const { return peers->size(); }
    [[nodiscard]] int each() const { return node->size(); }
    /// Of what every rank has, what those of node `node` have.
    [[nodiscard]] std::vector<std::int64_t> of_node(Counts all, int node_index) const {
      const Counts here = all.subspan(static_cast<std::size_t>(node_index * each()),
                                      static_cast<std::size_t>(each()));
      return {here.begin(), here.end()};
    }
    /// The same for the peers of this rank.
    [[nodiscard]] std::vector<std::int64_t> of_peers(Counts all) const {
      std::vector<std::int64_t> chosen;
      for (int index = 0; index < nodes(); ++index) {
        chosen.push_back(all[static_cast<std::size_t>(index * each() + node->rank())]);
      }
      return chosen;
    }
  };

  /// A reduction over two levels: in parts on the node, one for each of its ranks; then each part
  /// between its peers; then, if it is whole, gathered.
  struct TwoLevels {
    TwoLevels(HierarchicalTransport& transport, const Levels& levels, const AllReduce& what,
              Use between) {
      const auto begin = [&](int rank) {
        return part_begin(what.count, rank, levels.each(), what.type);
      };
      AllGather parts{what.type, {}, {}};
      for (int rank = 0; rank < levels.each(); ++rank) {
        parts.offsets.push_back(begin(rank));
        parts.counts.push_back(begin(rank + 1) - begin(rank));
      }
      const auto own = static_cast<std::size_t>(levels.node->rank());
      own_begin = parts.offsets[own] * element_bytes(what.type);
      AllReduce on_node = what;
      on_node.in_parts = true;
      in_parts = transport.shared_->compile(*levels.node, on_node, Use::started);
      const AllReduce of_part{what.type, what.reduction, parts.counts[own]};
      between_peers = transport.mpi_->compile(*levels.peers, of_part, between);
      if (!what.in_parts) gathered = transport.shared_->compile(*levels.node, parts);
    }
    [[nodiscard]] std::byte* own_part(void* buffer) const {
      return static_cast<std::byte*>(buffer) + own_begin;
    }
    [[nodiscard]] bool is_whole() const { return gathered != nullptr; }
    /// Who gathers has its part, so it has read what it needs of the buffers of others: what is
    /// written to a buffer now, its owner's part and those of ranks that gather, nobody reads.
    void gather(void* buffer) const { gathered->run(own_part(buffer), buffer); }

    std::shared_ptr<CompiledCollective> in_parts, between_peers;
    Compiled gathered;           // null: in parts
    std::int64_t own_begin = 0;  // bytes
  };

  /// An all-reduce over two levels on its way: on the node, handed over to MPI, gathered.
  class Started final : public CompiledCollective {
   public:
    Started(HierarchicalTransport& of, const Levels& levels, const AllReduce& what)
        : steps(of, levels, what, Use::started), transport_(of) {
      of.queue_.reserve(++of.startable_);
    }
    ~Started() override { --transport_.startable_; }
    void start(const void* /*send*/, void* of_rank) override {
      buffer = of_rank;
      handed_over = false;
      on_node = Pending(steps.in_parts, nullptr, buffer);
      transport_.queue_.push_back(this);
      under_way = true;
      transport_.hand_over_reduced();
    }
    void wait() override {
      while (under_way) transport_.finish(transport_.first_to_finish_before(*this));
    }
    [[nodiscard]] bool is_complete() const override {
      return !under_way || (handed_over && !steps.is_whole() && between_nodes.is_complete());
    }

    TwoLevels steps;
    void* buffer = nullptr;
    bool under_way = false;
    bool handed_over = false;
    Pending on_node, between_nodes;

   private:
    HierarchicalTransport& transport_;
  };

  [[nodiscard]] Compiled on_levels(const Levels& levels, const AllReduce& what, Use use) {
    if (use == Use::started) return std::make_unique<Started>(*this, levels, what);
    return done_by([this, on = TwoLevels(*this, levels, what, use)](const void*, void* buffer) {
      finish_whole();
      on.in_parts->run(nullptr, buffer);
      before_mpi();
      on.between_peers->run(nullptr, on.own_part(buffer));
      if (on.is_whole()) on.gather(buffer);
    });
  }

  [[nodiscard]] Compiled on_levels(const Levels& levels, const ReduceScatter& what, Use) {
    struct OfNode {
      Compiled scattered;
      std::int64_t from, to;  // bytes
    };
    const std::int64_t width = element_bytes(what.type);
    const ReduceScatter between{what.type, levels.of_peers(what.counts)};
    std::vector<OfNode> nodes;
    for (int node = 0; node < levels.nodes(); ++node) {
      nodes.push_back(
          {shared_->compile(*levels.node,
                            ReduceScatter{what.type, levels.of_node(what.counts, node)}),
           width * begin_of(what.counts, node * levels.each()),
           width * begin_of(between.counts, node)});
    }
    reserve_sums(width * total_of(between.counts));
    return done_by([this, nodes = std::move(nodes),
                    between_peers = mpi_->compile(*levels.peers, between)](const void* send,
                                                                           void* receive) {
      finish_whole();
      for (const OfNode& node : nodes) {
        node.scattered->run(static_cast<const std::byte*>(send) + node.from, sums_.get() + node.to);
      }
      before_mpi();
      between_peers->run(sums_.get(), receive);
    });
  }

  [[nodiscard]] Compiled on_levels(const Levels& levels, const AllGather& what, Use) {
    struct OfNode {
      Compiled gathered;
      std::int64_t own;  // bytes
    };
    const AllGather between{what.type, levels.of_peers(what.counts), levels.of_peers(what.offsets)};
    std::vector<OfNode> nodes;
    for (int node = 0; node < levels.nodes(); ++node) {
      const AllGather here{what.type, levels.of_node(what.counts, node),
                           levels.of_node(what.offsets, node)};
      nodes.push_back({shared_->compile(*levels.node, here),
                       element_bytes(what.type) * between.offsets[static_cast<std::size_t>(node)]});
    }
    return done_by(
        [this, nodes = std::move(nodes), between_peers = mpi_->compile(*levels.peers, between)](
            const void* send, void* receive) {
          finish_whole();
          before_mpi();
          between_peers->run(send, receive);
          for (const OfNode& node : nodes) {
            node.gathered->run(static_cast<std::byte*>(receive) + node.own, receive);
          }
        });
  }

  /// An all-gather by MPI that was started.
  class Gathered final : public CompiledCollective {
   public:
    Gathered(HierarchicalTransport& transport, Compiled by_mpi)
        : transport_(transport), by_mpi_(std::move(by_mpi)) {}
    void start(const void* send, void* receive) override {
      transport_.before_mpi();  // where it is done at once
      by_mpi_->start(send, receive);
    }
    void wait() override {
      transport_.before_mpi();
      by_mpi_->wait();
    }
    [[nodiscard]] bool is_complete() const override { return by_mpi_->is_complete(); }

   private:
    HierarchicalTransport& transport_;
    Compiled by_mpi_;
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
  /// A rank that is in MPI brings no node on, so it first does what others may wait for.
  void before_mpi() {
    shared_->finish_started();
    hand_over_reduced();
  }

  /// Memory for the sums of nodes, which costs nothing before it is written to.
  void reserve_sums(std::int64_t bytes) {
    if (bytes <= sums_bytes_) return;
    sums_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes));
    sums_bytes_ = bytes;
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

  static void hand_over(Started& started) {
    started.on_node.wait();
    started.handed_over = true;
    started.between_nodes =
        Pending(started.steps.between_peers, nullptr, started.steps.own_part(started.buffer));
  }

  /// Brings a started operation to its end, and no other.
  void finish(Started& started) {
    before_mpi();
    // To MPI they all go, in the order of their start: peers may wait for another one first.
    for (Started* const other : queue_) {
      if (!other->handed_over) hand_over(*other);
    }
    started.between_nodes.wait();
    std::erase(queue_, &started);
    if (started.steps.is_whole()) started.steps.gather(started.buffer);
    started.under_way = false;
  }

  /// What comes first of a started operation and the whole ones before it: all ranks of a node
  /// gather these in one order, whatever they wait for.
  [[nodiscard]] Started& first_to_finish_before(Started& last) {
    return **std::ranges::find_if(queue_, [&](const Started* started) {
      return started->steps.is_whole() || started == &last;
    });
  }

  /// Before another operation over two levels: on a node, all ranks gather before they come to it.
  void finish_whole() {
    const auto first = [this] {
      return std::ranges::find_if(queue_,
                                  [](const Started* started) { return started->steps.is_whole(); });
    };
    for (auto at = first(); at != queue_.end(); at = first()) finish(**at);
  }

  Communicator ranks_;
  std::shared_ptr<const Nodes> nodes_;
  Progress progress_;
  std::unique_ptr<Transport> mpi_;
  std::unique_ptr<SharedTransport> shared_;
  std::shared_ptr<const int> key_ = std::make_shared<const int>(0);  // whose attachments are ours
  std::vector<Started*> queue_;                                      // in the order of their start
  std::size_t startable_ = 0;          // that were compiled and may be in it
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
