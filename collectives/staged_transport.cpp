#include "collectives/staged_transport.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "collectives/blocks.h"
#include "collectives/staging.h"
#include "collectives/started_reductions.h"

namespace meshwork {

namespace {

/// Elements that are copied between a buffer and the pinned memory.
struct Move {
  std::int64_t buffer = 0, host = 0, count = 0;
};

/// A part of a collective that goes between the ranks by itself, out of pinned memory and into it.
struct Cut {
  Collective part;
  std::int64_t send = 0, receive = 0;  // where its buffers are in the pinned memory
  std::vector<Move> in{}, out{};
};

/// How a collective goes through pinned memory.
struct CutUp {
  std::vector<Cut> cuts;
  std::int64_t elements = 0;  // of pinned memory
  // A block that is not copied back where it is in its place already.
  std::int64_t own_begin = -1, own_end = -1;  // in `receive`
};

/// Cuts collectives up for one rank. Large ones are cut into pieces (staging.h).
class Cutter {
 public:
  Cutter(int rank, const Staging& staging)
      : rank_(rank), own_(static_cast<std::size_t>(rank)), staging_(staging) {}

  CutUp operator()(const AllReduce& one) const {
    CutUp made{.cuts = {}, .elements = one.count};
    for (const Piece& piece : pieces(one.count, one)) {
      const Move move{piece.begin, piece.begin, piece.count};
      made.cuts.push_back({.part = AllReduce{one.type, one.reduction, piece.count},
                           .receive = piece.begin,
                           .in = {move},
                           .out = {move}});
    }
    return made;
  }

  CutUp operator()(const Broadcast& one) const {
    CutUp made{.cuts = {}, .elements = one.count};
    for (const Piece& piece : pieces(one.count, one)) {
      Cut cut{.part = Broadcast{one.type, piece.count, one.root}, .receive = piece.begin};
      (rank_ == one.root ? cut.in : cut.out).push_back({piece.begin, piece.begin, piece.count});
      made.cuts.push_back(std::move(cut));
    }
    return made;
  }

  // A piece holds a part of every block, one block after the other.
  CutUp operator()(const ReduceScatter& one) const {
    const std::int64_t total = total_of(one.counts);
    CutUp made{.cuts = {}, .elements = total + one.counts[own_]};
    std::int64_t to = 0;
    for (const Piece& mine : pieces(one.counts[own_], one)) {
      Cut cut{.part = {}, .send = to, .receive = total + mine.begin};
      ReduceScatter part{one.type, {}};
      std::int64_t block = 0;
      for (const std::int64_t count : one.counts) {
        const Piece piece(count, std::ssize(made.cuts), pieces_of(one));
        cut.in.push_back({block + piece.begin, to, piece.count});
        part.counts.push_back(piece.count);
        to += piece.count;
        block += count;
      }
      cut.part = std::move(part);
      cut.out = {{mine.begin, total + mine.begin, mine.count}};
      made.cuts.push_back(std::move(cut));
    }
    return made;
  }

  // Pinned memory is as `receive` is.
  CutUp operator()(const AllGather& one) const {
    CutUp made{.cuts = {},
               .elements = extent_of(one.counts, one.offsets),
               .own_begin = one.offsets[own_],
               .own_end = one.offsets[own_] + one.counts[own_]};
    for (const Piece& mine : pieces(one.counts[own_], one)) {
      AllGather part{one.type, {}, {}};
      Cut cut{.part = {}, .send = one.offsets[own_] + mine.begin};
      cut.in = {{mine.begin, cut.send, mine.count}};
      for (std::size_t block = 0; block < one.counts.size(); ++block) {
        const Piece piece(one.counts[block], std::ssize(made.cuts), pieces_of(one));
        const std::int64_t at = one.offsets[block] + piece.begin;
        part.counts.push_back(piece.count);
        part.offsets.push_back(at);
        cut.out.push_back({at, at, piece.count});
      }
      cut.part = std::move(part);
      made.cuts.push_back(std::move(cut));
    }
    return made;
  }

  // Blocks of an all-to-all and an exchange lie one after the other, first those that are sent.
  CutUp operator()(const AllToAll& one) const {
    Cut cut;
    AllToAll part = one;
    std::int64_t sent = 0, received = 0;
    for (std::size_t rank = 0; rank < one.send_counts.size(); ++rank) {
      cut.in.push_back({one.send_offsets[rank], sent, one.send_counts[rank]});
      part.send_offsets[rank] = std::exchange(sent, sent + one.send_counts[rank]);
      cut.out.push_back({one.receive_offsets[rank], received, one.receive_counts[rank]});
      part.receive_offsets[rank] = std::exchange(received, received + one.receive_counts[rank]);
    }
    return one_cut(std::move(cut), std::move(part), sent, received);
  }
  CutUp operator()(const Exchange& one) const {
    Cut cut;
    Exchange part = one;
    const std::int64_t sent = compact(part.sends, cut.in);
    const std::int64_t received = compact(part.receives, cut.out);
    return one_cut(std::move(cut), std::move(part), sent, received);
  }

  // Any other goes as a whole.
  template <class Other>
  CutUp operator()(const Other& one) const {
    const Extents extents = extents_of(one, rank_);
    Cut cut;
    cut.in = {{0, 0, is_in_place(one) ? extents.receive : extents.send}};
    cut.out = {{0, 0, extents.receive}};
    return one_cut(std::move(cut), one, extents.send, extents.receive);
  }

 private:
  static CutUp one_cut(Cut cut, Collective part, std::int64_t sent, std::int64_t received) {
    cut.part = std::move(part);
    cut.receive = sent;
    for (Move& move : cut.out) move.host += sent;
    return {.cuts = {std::move(cut)}, .elements = sent + received};
  }
  static std::int64_t compact(std::vector<NeighbourBlock>& blocks, std::vector<Move>& moves) {
    std::int64_t end = 0;
    for (NeighbourBlock& block : blocks) {
      moves.push_back({block.offset, end, block.count});
      block.offset = std::exchange(end, end + block.count);
    }
    return end;
  }

  /// By the whole that moves, which is the same on all ranks.
  template <class One>
  [[nodiscard]] std::int64_t pieces_of(const One& one) const {
    const std::int64_t whole = [&] {
      if constexpr (requires { one.counts; }) {
        return total_of(one.counts);
      } else {
        return one.count;
      }
    }();
    return staging_.pieces_of(whole * element_bytes(one.type));
  }
  template <class One>
  [[nodiscard]] std::vector<Piece> pieces(std::int64_t block, const One& one) const {
    std::vector<Piece> made;
    const std::int64_t count = pieces_of(one);
    for (std::int64_t piece = 0; piece < count; ++piece) made.emplace_back(block, piece, count);
    return made;
  }

  int rank_;
  std::size_t own_;
  const Staging& staging_;
};

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

 protected:
  [[nodiscard]] Compiled make(const Communicator& communicator, const Collective& collective,
                              Use use) override {
    // MPI takes a device's addresses in blocking operations alone, and in messages.
    const bool gathers = std::holds_alternative<AllGather>(collective);
    Compiled inner = inner_->compile(communicator, collective, gathers ? Use::at_once : use);
    if (is_in_place(collective) && communicator.size() == 1) return inner;
    const auto* const reduction = std::get_if<AllReduce>(&collective);
    if (use == Use::started && reduction != nullptr) {
      return started_.compile(communicator, *reduction, std::move(inner));
    }
    if (const auto* const exchange = std::get_if<Exchange>(&collective);
        use == Use::started && exchange != nullptr) {
      return std::make_unique<StartedMessages>(*this, communicator, *exchange, std::move(inner));
    }
    return std::make_unique<Staged>(*this, communicator, collective, std::move(inner));
  }

 private:
  /// One on elements of so many bytes.
  class OfElements : public CompiledCollective {
   protected:
    explicit OfElements(ElementType type) : width_(element_bytes(type)) {}
    [[nodiscard]] std::byte* at(void* memory, std::int64_t element) const {
      return static_cast<std::byte*>(memory) + element * width_;
    }
    [[nodiscard]] const std::byte* at(const void* memory, std::int64_t element) const {
      return static_cast<const std::byte*>(memory) + element * width_;
    }

    std::int64_t width_;
  };

  class Staged final : public OfElements {
   public:
    Staged(StagedTransport& transport, const Communicator& communicator,
           const Collective& collective, Compiled inner)
        : OfElements(type_of(collective)),
          transport_(transport),
          inner_(std::move(inner)),
          in_place_(is_in_place(collective)) {
      if (transport.options_.inner_reaches_device) return;
      CutUp cut_up = std::visit(Cutter(communicator.rank(), transport.staging_), collective);
      bytes_ = cut_up.elements * width_;
      own_begin_ = cut_up.own_begin;
      own_end_ = cut_up.own_end;
      for (Cut& cut : cut_up.cuts) {
        parts_.push_back({transport.inner_->compile(communicator, cut.part), cut.send, cut.receive,
                          std::move(cut.in), std::move(cut.out)});
      }
    }

    void start(const void* send, void* receive) override {
      const void* const source = in_place_ ? receive : send;
      if (!transport_.staged(source, receive)) return inner_->run(send, receive);
      Staging& staging = transport_.staging_;
      std::byte* const host = staging.take(bytes_);
      for (std::size_t i = 0; i < parts_.size(); ++i) {
        for (const Move& move : parts_[i].in) {
          staging.copy(at(host, move.host), at(source, move.buffer), move.count * width_);
        }
        staging.end_piece(static_cast<std::int64_t>(i));
      }
      const bool own_is_there = own_begin_ >= 0 && at(receive, own_begin_) == send;
      for (std::size_t i = 0; i < parts_.size(); ++i) {
        staging.wait_for_piece(static_cast<std::int64_t>(i));
        parts_[i].inner->run(at(host, parts_[i].send), at(host, parts_[i].receive));
        for (const Move& move : parts_[i].out) {
          const bool own = move.buffer >= own_begin_ && move.buffer < own_end_;
          if (own && own_is_there) continue;
          staging.copy(at(receive, move.buffer), at(host, move.host), move.count * width_);
        }
      }
      transport_.lead_kernels(source, receive);
    }

   private:
    struct Part {
      Compiled inner;
      std::int64_t send, receive;
      std::vector<Move> in, out;
    };

    StagedTransport& transport_;
    Compiled inner_;  // for buffers that it can reach
    bool in_place_;
    std::int64_t bytes_ = 0, own_begin_ = -1, own_end_ = -1;
    std::vector<Part> parts_;
  };

  /// An exchange that is on its way until it was waited for, through pinned memory of its own.
  class StartedMessages final : public OfElements {
   public:
    StartedMessages(StagedTransport& transport, const Communicator& communicator,
                    const Exchange& what, Compiled inner)
        : OfElements(what.type), transport_(transport), inner_(std::move(inner)) {
      if (transport.options_.inner_reaches_device) return;
      CutUp cut_up = Cutter(communicator.rank(), transport.staging_)(what);
      cut_ = std::move(cut_up.cuts.front());
      pinned_ = transport.device_.allocate_pinned(cut_up.elements * width_);
      copied_ = transport.device_.make_mark();
      host_ = transport.inner_->compile(communicator, cut_.part, Use::started);
    }

    void start(const void* send, void* receive) override {
      is_staged_ = transport_.staged(send, receive);
      receive_ = receive;
      if (!is_staged_) return inner_->start(send, receive);
      copied_->wait();  // what it brought the last time
      for (const Move& move : cut_.in) {
        copy(at(pinned_.data(), move.host), at(send, move.buffer), move.count);
      }
      if (!cut_.in.empty()) {
        transport_.device_.transfers().record(*copied_);
        copied_->wait();
      }
      host_->start(at(pinned_.data(), cut_.send), at(pinned_.data(), cut_.receive));
    }
    void wait() override {
      if (!is_staged_) return inner_->wait();
      host_->wait();
      for (const Move& move : cut_.out) {
        copy(at(receive_, move.buffer), at(pinned_.data(), move.host), move.count);
      }
      if (cut_.out.empty()) return;
      transport_.device_.transfers().record(*copied_);
      transport_.device_.kernels().wait_for(*copied_);
    }
    [[nodiscard]] bool is_complete() const override {
      return is_staged_ ? cut_.out.empty() && host_->is_complete() : inner_->is_complete();
    }

   private:
    void copy(void* to, const void* from, std::int64_t count) {
      transport_.staging_.copy(to, from, count * width_);
    }
    StagedTransport& transport_;
    Compiled inner_;  // for buffers that it can reach
    Cut cut_;
    Memory pinned_;
    std::unique_ptr<Mark> copied_;  // behind the last copy to or from it
    Compiled host_;
    void* receive_ = nullptr;
    bool is_staged_ = false;
  };

  /// Puts an operation on these buffers in its place: behind the reductions that were started and,
  /// where one of them is the device's, behind its kernels. Whether it is to be staged; if not, the
  /// inner transport takes it as it is.
  bool staged(const void* send, const void* receive) {
    started_.hand_on();
    if (!device_.owns(send) && !device_.owns(receive)) return false;
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
  void lead_kernels(const void* send, const void* receive) {
    device_.transfers().record(*back_);
    device_.kernels().wait_for(*back_);
    if (!device_.owns(send) || !device_.owns(receive)) back_->wait();
  }

  std::unique_ptr<Transport> inner_;
  DeviceQueues& device_;
  StagedTransportOptions options_;
  std::unique_ptr<Mark> behind_kernels_;
  std::unique_ptr<Mark> back_;  // behind the last copy from the staging memory
  Staging staging_;             // of operations that are not started
  StartedReductions started_;
};

}  // namespace

std::unique_ptr<Transport> make_staged_transport(std::unique_ptr<Transport> inner,
                                                 DeviceQueues& device,
                                                 const StagedTransportOptions& options) {
  return std::make_unique<StagedTransport>(std::move(inner), device, options);
}

}  // namespace meshwork
