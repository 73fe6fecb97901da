#include "collectives/shared_transport.h"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "collectives/blocks.h"
#include "collectives/error.h"
#include "collectives/mpi_transport.h"
#include "collectives/nodes.h"
#include "collectives/shared_bells.h"

namespace meshwork {

namespace {

class Implementation final : public SharedTransport {
 public:
  Implementation(const Communicator& ranks, const SharedTransportOptions& options)
      : options_(options),
        several_ranks_(ranks.size() > 1),
        nodes_(nodes_for(ranks, options)),
        mpi_(make_mpi_transport()) {
    options_.group.crowded = options.crowded.value_or(nodes_->is_crowded());
    if (is_on_one_node(ranks)) {
      if (several_ranks_) bells_ = std::make_shared<SharedBells>(ranks);
    } else if (const Communicator node = nodes_->split(ranks); node.size() > 1) {
      bells_ = std::make_shared<SharedBells>(node);
    }
  }

  [[nodiscard]] std::string_view name() const override { return "shared"; }

  void prepare(const Communicator& communicator) override {
    if (communicator.size() > 1) (void)attached(communicator);
  }

  [[nodiscard]] TransportMemory allocate(const Communicator& communicator,
                                         std::int64_t bytes) override {
    if (communicator.size() > 1 && is_on_one_node(communicator)) {
      return SharedWindows::allocate(windows_, communicator, bytes);
    }
    // The ranks of a node have a window to themselves, whatever the communicator spans.
    const Communicator node = nodes_->split(communicator);
    if (node.size() == 1) return mpi_->allocate(communicator, bytes);
    TransportMemory of_node = SharedWindows::allocate(windows_, node, bytes);
    const std::vector<int> of_all = job_ranks_of(communicator);
    const std::vector<int> here = job_ranks_of(node);
    std::vector<std::span<std::byte>> parts(of_all.size());
    for (std::size_t rank = 0; rank < of_all.size(); ++rank) {
      const auto found = std::ranges::find(here, of_all[rank]);
      if (found != here.end()) parts[rank] = of_node.of(static_cast<int>(found - here.begin()));
    }
    return {std::make_unique<OfNode>(std::move(of_node)), std::move(parts), communicator.rank()};
  }

  void finish_started() override { agenda_->finish(); }
  void follow_with(std::function<void()> action) override {
    agenda_->follow_with(std::move(action));
  }
  void advance() override {
    agenda_->advance();
    mpi_->advance();
  }
  [[nodiscard]] bool wants_advancing() const override { return mpi_->wants_advancing(); }

  [[nodiscard]] bool shares_memory() const override { return several_ranks_; }

  [[nodiscard]] Sharers sharers(const Communicator& communicator) const override {
    return {communicator.rank(), communicator.size()};
  }

  void barrier_of_sharers(const Communicator& communicator) override {
    if (communicator.size() > 1) attached(communicator).barrier();
  }

 protected:
  [[nodiscard]] Compiled make(const Communicator& communicator, const Collective& collective,
                              Use use) override {
    return std::visit([&](const auto& one) { return made(communicator, one, use); }, collective);
  }

 private:
  /// Keeps a window of the ranks of one node for those of a larger communicator.
  class OfNode final : public TransportMemory::Owner {
   public:
    explicit OfNode(TransportMemory memory) : memory_(std::move(memory)) {}

   private:
    TransportMemory memory_;
  };

  [[nodiscard]] Compiled made(const Communicator& communicator, const AllReduce& what, Use use) {
    if (communicator.size() == 1 || what.count == 0) return done_by([](const void*, void*) {});
    SharedGroup& group = attached(communicator);
    if (use == Use::started) return group.started(what);
    return done_by([&group, what](const void*, void* buffer) { group.all_reduce(what, buffer); });
  }
  [[nodiscard]] Compiled made(const Communicator& communicator, const ReduceScatter& what, Use) {
    return by_blocks(communicator, what, &SharedGroup::reduce_scatter);
  }
  [[nodiscard]] Compiled made(const Communicator& communicator, const AllGather& what, Use) {
    return by_blocks(communicator, what, &SharedGroup::all_gather);
  }
  [[nodiscard]] Compiled made(const Communicator& communicator, const AllToAll& what, Use) {
    if (communicator.size() == 1) return mpi_->compile(communicator, what);
    SharedGroup& group = attached(communicator);
    group.expect_blocks(what);
    return done_by(
        [&group, what](const void* send, void* receive) { group.all_to_all(what, send, receive); });
  }
  // Some ranks may not be here, so nothing can be made together: what is not there is MPI's, on all
  // ranks alike.
  [[nodiscard]] Compiled made(const Communicator& communicator, const Exchange& what, Use use) {
    auto* const group = static_cast<SharedGroup*>(communicator.attachment(key_.get()));
    if (group == nullptr || use == Use::started) return mpi_->compile(communicator, what, use);
    return done_by(
        [group, what](const void* send, void* receive) { group->exchange(what, send, receive); });
  }
  [[nodiscard]] Compiled made(const Communicator& communicator, const Broadcast& what, Use) {
    if (communicator.size() == 1 || what.count == 0) return done_by([](const void*, void*) {});
    return done_by([&group = attached(communicator), what](const void*, void* buffer) {
      group.broadcast(what, buffer);
    });
  }
  /// What there is no way for through shared memory.
  template <class Other>
  [[nodiscard]] Compiled made(const Communicator& communicator, const Other& what, Use use) {
    return mpi_->compile(communicator, what, use);
  }
  /// What has at least one element and one other rank is the group's.
  template <class Blocks>
  [[nodiscard]] Compiled by_blocks(const Communicator& communicator, const Blocks& what,
                                   void (SharedGroup::*run)(const Blocks&, const void*, void*)) {
    if (communicator.size() == 1 || total_of(what.counts) == 0) {
      return mpi_->compile(communicator, what);
    }
    return done_by([&group = attached(communicator), what, run](const void* send, void* receive) {
      (group.*run)(what, send, receive);
    });
  }

  [[nodiscard]] bool is_on_one_node(const Communicator& communicator) const {
    return nodes_->ranks_each(communicator) == communicator.size();
  }

  /// The group of a communicator of at least two ranks. The first time, every rank calls it.
  [[nodiscard]] SharedGroup& attached(const Communicator& communicator) {
    if (void* found = communicator.attachment(key_.get())) return *static_cast<SharedGroup*>(found);
    require_one_node(communicator, *nodes_);
    const auto group =
        std::make_shared<SharedGroup>(communicator, options_.group, windows_, bells_, agenda_);
    communicator.attach(key_, group);
    return *group;
  }

  SharedTransportOptions options_;
  bool several_ranks_;
  std::shared_ptr<const Nodes> nodes_;
  std::unique_ptr<Transport> mpi_;
  std::shared_ptr<const int> key_ = std::make_shared<const int>(0);  // whose attachments are ours
  std::shared_ptr<SharedWindows> windows_ = std::make_shared<SharedWindows>();
  std::shared_ptr<const SharedBells> bells_;  // null: one rank on its node
  std::shared_ptr<SharedAgenda> agenda_ = std::make_shared<SharedAgenda>();
};

}  // namespace

std::shared_ptr<const Nodes> nodes_for(const Communicator& ranks,
                                       const SharedTransportOptions& options) {
  return options.nodes ? options.nodes : std::make_shared<const Nodes>(ranks, options.ranks_a_node);
}

void require_one_node(const Communicator& communicator, const Nodes& nodes) {
  if (nodes.ranks_each(communicator) != communicator.size()) {
    fail(
        "the transport \"shared\" is for ranks of one node, and these {} are on several; \"auto\" "
        "takes shared memory inside nodes and MPI between them",
        communicator.size());
  }
}

std::unique_ptr<SharedTransport> make_shared_transport(const Communicator& ranks,
                                                       const SharedTransportOptions& options) {
  return std::make_unique<Implementation>(ranks, options);
}

}  // namespace meshwork
