#include "collectives/started_reductions.h"

#include <algorithm>
#include <utility>

#include "collectives/blocks.h"
#include "collectives/staging.h"

namespace meshwork {

/// A started reduction and what is kept of it for the next. The wait is the transport's.
class StartedReductions::Request final : public Pending::Request {
 public:
  struct Part {
    std::int64_t begin = 0, count = 0;  // elements
    std::unique_ptr<Mark> arrived;      // where the inner transport finds it
    Pending pending;                    // of the inner transport
  };

  explicit Request(StartedReductions& of) : all(of) {}
  void wait() override { all.finish(*this); }

  void make_parts(std::int64_t count) {
    while (std::ssize(parts) < count) parts.emplace_back().arrived = all.device_.make_mark();
  }
  /// Where the inner transport finds a part.
  [[nodiscard]] std::byte* place_of(const Part& part) const {
    return element_at(all.copies_ ? staging.data() : buffer, part.begin, type);
  }

  StartedReductions& all;
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

StartedReductions::StartedReductions(Transport& inner, DeviceQueues& device,
                                     std::int64_t piece_bytes, bool copies)
    : inner_(inner),
      device_(device),
      piece_bytes_(piece_bytes),
      copies_(copies),
      behind_kernels_(device.make_mark()) {}

void StartedReductions::reserve(std::span<const std::int64_t> bytes) {
  // The largest of those under way takes the smallest that is large enough, and so on.
  std::vector<std::int64_t> wanted(bytes.begin(), bytes.end());
  std::sort(wanted.begin(), wanted.end(), std::greater<>());
  std::vector<const Request*> taken;
  for (const std::int64_t most : wanted) {
    const auto is_free = [&](const Request& request) {
      return std::find(taken.begin(), taken.end(), &request) == taken.end();
    };
    taken.push_back(room_for(most, is_free).get());
  }
}

std::shared_ptr<StartedReductions::Request> StartedReductions::room_for(
    std::int64_t bytes, const std::function<bool(const Request&)>& free) {
  if (!copies_) bytes = 0;
  const std::shared_ptr<Request> room = rooms_.take(
      [&](const Request& known) { return free(known) && known.staging.bytes() >= bytes; },
      [&] {
        auto made = std::make_shared<Request>(*this);
        if (bytes > 0) made->staging = device_.allocate_pinned(bytes);
        made->back = device_.make_mark();
        made->make_parts(pieces_of(bytes, piece_bytes_));
        return made;
      },
      [](const Request& a, const Request& b) { return a.staging.bytes() < b.staging.bytes(); });
  not_handed_on_.reserve(rooms_.size());
  return room;
}

Pending StartedReductions::start(const Communicator& communicator, ElementType type,
                                 Reduction reduction, void* buffer, std::int64_t count) {
  const std::int64_t width = element_bytes(type);
  const std::shared_ptr<Request> started =
      room_for(count * width, [](const Request& known) { return !known.under_way; });
  started->communicator = &communicator;
  started->type = type;
  started->reduction = reduction;
  started->buffer = buffer;
  started->under_way = true;
  device_.kernels().record(*behind_kernels_);
  if (copies_) device_.transfers().wait_for(*behind_kernels_);
  const std::int64_t pieces = copies_ ? pieces_of(count * width, piece_bytes_) : 1;
  started->make_parts(pieces);
  started->used = static_cast<std::size_t>(pieces);
  for (std::int64_t i = 0; i < pieces; ++i) {
    const Piece piece(count, i, pieces);
    Request::Part& part = started->parts[static_cast<std::size_t>(i)];
    part.begin = piece.begin;
    part.count = piece.count;
    if (copies_) {
      device_.transfers().start_copy(started->place_of(part), element_at(buffer, part.begin, type),
                                     part.count * width);
    }
    (copies_ ? device_.transfers() : device_.kernels()).record(*part.arrived);
  }
  not_handed_on_.push_back(started.get());
  return Pending(started);
}

void StartedReductions::hand_on() {
  for (Request* const started : not_handed_on_) {
    for (std::size_t i = 0; i < started->used; ++i) {
      Request::Part& part = started->parts[i];
      part.arrived->wait();
      // MPI takes addresses of a device in blocking operations alone.
      if (!copies_) {
        inner_.all_reduce(*started->communicator, started->type, started->reduction,
                          started->place_of(part), part.count);
        continue;
      }
      part.pending =
          inner_.start_all_reduce(*started->communicator, started->type, started->reduction,
                                  started->place_of(part), part.count);
    }
  }
  not_handed_on_.clear();
}

void StartedReductions::finish(Request& started) {
  hand_on();
  for (std::size_t i = 0; i < started.used; ++i) {
    Request::Part& part = started.parts[i];
    part.pending.wait();
    if (!copies_) continue;
    device_.transfers().start_copy(element_at(started.buffer, part.begin, started.type),
                                   started.place_of(part),
                                   part.count * element_bytes(started.type));
  }
  if (copies_) {
    device_.transfers().record(*started.back);
    device_.kernels().wait_for(*started.back);
  }
  started.under_way = false;
}

}  // namespace meshwork
