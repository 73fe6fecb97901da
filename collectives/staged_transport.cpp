#include "collectives/staged_transport.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "collectives/error.h"

namespace meshwork {

namespace {

std::int64_t sum(std::span<const std::int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

std::byte* at(void* memory, std::int64_t bytes) {
  return static_cast<std::byte*>(memory) + bytes;
}
const std::byte* at(const void* memory, std::int64_t bytes) {
  return static_cast<const std::byte*>(memory) + bytes;
}

/// Piece `piece` of `pieces` of a block. All blocks of an operation are cut into as many.
struct Piece {
  std::int64_t begin = 0, count = 0;
  Piece(std::int64_t block, std::int64_t piece, std::int64_t pieces)
      : begin(block / pieces * piece + block % pieces * piece / pieces),
        count(block / pieces * (piece + 1) + block % pieces * (piece + 1) / pieces - begin) {}
};

/// A started reduction, from its start until it was waited for, and what is kept for the next.
struct Started {
  struct Part {
    std::int64_t begin = 0, count = 0;  // elements
    std::unique_ptr<Mark> arrived;      // where the inner transport finds it
    Pending pending;                    // of the inner transport
  };
  Memory staging;  // none where the inner transport reaches the device
  std::vector<Part> parts;
  std::size_t used = 0;  // of the parts
  const Communicator* communicator = nullptr;
  ElementType type = ElementType::float32;
  Reduction reduction = Reduction::sum;
  void* buffer = nullptr;      // of the device
  std::unique_ptr<Mark> back;  // when it was copied back
  bool under_way = false;
};

class StagedTransport final : public Transport {
 public:
  StagedTransport(std::unique_ptr<Transport> inner, DeviceQueues& device,
                  const StagedTransportOptions& options)
      : inner_(std::move(inner)),
        device_(device),
        options_(options),
        behind_kernels_(device.make_mark()),
        back_(device.make_mark()) {}

  [[nodiscard]] std::string_view name() const override { return inner_->name(); }

  void prepare(const Communicator& communicator) override { inner_->prepare(communicator); }

  void reserve(std::int64_t bytes, std::span<const std::int64_t> started) override {
    inner_->reserve(bytes, started);
    if (options_.inner_reaches_device) bytes = 0;
    stage(bytes);
    reserve_marks(pieces_of(bytes));
    // The largest of those under way takes the smallest that is large enough, and so on.
    std::vector<std::int64_t> wanted(started.begin(), started.end());
    std::sort(wanted.begin(), wanted.end(), std::greater<>());
    std::vector<const Started*> taken;
    for (const std::int64_t most : wanted) {
      const auto is_free = [&](const StartedRequest& request) {
        return std::find(taken.begin(), taken.end(), &request.state) == taken.end();
      };
      taken.push_back(&room_for(most, is_free)->state);
    }
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
    hand_on_started();
    inner_->barrier_of_sharers(communicator);
  }

  void all_reduce(const Communicator& communicator, ElementType type, Reduction reduction,
                  void* buffer, std::int64_t count) override {
    if (communicator.size() == 1 || count == 0 || !staged({buffer})) {
      inner_->all_reduce(communicator, type, reduction, buffer, count);
      return;
    }
    const std::int64_t width = element_bytes(type);
    std::byte* const host = stage(count * width);
    const std::int64_t pieces = pieces_of(count * width);
    for (std::int64_t i = 0; i < pieces; ++i) {
      const Piece piece(count, i, pieces);
      fetch(i, at(host, piece.begin * width), at(buffer, piece.begin * width), piece.count * width);
    }
    for (std::int64_t i = 0; i < pieces; ++i) {
      const Piece piece(count, i, pieces);
      std::byte* const here = at(host, piece.begin * width);
      marks_[static_cast<std::size_t>(i)]->wait();
      inner_->all_reduce(communicator, type, reduction, here, piece.count);
      device_.transfers().start_copy(at(buffer, piece.begin * width), here, piece.count * width);
    }
    lead_kernels({buffer});
  }

  [[nodiscard]] Pending start_all_reduce(const Communicator& communicator, ElementType type,
                                         Reduction reduction, void* buffer,
                                         std::int64_t count) override {
    hand_on_started();
    if (communicator.size() == 1 || count == 0 || !device_.owns(buffer)) {
      return inner_->start_all_reduce(communicator, type, reduction, buffer, count);
    }
    return start(communicator, type, reduction, buffer, count);
  }

  /// A reduction whose other parts are not to be had is the same on a device: they come anyway.
  [[nodiscard]] Pending start_reduce_in_parts(const Communicator& communicator, ElementType type,
                                              Reduction reduction, void* buffer,
                                              std::int64_t count) override {
    hand_on_started();
    if (communicator.size() == 1 || count == 0 || !device_.owns(buffer)) {
      return inner_->start_reduce_in_parts(communicator, type, reduction, buffer, count);
    }
    return start(communicator, type, reduction, buffer, count);
  }

  void reduce_scatter(const Communicator& communicator, ElementType type, const void* send,
                      void* receive, std::span<const std::int64_t> counts) override {
    if (std::ssize(counts) != communicator.size() || sum(counts) == 0 || !staged({send, receive})) {
      inner_->reduce_scatter(communicator, type, send, receive, counts);
      return;
    }
    const std::int64_t width = element_bytes(type);
    const std::int64_t own = counts[static_cast<std::size_t>(communicator.rank())];
    const std::int64_t pieces = pieces_of(sum(counts) * width);
    std::byte* const sent = stage((sum(counts) + own) * width);
    std::byte* const received = at(sent, sum(counts) * width);
    // A piece holds a part of every block, one block after the other.
    std::int64_t to = 0;
    for (std::int64_t i = 0; i < pieces; ++i) {
      std::int64_t block = 0;
      for (const std::int64_t count : counts) {
        const Piece piece(count, i, pieces);
        device_.transfers().start_copy(
            at(sent, to * width), at(send, (block + piece.begin) * width), piece.count * width);
        to += piece.count;
        block += count;
      }
      device_.transfers().record(mark(i));
    }
    std::int64_t from = 0;
    counts_.resize(counts.size());
    for (std::int64_t i = 0; i < pieces; ++i) {
      for (std::size_t rank = 0; rank < counts.size(); ++rank) {
        counts_[rank] = Piece(counts[rank], i, pieces).count;
      }
      const Piece mine(own, i, pieces);
      std::byte* const here = at(received, mine.begin * width);
      mark(i).wait();
      inner_->reduce_scatter(communicator, type, at(sent, from * width), here, counts_);
      device_.transfers().start_copy(at(receive, mine.begin * width), here, mine.count * width);
      from += sum(counts_);
    }
    lead_kernels({send, receive});
  }

  void all_gather(const Communicator& communicator, ElementType type, const void* send,
                  void* receive, std::span<const std::int64_t> counts,
                  std::span<const std::int64_t> offsets) override {
    if (std::ssize(counts) != communicator.size() || std::ssize(offsets) != communicator.size() ||
        sum(counts) == 0 || !staged({send, receive})) {
      inner_->all_gather(communicator, type, send, receive, counts, offsets);
      return;
    }
    const std::int64_t width = element_bytes(type);
    const auto rank = static_cast<std::size_t>(communicator.rank());
    std::int64_t extent = 0;
    for (std::size_t block = 0; block < counts.size(); ++block) {
      if (counts[block] > 0) extent = std::max(extent, offsets[block] + counts[block]);
    }
    std::byte* const host = stage(extent * width);  // as `receive`
    const std::int64_t pieces = pieces_of(sum(counts) * width);
    const auto place = [&](std::size_t block, const Piece& piece) {
      return (offsets[block] + piece.begin) * width;
    };
    for (std::int64_t i = 0; i < pieces; ++i) {
      const Piece piece(counts[rank], i, pieces);
      fetch(i, counts[rank] > 0 ? at(host, place(rank, piece)) : nullptr,
            at(send, piece.begin * width), piece.count * width);
    }
    counts_.resize(counts.size());
    offsets_.resize(counts.size());
    for (std::int64_t i = 0; i < pieces; ++i) {
      for (std::size_t block = 0; block < counts.size(); ++block) {
        const Piece piece(counts[block], i, pieces);
        counts_[block] = piece.count;
        offsets_[block] = offsets[block] + piece.begin;
      }
      mark(i).wait();
      inner_->all_gather(communicator, type, at(host, offsets_[rank] * width), host, counts_,
                         offsets_);
      for (std::size_t block = 0; block < counts.size(); ++block) {
        const std::int64_t begin = offsets_[block] * width;
        const bool there = block == rank && at(receive, offsets[block] * width) == send;
        if (there || counts_[block] == 0) continue;
        device_.transfers().start_copy(at(receive, begin), at(host, begin), counts_[block] * width);
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
    std::byte* const sent = stage((sum(send_counts) + sum(receive_counts)) * width);
    std::byte* const received = at(sent, sum(send_counts) * width);
    offsets_.resize(ranks);
    receive_offsets_.resize(ranks);
    std::int64_t end = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      offsets_[rank] = end;
      bring(at(sent, end * width), send, send_offsets[rank] * width, send_counts[rank] * width);
      end += send_counts[rank];
    }
    end = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      receive_offsets_[rank] = end;
      end += receive_counts[rank];
    }
    device_.transfers().record(mark(0));
    mark(0).wait();
    inner_->all_to_all(communicator, type, sent, send_counts, offsets_, received, receive_counts,
                       receive_offsets_);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      if (receive_counts[rank] == 0) continue;
      device_.transfers().start_copy(at(receive, receive_offsets[rank] * width),
                                     at(received, receive_offsets_[rank] * width),
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
    std::byte* const sent = stage((sent_count + received_count) * width);
    std::byte* const received = at(sent, sent_count * width);
    for (std::size_t i = 0; i < sends.size(); ++i) {
      bring(at(sent, sends_[i].offset * width), send, sends[i].offset * width,
            sends[i].count * width);
    }
    device_.transfers().record(mark(0));
    mark(0).wait();
    inner_->exchange(communicator, type, sent, sends_, received, receives_);
    for (std::size_t i = 0; i < receives.size(); ++i) {
      device_.transfers().start_copy(at(receive, receives[i].offset * width),
                                     at(received, receives_[i].offset * width),
                                     receives[i].count * width);
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
    std::byte* const host = stage(count * width);
    const std::int64_t pieces = pieces_of(count * width);
    for (std::int64_t i = 0; i < pieces; ++i) {
      const Piece piece(count, i, pieces);
      fetch(i, at(host, piece.begin * width), at(buffer, piece.begin * width),
            sends ? piece.count * width : 0);
    }
    for (std::int64_t i = 0; i < pieces; ++i) {
      const Piece piece(count, i, pieces);
      std::byte* const here = at(host, piece.begin * width);
      mark(i).wait();
      inner_->broadcast(communicator, type, here, piece.count, root);
      if (sends) continue;
      device_.transfers().start_copy(at(buffer, piece.begin * width), here, piece.count * width);
    }
    lead_kernels({buffer});
  }

 private:
  /// What a `Pending` holds: the wait is the transport's.
  class StartedRequest final : public Pending::Request {
   public:
    explicit StartedRequest(StagedTransport& transport) : transport_(transport) {}
    void wait() override { transport_.finish(state); }

    Started state;

   private:
    StagedTransport& transport_;
  };

  // ---- order ------------------------------------------------------------------------------------

  /// Puts an operation on these buffers in its place: behind the reductions that were started and,
  /// where one of them is the device's, behind its kernels. Whether it is to be staged; if not, the
  /// inner transport takes it as it is.
  bool staged(std::initializer_list<const void*> buffers) {
    hand_on_started();
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

  // ---- staging ----------------------------------------------------------------------------------

  [[nodiscard]] std::int64_t pieces_of(std::int64_t bytes) const {
    return std::max<std::int64_t>(1, (bytes + options_.piece_bytes - 1) / options_.piece_bytes);
  }

  /// Pinned memory for an operation. Copies from it may be under way: it is written to by copies
  /// behind them, or when such a copy was waited for.
  std::byte* stage(std::int64_t bytes) {
    if (bytes > staging_.bytes()) staging_ = device_.allocate_pinned(bytes);
    return staging_.bytes_at(0);
  }

  void reserve_marks(std::int64_t count) {
    while (std::ssize(marks_) < count) marks_.push_back(device_.make_mark());
  }
  Mark& mark(std::int64_t piece) {
    reserve_marks(piece + 1);
    return *marks_[static_cast<std::size_t>(piece)];
  }

  void bring(void* destination, const void* source, std::int64_t offset, std::int64_t bytes) {
    if (bytes > 0) device_.transfers().start_copy(destination, at(source, offset), bytes);
  }
  /// Piece `piece` on its way to the host; its mark tells when it has arrived.
  void fetch(std::int64_t piece, void* destination, const void* source, std::int64_t bytes) {
    bring(destination, source, 0, bytes);
    device_.transfers().record(mark(piece));
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

  // ---- started reductions -----------------------------------------------------------------------

  Pending start(const Communicator& communicator, ElementType type, Reduction reduction,
                void* buffer, std::int64_t count) {
    const std::int64_t width = element_bytes(type);
    const std::shared_ptr<StartedRequest> request = room_for(
        count * width, [this](const StartedRequest& known) { return !known.state.under_way; });
    Started& started = request->state;
    started.communicator = &communicator;
    started.type = type;
    started.reduction = reduction;
    started.buffer = buffer;
    started.under_way = true;
    device_.kernels().record(*behind_kernels_);
    const bool copies = !options_.inner_reaches_device;
    if (copies) device_.transfers().wait_for(*behind_kernels_);
    const std::int64_t pieces = copies ? pieces_of(count * width) : 1;
    prepare_parts(started, pieces);
    started.used = static_cast<std::size_t>(pieces);
    for (std::int64_t i = 0; i < pieces; ++i) {
      const Piece piece(count, i, pieces);
      Started::Part& part = started.parts[static_cast<std::size_t>(i)];
      part.begin = piece.begin;
      part.count = piece.count;
      if (copies) {
        const std::int64_t begin = piece.begin * width;
        device_.transfers().start_copy(started.staging.bytes_at(begin), at(buffer, begin),
                                       piece.count * width);
      }
      (copies ? device_.transfers() : device_.kernels()).record(*part.arrived);
    }
    not_handed_on_.push_back(&started);
    return Pending(request);
  }

  /// Where the inner transport finds a part.
  static std::byte* place_of(const Started& started, const Started::Part& part) {
    const std::int64_t begin = part.begin * element_bytes(started.type);
    return started.staging.data() != nullptr ? started.staging.bytes_at(begin)
                                             : at(started.buffer, begin);
  }

  /// Tells the inner transport of every reduction that was started, in order, when it has arrived.
  void hand_on_started() {
    for (Started* const started : not_handed_on_) {
      for (std::size_t i = 0; i < started->used; ++i) {
        Started::Part& part = started->parts[i];
        part.arrived->wait();
        part.pending =
            inner_->start_all_reduce(*started->communicator, started->type, started->reduction,
                                     place_of(*started, part), part.count);
      }
    }
    not_handed_on_.clear();
  }

  void finish(Started& started) {
    hand_on_started();
    const std::int64_t width = element_bytes(started.type);
    for (std::size_t i = 0; i < started.used; ++i) {
      Started::Part& part = started.parts[i];
      part.pending.wait();
      if (options_.inner_reaches_device) continue;
      device_.transfers().start_copy(at(started.buffer, part.begin * width),
                                     place_of(started, part), part.count * width);
    }
    if (!options_.inner_reaches_device) {
      device_.transfers().record(*started.back);
      device_.kernels().wait_for(*started.back);
    }
    started.under_way = false;
  }

  void prepare_parts(Started& started, std::int64_t pieces) {
    while (std::ssize(started.parts) < pieces) {
      started.parts.emplace_back().arrived = device_.make_mark();
    }
  }

  /// The smallest room for a reduction of `bytes` that `is_free`; a new one if there is none.
  template <class IsFree>
  std::shared_ptr<StartedRequest> room_for(std::int64_t bytes, const IsFree& is_free) {
    if (options_.inner_reaches_device) bytes = 0;
    const std::shared_ptr<StartedRequest>* smallest = nullptr;
    for (const std::shared_ptr<StartedRequest>& request : started_) {
      if (!is_free(*request) || request->state.staging.bytes() < bytes) continue;
      if (smallest == nullptr ||
          request->state.staging.bytes() < (*smallest)->state.staging.bytes()) {
        smallest = &request;
      }
    }
    if (smallest != nullptr) return *smallest;
    const auto made = std::make_shared<StartedRequest>(*this);
    if (bytes > 0) made->state.staging = device_.allocate_pinned(bytes);
    made->state.back = device_.make_mark();
    prepare_parts(made->state, pieces_of(bytes));
    not_handed_on_.reserve(started_.size() + 1);
    return started_.emplace_back(made);
  }

  std::unique_ptr<Transport> inner_;
  DeviceQueues& device_;
  StagedTransportOptions options_;
  std::unique_ptr<Mark> behind_kernels_;
  std::unique_ptr<Mark> back_;                // behind the last copy from the staging memory
  Memory staging_;                            // of operations that are not started
  std::vector<std::unique_ptr<Mark>> marks_;  // by piece: when it has arrived
  std::vector<std::shared_ptr<StartedRequest>> started_;
  std::vector<Started*> not_handed_on_;
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
