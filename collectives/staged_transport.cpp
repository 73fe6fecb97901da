#include "collectives/staged_transport.h"

#include <algorithm>
#include <initializer_list>
#include <utility>
#include <vector>

#include "collectives/blocks.h"
#include "collectives/staging.h"
#include "collectives/started_reductions.h"

namespace meshwork {

namespace {

class StagedTransport final : public Transport {
 public:
  StagedTransport(std::unique_ptr<Transport> inner, DeviceQueues& device,
                  const StagedTransportOptions& options)
      : inner_(std::move(inner)),
        device_(device),
        options_(options),
        behind_kernels_(device.make_mark()),
        back_(device.make_mark()),
        staging_(device, options.piece_bytes),
        started_(*inner_, device, options.piece_bytes, !options.inner_reaches_device) {}

  [[nodiscard]] std::string_view name() const override {
    return options_.name.empty() ? inner_->name() : options_.name;
  }
  [[nodiscard]] std::string remark() const override { return options_.remark; }

  void prepare(const Communicator& communicator) override { inner_->prepare(communicator); }

  void reserve(std::int64_t bytes, std::span<const std::int64_t> started) override {
    inner_->reserve(bytes, started);
    if (!options_.inner_reaches_device) staging_.reserve(bytes);
    started_.reserve(started);
  }

  [[nodiscard]] TransportMemory allocate(const Communicator& communicator,
                                         std::int64_t bytes) override {
    return inner_->allocate(communicator, bytes);
  }

  [[nodiscard]] bool shares_memory() const override { return inner_->shares_memory(); }

  [[nodiscard]] Sharers sharers(const Communicator& communicator) const override {
    return inner_->sharers(communicator);
  }

  void barrier_of_sharers(const Communicator& communicator) override {
    started_.hand_on();
    inner_->barrier_of_sharers(communicator);
  }

  void all_reduce(const Communicator& communicator, ElementType type, Reduction reduction,
                  void* buffer, std::int64_t count) override {
    if (communicator.size() == 1 || count == 0 || !staged({buffer})) {
      inner_->all_reduce(communicator, type, reduction, buffer, count);
      return;
    }
    const std::int64_t width = element_bytes(type);
    std::byte* const host = staging_.take(count * width);
    const std::int64_t pieces = staging_.pieces_of(count * width);
    for (std::int64_t i = 0; i < pieces; ++i) {
      const Piece piece(count, i, pieces);
      staging_.copy(element_at(host, piece.begin, type), element_at(buffer, piece.begin, type),
                    piece.count * width);
      staging_.end_piece(i);
    }
    for (std::int64_t i = 0; i < pieces; ++i) {
      const Piece piece(count, i, pieces);
      std::byte* const here = element_at(host, piece.begin, type);
      staging_.wait_for_piece(i);
      inner_->all_reduce(communicator, type, reduction, here, piece.count);
      staging_.copy(element_at(buffer, piece.begin, type), here, piece.count * width);
    }
    lead_kernels({buffer});
  }

  [[nodiscard]] Pending start_all_reduce(const Communicator& communicator, ElementType type,
                                         Reduction reduction, void* buffer,
                                         std::int64_t count) override {
    started_.hand_on();
    if (communicator.size() == 1 || count == 0 || !device_.owns(buffer)) {
      return inner_->start_all_reduce(communicator, type, reduction, buffer, count);
    }
    return started_.start(communicator, type, reduction, buffer, count);
  }

  /// A reduction whose other parts are not to be had is the same on a device: they come anyway.
  [[nodiscard]] Pending start_reduce_in_parts(const Communicator& communicator, ElementType type,
                                              Reduction reduction, void* buffer,
                                              std::int64_t count) override {
    started_.hand_on();
    if (communicator.size() == 1 || count == 0 || !device_.owns(buffer)) {
      return inner_->start_reduce_in_parts(communicator, type, reduction, buffer, count);
    }
    return started_.start(communicator, type, reduction, buffer, count);
  }

  void reduce_scatter(const Communicator& communicator, ElementType type, const void* send,
                      void* receive, std::span<const std::int64_t> counts) override {
    if (std::ssize(counts) != communicator.size() || total_of(counts) == 0 ||
        !staged({send, receive})) {
      inner_->reduce_scatter(communicator, type, send, receive, counts);
      return;
    }
    const std::int64_t width = element_bytes(type);
    const std::int64_t own = counts[static_cast<std::size_t>(communicator.rank())];
    const std::int64_t pieces = staging_.pieces_of(total_of(counts) * width);
    std::byte* const sent = staging_.take((total_of(counts) + own) * width);
    std::byte* const received = element_at(sent, total_of(counts), type);
    // A piece holds a part of every block, one block after the other.
    std::int64_t to = 0;
    for (std::int64_t i = 0; i < pieces; ++i) {
      std::int64_t block = 0;
      for (const std::int64_t count : counts) {
        const Piece piece(count, i, pieces);
        staging_.copy(element_at(sent, to, type), element_at(send, block + piece.begin, type),
                      piece.count * width);
        to += piece.count;
        block += count;
      }
      staging_.end_piece(i);
    }
    std::int64_t from = 0;
    counts_.resize(counts.size());
    for (std::int64_t i = 0; i < pieces; ++i) {
      for (std::size_t rank = 0; rank < counts.size(); ++rank) {
        counts_[rank] = Piece(counts[rank], i, pieces).count;
      }
      const Piece mine(own, i, pieces);
      std::byte* const here = element_at(received, mine.begin, type);
      staging_.wait_for_piece(i);
      inner_->reduce_scatter(communicator, type, element_at(sent, from, type), here, counts_);
      staging_.copy(element_at(receive, mine.begin, type), here, mine.count * width);
      from += total_of(counts_);
    }
    lead_kernels({send, receive});
  }

  void all_gather(const Communicator& communicator, ElementType type, const void* send,
                  void* receive, std::span<const std::int64_t> counts,
                  std::span<const std::int64_t> offsets) override {
    if (std::ssize(counts) != communicator.size() || std::ssize(offsets) != communicator.size() ||
        total_of(counts) == 0 || !staged({send, receive})) {
      inner_->all_gather(communicator, type, send, receive, counts, offsets);
      return;
    }
    const std::int64_t width = element_bytes(type);
    const auto rank = static_cast<std::size_t>(communicator.rank());
    std::byte* const host = staging_.take(extent_of(counts, offsets) * width);  // as `receive`
    const std::int64_t pieces = staging_.pieces_of(total_of(counts) * width);
    for (std::int64_t i = 0; i < pieces; ++i) {
      const Piece piece(counts[rank], i, pieces);
      if (piece.count > 0) {
        staging_.copy(element_at(host, offsets[rank] + piece.begin, type),
                      element_at(send, piece.begin, type), piece.count * width);
      }
      staging_.end_piece(i);
    }
    counts_.resize(counts.size());
    offsets_.resize(counts.size());
    for (std::int64_t i = 0; i < pieces; ++i) {
      for (std::size_t block = 0; block < counts.size(); ++block) {
        const Piece piece(counts[block], i, pieces);
        counts_[block] = piece.count;
        offsets_[block] = offsets[block] + piece.begin;
      }
      staging_.wait_for_piece(i);
      inner_->all_gather(communicator, type, element_at(host, offsets_[rank], type), host, counts_,
                         offsets_);
      for (std::size_t block = 0; block < counts.size(); ++block) {
        const bool there = block == rank && element_at(receive, offsets[block], type) == send;
        if (there) continue;
        staging_.copy(element_at(receive, offsets_[block], type),
                      element_at(host, offsets_[block], type), counts_[block] * width);
      }
    }
    lead_kernels({send, receive});
  }

  void all_to_all(const Communicator& communicator, ElementType type, const void* send,
                  std::span<const std::int64_t> send_counts,
                  std::span<const std::int64_t> send_offsets, void* receive,
                  std::span<const std::int64_t> receive_counts,
                  std::span<const std::int64_t> receive_offsets) override {
    const auto ranks = static_cast<std::size_t>(communicator.size());
    if (send_counts.size() != ranks || send_offsets.size() != ranks ||
        receive_counts.size() != ranks || receive_offsets.size() != ranks ||
        !staged({send, receive})) {
      inner_->all_to_all(communicator, type, send, send_counts, send_offsets, receive,
                         receive_counts, receive_offsets);
      return;
    }
    const std::int64_t width = element_bytes(type);
    std::byte* const sent =
        staging_.take((total_of(send_counts) + total_of(receive_counts)) * width);
    std::byte* const received = element_at(sent, total_of(send_counts), type);
    offsets_.resize(ranks);
    receive_offsets_.resize(ranks);
    std::int64_t end = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      offsets_[rank] = end;
      if (send_counts[rank] == 0) continue;
      staging_.copy(element_at(sent, end, type), element_at(send, send_offsets[rank], type),
                    send_counts[rank] * width);
      end += send_counts[rank];
    }
    end = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      receive_offsets_[rank] = end;
      end += receive_counts[rank];
    }
    staging_.end_piece(0);
    staging_.wait_for_piece(0);
    inner_->all_to_all(communicator, type, sent, send_counts, offsets_, received, receive_counts,
                       receive_offsets_);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      if (receive_counts[rank] == 0) continue;
      staging_.copy(element_at(receive, receive_offsets[rank], type),
                    element_at(received, receive_offsets_[rank], type),
                    receive_counts[rank] * width);
    }
    lead_kernels({send, receive});
  }

  void exchange(const Communicator& communicator, ElementType type, const void* send,
                std::span<const NeighbourBlock> sends, void* receive,
                std::span<const NeighbourBlock> receives) override {
    if (!staged({send, receive})) {
      inner_->exchange(communicator, type, send, sends, receive, receives);
      return;
    }
    const std::int64_t width = element_bytes(type);
    const std::int64_t sent_count = compact(sends, sends_);
    const std::int64_t received_count = compact(receives, receives_);
    std::byte* const sent = staging_.take((sent_count + received_count) * width);
    std::byte* const received = element_at(sent, sent_count, type);
    for (std::size_t i = 0; i < sends.size(); ++i) {
      staging_.copy(element_at(sent, sends_[i].offset, type),
                    element_at(send, sends[i].offset, type), sends[i].count * width);
    }
    staging_.end_piece(0);
    staging_.wait_for_piece(0);
    inner_->exchange(communicator, type, sent, sends_, received, receives_);
    for (std::size_t i = 0; i < receives.size(); ++i) {
      staging_.copy(element_at(receive, receives[i].offset, type),
                    element_at(received, receives_[i].offset, type), receives[i].count * width);
    }
    lead_kernels({send, receive});
  }

  void broadcast(const Communicator& communicator, ElementType type, void* buffer,
                 std::int64_t count, int root) override {
    if (communicator.size() == 1 || count == 0 || !staged({buffer})) {
      inner_->broadcast(communicator, type, buffer, count, root);
      return;
    }
    const std::int64_t width = element_bytes(type);
    const bool sends = communicator.rank() == root;
    std::byte* const host = staging_.take(count * width);
    const std::int64_t pieces = staging_.pieces_of(count * width);
    for (std::int64_t i = 0; i < pieces; ++i) {
      const Piece piece(count, i, pieces);
      if (sends) {
        staging_.copy(element_at(host, piece.begin, type), element_at(buffer, piece.begin, type),
                      piece.count * width);
      }
      staging_.end_piece(i);
    }
    for (std::int64_t i = 0; i < pieces; ++i) {
      const Piece piece(count, i, pieces);
      std::byte* const here = element_at(host, piece.begin, type);
      staging_.wait_for_piece(i);
      inner_->broadcast(communicator, type, here, piece.count, root);
      if (sends) continue;
      staging_.copy(element_at(buffer, piece.begin, type), here, piece.count * width);
    }
    lead_kernels({buffer});
  }

 private:
  /// Puts an operation on these buffers in its place: behind the reductions that were started and,
  /// where one of them is the device's, behind its kernels. Whether it is to be staged; if not, the
  /// inner transport takes it as it is.
  bool staged(std::initializer_list<const void*> buffers) {
    started_.hand_on();
    if (std::none_of(buffers.begin(), buffers.end(),
                     [&](const void* buffer) { return device_.owns(buffer); })) {
      return false;
    }
    device_.kernels().record(*behind_kernels_);
    if (options_.inner_reaches_device) {
      behind_kernels_->wait();
      return false;
    }
    device_.transfers().wait_for(*behind_kernels_);
    return true;
  }

  /// Lets kernels that are started from now on see what was copied back to these buffers. The
  /// processor sees it too if one of them is the host's.
  void lead_kernels(std::initializer_list<const void*> buffers) {
    device_.transfers().record(*back_);
    device_.kernels().wait_for(*back_);
    if (!std::all_of(buffers.begin(), buffers.end(),
                     [&](const void* buffer) { return device_.owns(buffer); })) {
      back_->wait();
    }
  }

  /// The blocks one after the other; returns their count.
  static std::int64_t compact(std::span<const NeighbourBlock> blocks,
                              std::vector<NeighbourBlock>& compacted) {
    compacted.assign(blocks.begin(), blocks.end());
    std::int64_t end = 0;
    for (NeighbourBlock& block : compacted) {
      block.offset = end;
      end += block.count;
    }
    return end;
  }

  std::unique_ptr<Transport> inner_;
  DeviceQueues& device_;
  StagedTransportOptions options_;
  std::unique_ptr<Mark> behind_kernels_;
  std::unique_ptr<Mark> back_;  // behind the last copy from the staging memory
  Staging staging_;             // of operations that are not started
  StartedReductions started_;
  // Arguments of the call in progress, kept so that a call allocates only the first time.
  std::vector<std::int64_t> counts_, offsets_, receive_offsets_;
  std::vector<NeighbourBlock> sends_, receives_;
};

}  // namespace

std::unique_ptr<Transport> make_staged_transport(std::unique_ptr<Transport> inner,
                                                 DeviceQueues& device,
                                                 const StagedTransportOptions& options) {
  return std::make_unique<StagedTransport>(std::move(inner), device, options);
}

}  // namespace meshwork
