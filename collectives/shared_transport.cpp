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

/// A started operation that was over at once.
class Complete final : public Pending::Request {
 public:
  void wait() override {}
  [[nodiscard]] bool is_complete() const override { return true; }
};

class Implementation final : public SharedTransport {
 public:
  Implementation(const Communicator& ranks, const SharedTransportOptions& options)
      : options_(options),
        several_ranks_(ranks.size() > 1),
        nodes_(ranks, options.ranks_a_node),
        mpi_(make_mpi_transport()) {
    options_.group.crowded = options.crowded.value_or(nodes_.is_crowded());
    const Communicator node = nodes_.split(ranks);
    if (node.size() > 1) bells_ = std::make_shared<SharedBells>(node);
  }

  [[nodiscard]] std::string_view name() const override { return "shared"; }

  void prepare(const Communicator& communicator) override {
    if (communicator.size() > 1) (void)attached(communicator);
  }

  [[nodiscard]] TransportMemory allocate(const Communicator& communicator,
                                         std::int64_t bytes) override {
    // The ranks of a node have a window to themselves, whatever the communicator spans.
    const Communicator node = nodes_.split(communicator);
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
  void advance() override { agenda_->advance(); }

  [[nodiscard]] bool shares_memory() const override { return several_ranks_; }

  [[nodiscard]] Sharers sharers(const Communicator& communicator) const override {
    return {communicator.rank(), communicator.size()};
  }

  void barrier_of_sharers(const Communicator& communicator) override {
    if (communicator.size() > 1) attached(communicator).barrier();
  }

  void all_reduce(const Communicator& communicator, ElementType type, Reduction reduction,
                  void* buffer, std::int64_t count) override {
    if (communicator.size() == 1 || count == 0) return;
    attached(communicator).all_reduce(type, reduction, buffer, count);
  }

  [[nodiscard]] Pending start_all_reduce(const Communicator& communicator, ElementType type,
                                         Reduction reduction, void* buffer,
                                         std::int64_t count) override {
    if (communicator.size() == 1 || count == 0) return Pending(complete_);
    return attached(communicator).start_all_reduce(type, reduction, buffer, count);
  }

  [[nodiscard]] Pending start_reduce_in_parts(const Communicator& communicator, ElementType type,
                                              Reduction reduction, void* buffer,
                                              std::int64_t count) override {
    if (communicator.size() == 1 || count == 0) return Pending(complete_);
    return attached(communicator).start_reduce_in_parts(type, reduction, buffer, count);
  }

  void reduce_scatter(const Communicator& communicator, ElementType type, const void* send,
                      void* receive, std::span<const std::int64_t> counts) override {
    check_blocks(communicator, {counts});
    if (communicator.size() > 1 && total_of(counts) > 0) {
      attached(communicator).reduce_scatter(type, send, receive, counts);
    } else {
      mpi_->reduce_scatter(communicator, type, send, receive, counts);
    }
  }

  void all_gather(const Communicator& communicator, ElementType type, const void* send,
                  void* receive, std::span<const std::int64_t> counts,
                  std::span<const std::int64_t> offsets) override {
    check_blocks(communicator, {counts, offsets});
    if (communicator.size() > 1 && total_of(counts) > 0) {
      attached(communicator).all_gather(type, send, receive, counts, offsets);
    } else {
      mpi_->all_gather(communicator, type, send, receive, counts, offsets);
    }
  }

  void all_to_all(const Communicator& communicator, ElementType type, const void* send,
                  std::span<const std::int64_t> send_counts,
                  std::span<const std::int64_t> send_offsets, void* receive,
                  std::span<const std::int64_t> receive_counts,
                  std::span<const std::int64_t> receive_offsets) override {
    check_blocks(communicator, {send_counts, send_offsets, receive_counts, receive_offsets});
    if (communicator.size() == 1) {
      mpi_->all_to_all(communicator, type, send, send_counts, send_offsets, receive, receive_counts,
                       receive_offsets);
      return;
    }
    const std::size_t own = static_cast<std::size_t>(communicator.rank());
    if (send_counts[own] != receive_counts[own]) {
      internal_error(
          fmt::format("an all-to-all sends {} elements to its own rank, which expects {}",
                      send_counts[own], receive_counts[own]));
    }
    attached(communicator)
        .all_to_all(type, send, send_counts, send_offsets, receive, receive_counts,
                    receive_offsets);
  }

  void exchange(const Communicator& communicator, ElementType type, const void* send,
                std::span<const NeighbourBlock> sends, void* receive,
                std::span<const NeighbourBlock> receives) override {
    // Some ranks may not be here, so nothing can be made together: what is not there is MPI's, on
    // all ranks alike.
    auto* const group = static_cast<SharedGroup*>(communicator.attachment(key_.get()));
    if (group == nullptr) {
      mpi_->exchange(communicator, type, send, sends, receive, receives);
      return;
    }
    check_neighbours(communicator, sends);
    check_neighbours(communicator, receives);
    group->exchange(type, send, sends, receive, receives);
  }

  void broadcast(const Communicator& communicator, ElementType type, void* buffer,
                 std::int64_t count, int root) override {
    if (communicator.size() == 1 || count == 0) return;
    attached(communicator).broadcast(type, buffer, count, root);
  }

 private:
  /// Keeps a window of the ranks of one node for those of a larger communicator.
  class OfNode final : public TransportMemory::Owner {
   public:
    explicit OfNode(TransportMemory memory) : memory_(std::move(memory)) {}

   private:
    TransportMemory memory_;
  };

  /// The group of a communicator of at least two ranks. The first time, every rank calls it.
  [[nodiscard]] SharedGroup& attached(const Communicator& communicator) {
    if (void* found = communicator.attachment(key_.get())) return *static_cast<SharedGroup*>(found);
    require_one_node(communicator, nodes_);
    const auto group =
        std::make_shared<SharedGroup>(communicator, options_.group, windows_, bells_, agenda_);
    communicator.attach(key_, group);
    return *group;
  }

  SharedTransportOptions options_;
  bool several_ranks_;
  Nodes nodes_;
  std::unique_ptr<Transport> mpi_;
  std::shared_ptr<const int> key_ = std::make_shared<const int>(0);  // whose attachments are ours
  std::shared_ptr<SharedWindows> windows_ = std::make_shared<SharedWindows>();
  std::shared_ptr<const SharedBells> bells_;  // null: one rank on its node
  std::shared_ptr<SharedAgenda> agenda_ = std::make_shared<SharedAgenda>();
  std::shared_ptr<Pending::Request> complete_ = std::make_shared<Complete>();
};

}  // namespace

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
