// Messages between two ranks of a group (shared_group.h): all-to-all and the exchange between few.
//
// A channel from one rank to another is a ring of chunks. The sender numbers the chunks from 1 and
// fills those that the receiver has *pulled* the last contents of; the number in a chunk, stored
// last, says that it is there. A long message out of a window is one chunk that names the place;
// its sender waits until it was pulled, since the buffer is its caller's again after that.
#include <algorithm>
#include <cstring>

#include "collectives/error.h"
#include "collectives/shared_counters.h"
#include "collectives/shared_group.h"

namespace meshwork {

bool SharedGroup::push(Message& message) {
  std::uint64_t& pushed = pushed_[static_cast<std::size_t>(message.peer)];
  auto* pulled = reinterpret_cast<std::uint64_t*>(channel(rank_, message.peer));
  bool went_on = false;
  while (message.moved < message.bytes) {
    if (pushed - load(*pulled) >= static_cast<std::uint64_t>(options_.chunks)) break;
    ChunkNote& to = chunk(rank_, message.peer, ++pushed);
    to.message_bytes = message.bytes;
    to.place = message.place;
    if (message.place.window != 0) {
      message.moved = message.bytes;
      message.last_chunk = pushed;
    } else {
      const std::int64_t bytes = std::min(options_.chunk_bytes, message.bytes - message.moved);
      std::memcpy(reinterpret_cast<std::byte*>(&to) + 64, message.data + message.moved,
                  static_cast<std::size_t>(bytes));
      message.moved += bytes;
    }
    publish(to.number, pushed);
    went_on = true;
  }
  return went_on;
}

bool SharedGroup::pull(Message& message) {
  std::uint64_t& pulled = pulled_[static_cast<std::size_t>(message.peer)];
  bool went_on = false;
  while (message.moved < message.bytes) {
    ChunkNote& from = chunk(message.peer, rank_, pulled + 1);
    if (load(from.number) != pulled + 1) break;
    if (from.message_bytes != message.bytes) {
      give_up(fmt::format("{} sends {} bytes to {}, which expects {}", name_of_rank(message.peer),
                          from.message_bytes, name_of_rank(rank_), message.bytes));
    }
    const std::int64_t bytes = from.place.window != 0
                                   ? message.bytes
                                   : std::min(options_.chunk_bytes, message.bytes - message.moved);
    std::memcpy(message.data + message.moved,
                from.place.window != 0 ? address(from.place, message.peer)
                                       : reinterpret_cast<const std::byte*>(&from) + 64,
                static_cast<std::size_t>(bytes));
    message.moved += bytes;
    ++pulled;
    publish(*reinterpret_cast<std::uint64_t*>(channel(message.peer, rank_)), pulled);
    went_on = true;
  }
  return went_on;
}

bool SharedGroup::has_left(const Message& message) {
  return message.moved == message.bytes &&
         load(*reinterpret_cast<std::uint64_t*>(channel(rank_, message.peer))) >=
             message.last_chunk;
}

void SharedGroup::exchange(ElementType type, const void* send,
                           std::span<const NeighbourBlock> sends, void* receive,
                           std::span<const NeighbourBlock> receives) {
  const std::int64_t width = element_bytes(type);
  outgoing_.clear();
  incoming_.clear();
  for (const NeighbourBlock& block : sends) {
    if (block.count == 0) continue;
    // What goes out is only read.
    auto* data = const_cast<std::byte*>(static_cast<const std::byte*>(send)) + block.offset * width;
    Message message{.peer = block.rank, .data = data, .bytes = block.count * width};
    if (message.bytes > options_.small_bytes) {
      message.place = windows_->place_of(data, message.bytes, job_ranks_);
    }
    outgoing_.push_back(message);
  }
  for (const NeighbourBlock& block : receives) {
    if (block.count == 0) continue;
    incoming_.push_back({.peer = block.rank,
                         .data = static_cast<std::byte*>(receive) + block.offset * width,
                         .bytes = block.count * width});
  }
  bool complete = false;
  const auto step = [&] {
    bool went_on = false;
    complete = true;
    for (Message& message : outgoing_) {
      went_on |= push(message);
      if (!has_left(message)) {
        awaited_ = message.peer;
        complete = false;
      }
    }
    for (Message& message : incoming_) {
      went_on |= pull(message);
      if (message.moved < message.bytes) {
        awaited_ = message.peer;
        complete = false;
      }
    }
    return went_on || complete;
  };
  while (!complete) wait_until(step, Ways::several);
}

}  // namespace meshwork
