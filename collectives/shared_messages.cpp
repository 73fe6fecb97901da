// The all-to-all of a group (shared_group.h), and messages between two ranks, of which an exchange
// between few consists.
//
// A channel from one rank to another is a ring of chunks. The sender numbers the chunks from 1 and
// fills those that the receiver has *pulled* the last contents of; the number in a chunk, stored
// last, says that it is there. A long message out of a window is one chunk that names the place;
// its sender waits until it was pulled, since the buffer is its caller's again after that.
#include <algorithm>

#include "collectives/copy.h"
#include "collectives/error.h"
#include "collectives/shared_counters.h"
#include "collectives/shared_group.h"

namespace meshwork {

void SharedGroup::part_over(int peer, std::int64_t sent, std::int64_t expected) {
  give_up(fmt::format("{} sends {} bytes to {}, which expects {}", name_of_rank(peer), sent,
                      name_of_rank(rank_), expected));
}

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
      copy_bytes(reinterpret_cast<std::byte*>(&to) + 64, message.data + message.moved, bytes);
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
      part_over(message.peer, from.message_bytes, message.bytes);
    }
    const std::int64_t bytes = from.place.window != 0
                                   ? message.bytes
                                   : std::min(options_.chunk_bytes, message.bytes - message.moved);
    if (from.place.window != 0) {
      copy_direct_(message.data, address(from.place, message.peer), bytes);
    } else {
      copy_bytes(message.data + message.moved, reinterpret_cast<const std::byte*>(&from) + 64,
                 bytes);
    }
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

void SharedGroup::exchange(const Exchange& exchange, const void* send, void* receive) {
  const std::int64_t width = element_bytes(exchange.type);
  outgoing_.clear();
  incoming_.clear();
  std::int64_t bytes = 0;
  for (const NeighbourBlock& block : exchange.sends) {
    if (block.count == 0) continue;
    // What goes out is only read.
    auto* data = const_cast<std::byte*>(static_cast<const std::byte*>(send)) + block.offset * width;
    Message message{.peer = block.rank, .data = data, .bytes = block.count * width};
    message.place = place_to_read(data, message.bytes, options_.chunk_bytes);
    outgoing_.push_back(message);
  }
  for (const NeighbourBlock& block : exchange.receives) {
    if (block.count == 0) continue;
    incoming_.push_back({.peer = block.rank,
                         .data = static_cast<std::byte*>(receive) + block.offset * width,
                         .bytes = block.count * width});
    bytes += block.count * width;
  }
  copy_direct_ = copy_of(bytes);
  move_messages();
}

// Blocks are read where they are posted. What is not in a window, and too much for the note, goes
// through channels.
void SharedGroup::all_to_all(const AllToAll& blocks, const void* send, void* receive) {
  finish_started();
  constexpr std::int64_t through_channel = -1;
  const std::int64_t width = element_bytes(blocks.type);
  const auto bytes_of = [&](std::span<const std::int64_t> counts, int rank) {
    return counts[static_cast<std::size_t>(rank)] * width;
  };
  const auto to_send = [&](int rank) {
    // What goes out is only read.
    return const_cast<std::byte*>(static_cast<const std::byte*>(send)) +
           bytes_of(blocks.send_offsets, rank);
  };
  const auto to_receive = [&](int rank) {
    return static_cast<std::byte*>(receive) + bytes_of(blocks.receive_offsets, rank);
  };
  std::int64_t sent = 0, received = 0, send_bytes = 0;
  for (int rank = 0; rank < size_; ++rank) {
    send_bytes = std::max(send_bytes,
                          bytes_of(blocks.send_offsets, rank) + bytes_of(blocks.send_counts, rank));
    received += bytes_of(blocks.receive_counts, rank);
    if (rank != rank_) sent += bytes_of(blocks.send_counts, rank);
  }
  copy_direct_ = copy_of(received);

  const What what{.kind = Kind::all_to_all, .type = blocks.type};
  const std::uint64_t number =
      begin_call(what, place_to_read(send, send_bytes, options_.blocks_bytes));
  const bool in_window = note(rank_, number).place.window != 0;
  const auto list = [&](int rank) { return reinterpret_cast<BlockNote*>(small(rank, number)); };
  const bool is_small = !in_window && sent <= options_.blocks_bytes;
  std::int64_t at = list_bytes();
  outgoing_.clear();
  incoming_.clear();
  for (int distance = 1; distance < size_; ++distance) {
    // Each rank begins with its neighbour, so that not all send to the same one.
    const int rank = (rank_ + distance) % size_;
    const std::int64_t bytes = bytes_of(blocks.send_counts, rank);
    std::int64_t place = through_channel;
    if (in_window) {
      place = bytes_of(blocks.send_offsets, rank);
    } else if (is_small) {
      place = at;
      copy_bytes(small(rank_, number) + at, to_send(rank), bytes);
      at += bytes;
    } else if (bytes > 0) {
      outgoing_.push_back({.peer = rank, .data = to_send(rank), .bytes = bytes});
    }
    list(rank_)[rank] = {place, bytes};
  }
  post(number);
  copy_direct_(to_receive(rank_), to_send(rank_), bytes_of(blocks.receive_counts, rank_));
  int seen = 0;
  wait_until([&] { return all_posted(number, what, seen); });
  for (int distance = 1; distance < size_; ++distance) {
    const int rank = (rank_ + size_ - distance) % size_;
    const auto [place, comes] = list(rank)[rank_];
    const std::int64_t bytes = bytes_of(blocks.receive_counts, rank);
    if (comes != bytes) part_over(rank, comes, bytes);
    if (bytes == 0) continue;
    if (place == through_channel) {
      incoming_.push_back({.peer = rank, .data = to_receive(rank), .bytes = bytes});
    } else {
      copy_direct_(to_receive(rank), posted(rank, number) + place, bytes);
    }
  }
  move_messages();
  finish_once_read(number);
}

void SharedGroup::move_messages() {
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
