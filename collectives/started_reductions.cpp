#include "collectives/started_reductions.h"

#include <algorithm>
#include <utility>

#include "collectives/blocks.h"
#include "collectives/staging.h"

namespace meshwork {

class StartedReductions::Started final : public CompiledCollective {
 public:
  Started(StartedReductions& of, const Communicator& communicator, const AllReduce& what,
          Compiled inner)
      : of_(of), what_(what), inner_(std::move(inner)), back_(of.device_.make_mark()) {
    const std::int64_t pieces = of.copies_ ? pieces_of(bytes(), of.piece_bytes_) : 1;
    for (std::int64_t i = 0; i < pieces; ++i) {
      const Piece piece(what.count, i, pieces);
      // MPI takes addresses of a device in blocking operations alone.
      parts_.push_back(
          {piece,
           of.device_.make_mark(),
           of.inner_.compile(communicator, AllReduce{what.type, what.reduction, piece.count},
                             of.copies_ ? Use::started : Use::at_once),
           {}});
    }
    of.not_handed_on_.reserve(++of.startable_);
  }
  ~Started() override { --of_.startable_; }

  void start(const void* /*send*/, void* buffer) override {
    of_.hand_on();
    is_staged_ = of_.device_.owns(buffer);
    if (!is_staged_) return inner_->start(nullptr, buffer);
    buffer_ = buffer;
    Queue& transfers = of_.device_.transfers();
    of_.device_.kernels().record(*of_.behind_kernels_);
    if (of_.copies_) {
      room_ = &of_.room_for(bytes(), [](const Room& room) { return !room.is_taken; });
      room_->is_taken = true;
      transfers.wait_for(*of_.behind_kernels_);
    }
    for (const Part& part : parts_) {
      if (of_.copies_) transfers.start_copy(place_of(part), in_buffer(part), bytes(part));
      (of_.copies_ ? transfers : of_.device_.kernels()).record(*part.arrived);
    }
    of_.not_handed_on_.push_back(this);
  }

  void hand_on() {
    for (Part& part : parts_) {
      part.arrived->wait();
      part.pending = Pending(part.inner, nullptr, place_of(part));
    }
  }

  void wait() override {
    if (!is_staged_) return inner_->wait();
    of_.hand_on();
    Queue& transfers = of_.device_.transfers();
    for (Part& part : parts_) {
      part.pending.wait();
      if (of_.copies_) transfers.start_copy(in_buffer(part), place_of(part), bytes(part));
    }
    if (!of_.copies_) return;
    transfers.record(*back_);
    of_.device_.kernels().wait_for(*back_);
    room_->is_taken = false;
  }

  [[nodiscard]] bool is_complete() const override { return !is_staged_ && inner_->is_complete(); }

 private:
  struct Part {
    Piece piece;
    std::unique_ptr<Mark> arrived;  // where the inner transport finds it
    std::shared_ptr<CompiledCollective> inner;
    Pending pending;
  };

  [[nodiscard]] std::int64_t bytes() const { return what_.count * element_bytes(what_.type); }
  [[nodiscard]] std::int64_t bytes(const Part& part) const {
    return part.piece.count * element_bytes(what_.type);
  }
  [[nodiscard]] std::byte* in_buffer(const Part& part) const {
    return element_at(buffer_, part.piece.begin, what_.type);
  }
  /// Where the inner transport finds a part.
  [[nodiscard]] std::byte* place_of(const Part& part) const {
    return element_at(of_.copies_ ? room_->memory.data() : buffer_, part.piece.begin, what_.type);
  }

  StartedReductions& of_;
  AllReduce what_;
  Compiled inner_;              // for buffers of the host
  std::unique_ptr<Mark> back_;  // when it was copied back
  std::vector<Part> parts_;
  // Of the one under way.
  bool is_staged_ = false;
  void* buffer_ = nullptr;
  Room* room_ = nullptr;
};

StartedReductions::StartedReductions(Transport& inner, DeviceQueues& device,
                                     std::int64_t piece_bytes, bool copies)
    : inner_(inner),
      device_(device),
      piece_bytes_(piece_bytes),
      copies_(copies),
      behind_kernels_(device.make_mark()) {}

void StartedReductions::reserve(std::span<const std::int64_t> bytes) {
  if (!copies_) return;
  // The largest of those under way takes the smallest that is large enough, and so on.
  std::vector<std::int64_t> wanted(bytes.begin(), bytes.end());
  std::sort(wanted.begin(), wanted.end(), std::greater<>());
  std::vector<const Room*> taken;
  for (const std::int64_t most : wanted) {
    const auto is_free = [&](const Room& room) {
      return std::find(taken.begin(), taken.end(), &room) == taken.end();
    };
    taken.push_back(&room_for(most, is_free));
  }
}

StartedReductions::Room& StartedReductions::room_for(
    std::int64_t bytes, const std::function<bool(const Room&)>& is_free) {
  for (const std::unique_ptr<Room>& room : rooms_) {
    if (room->memory.bytes() >= bytes && is_free(*room)) return *room;
  }
  auto made = std::make_unique<Room>();
  if (bytes > 0) made->memory = device_.allocate_pinned(bytes);
  const auto place = std::find_if(rooms_.begin(), rooms_.end(), [&](const auto& room) {
    return room->memory.bytes() > made->memory.bytes();
  });
  return **rooms_.insert(place, std::move(made));
}

Compiled StartedReductions::compile(const Communicator& communicator, const AllReduce& what,
                                    Compiled inner) {
  return std::make_unique<Started>(*this, communicator, what, std::move(inner));
}

void StartedReductions::hand_on() {
  for (Started* const started : not_handed_on_) started->hand_on();
  not_handed_on_.clear();
}

}  // namespace meshwork
