// The collectives of a group (shared_group.h) that carry blocks: reduce-scatter, all-gather and
// broadcast.
//
// Where the ranks gather into one and the same memory, each with its block in its place already,
// all blocks are where they belong: an all-gather then moves nothing, and says that they are there.
#include <algorithm>

#include "collectives/blocks.h"
#include "collectives/copy.h"
#include "collectives/error.h"
#include "collectives/shared_counters.h"
#include "collectives/shared_group.h"
#include "collectives/shared_reduction.h"

namespace meshwork {

bool SharedGroup::may_stage(std::uint64_t round) {
  const auto slots = static_cast<std::uint64_t>(options_.slots);
  return round < slots || all_reached(SharedCounter::consumed, round + 1 - slots);
}

void SharedGroup::reduce_scatter(const ReduceScatter& scatter, const void* send, void* receive) {
  finish_started();
  const ElementType type = scatter.type;
  const Counts counts = scatter.counts;
  const std::int64_t width = element_bytes(type);
  const std::int64_t total = total_of(counts);
  const std::int64_t own_begin = begin_of(counts, rank_);
  const std::int64_t own_count = counts[static_cast<std::size_t>(rank_)];
  const auto* from = static_cast<const std::byte*>(send);
  auto* to = static_cast<std::byte*>(receive);
  const What what{.kind = Kind::reduce_scatter, .type = type, .count = total};
  int seen = 0;

  const bool is_small = total * width <= options_.small_bytes;
  const std::uint64_t number =
      begin_call(what, is_small ? place_to_read(send, total * width, options_.small_bytes)
                                : windows_->place_of(send, total * width, job_ranks_));
  post_data(number, from, total * width, is_small);
  if (all_readable(number, what, is_small, seen)) {
    for (int rank = 0; rank < size_; ++rank) {
      sources_[static_cast<std::size_t>(rank)] =
          (rank == rank_ ? from : posted(rank, number)) + own_begin * width;
    }
    reduce_elements(type, Reduction::sum, sources_, to, own_count);
    finish_once_read(number);
    return;
  }

  // Each slot has an equal part for each rank's block.
  const std::int64_t most = options_.slot_bytes / size_ / 64 * 64 / width;
  const std::int64_t rounds = (*std::ranges::max_element(counts) + most - 1) / most;
  const std::uint64_t first = rounds_;
  rounds_ += static_cast<std::uint64_t>(rounds);
  std::int64_t staged = 0;
  std::int64_t taken = 0;
  const auto count_in = [&](int rank, std::int64_t round) {
    return std::clamp<std::int64_t>(counts[static_cast<std::size_t>(rank)] - round * most, 0, most);
  };
  const auto step = [&] {
    bool went_on = false;
    const std::uint64_t to_take = first + static_cast<std::uint64_t>(taken);
    if (taken < staged && all_posted(number, what, seen) &&
        all_reached(SharedCounter::staged, to_take + 1)) {
      for (int rank = 0; rank < size_; ++rank) {
        sources_[static_cast<std::size_t>(rank)] = rank == rank_
                                                       ? from + (own_begin + taken * most) * width
                                                       : slot(rank, to_take) + rank_ * most * width;
      }
      reduce_elements(type, Reduction::sum, sources_, to + taken * most * width,
                      count_in(rank_, taken));
      publish(SharedCounter::consumed, to_take + 1);
      ++taken;
      went_on = true;
    }
    const std::uint64_t to_stage = first + static_cast<std::uint64_t>(staged);
    if (staged < rounds && staged - taken < options_.slots && may_stage(to_stage)) {
      std::int64_t begin = 0;
      for (int rank = 0; rank < size_; ++rank) {
        if (rank != rank_) {
          copy_bytes(slot(rank_, to_stage) + rank * most * width,
                     from + (begin + staged * most) * width, count_in(rank, staged) * width);
        }
        begin += counts[static_cast<std::size_t>(rank)];
      }
      publish(SharedCounter::staged, to_stage + 1);
      ++staged;
      went_on = true;
    }
    return went_on;
  };
  while (taken < rounds) wait_until(step, Ways::several);
  finish(number);
}

void SharedGroup::all_gather(const AllGather& gather, const void* send, void* receive) {
  finish_started();
  const Counts counts = gather.counts;
  const std::int64_t width = element_bytes(gather.type);
  const auto bytes_of = [&](int rank) { return counts[static_cast<std::size_t>(rank)] * width; };
  const auto place_for = [&](int rank) {
    return static_cast<std::byte*>(receive) +
           gather.offsets[static_cast<std::size_t>(rank)] * width;
  };
  const auto* from = static_cast<const std::byte*>(send);
  const std::int64_t total = total_of(counts);
  const std::int64_t largest = *std::ranges::max_element(counts) * width;
  const What what{.kind = Kind::all_gather, .type = gather.type, .count = total};
  const Copy copy_direct = copy_of(total * width);
  const Copy copy_staged = copy_of(total * width / 2);
  const auto take = [&](Copy copy, int rank, const std::byte* block) {
    if (block != place_for(rank)) copy(place_for(rank), block, bytes_of(rank));
  };
  const bool in_place = from == place_for(rank_);
  int seen = 0;

  // A block in its place may be in that of everybody, though it is small.
  const bool is_small = largest <= options_.small_bytes;
  const std::uint64_t number = begin_call(
      what, is_small && !in_place ? place_to_read(send, bytes_of(rank_), options_.small_bytes)
                                  : windows_->place_of(send, bytes_of(rank_), job_ranks_));
  post_data(number, from, bytes_of(rank_), is_small);
  take(is_small ? copy_bytes : copy_staged, rank_, from);
  if (all_readable(number, what, is_small, seen)) {
    for (int rank = 0; rank < size_; ++rank) {
      if (rank != rank_) take(is_small ? copy_bytes : copy_direct, rank, posted(rank, number));
    }
    finish_once_read(number);
    return;
  }
  const auto is_direct = [&](int rank) { return note(rank, number).place.window != 0; };
  const std::int64_t most = options_.slot_bytes;
  const std::int64_t rounds = (largest + most - 1) / most;
  const std::uint64_t first = rounds_;
  rounds_ += static_cast<std::uint64_t>(rounds);
  const std::int64_t own_rounds = is_direct(rank_) ? 0 : (bytes_of(rank_) + most - 1) / most;
  std::int64_t staged = 0;
  std::int64_t taken = 0;
  const auto bytes_in = [&](int rank, std::int64_t round) {
    return std::clamp<std::int64_t>(bytes_of(rank) - round * most, 0, most);
  };
  // Whether all that have something in the round that is to be taken have staged it.
  const auto is_staged = [&](std::uint64_t round) {
    for (int rank = 0; rank < size_; ++rank) {
      if (rank == rank_ || is_direct(rank) || bytes_in(rank, taken) == 0) continue;
      if (load(counter(rank, SharedCounter::staged)) < round + 1) {
        awaited_ = rank;
        return false;
      }
    }
    return true;
  };
  const auto step = [&] {
    bool went_on = false;
    const std::uint64_t to_take = first + static_cast<std::uint64_t>(taken);
    // A slot of this rank is not waited for by itself.
    if (taken < rounds && (taken < staged || taken >= own_rounds) &&
        all_posted(number, what, seen) && is_staged(to_take)) {
      for (int rank = 0; rank < size_; ++rank) {
        if (rank == rank_) continue;
        std::byte* const to = place_for(rank) + taken * most;
        if (is_direct(rank)) {
          copy_direct(to, address(note(rank, number).place, rank) + taken * most,
                      bytes_in(rank, taken));
        } else {
          copy_staged(to, slot(rank, to_take), bytes_in(rank, taken));
        }
      }
      publish(SharedCounter::consumed, to_take + 1);
      ++taken;
      went_on = true;
    }
    const std::uint64_t to_stage = first + static_cast<std::uint64_t>(staged);
    if (staged < own_rounds && staged - taken < options_.slots && may_stage(to_stage)) {
      copy_bytes(slot(rank_, to_stage), from + staged * most, bytes_in(rank_, staged));
      publish(SharedCounter::staged, to_stage + 1);
      ++staged;
      went_on = true;
    }
    return went_on;
  };
  while (taken < rounds) wait_until(step, Ways::several);
  finish(number);
  if (own_rounds == 0 && bytes_of(rank_) > 0) wait_until_all_finished(number);
}

void SharedGroup::broadcast(const Broadcast& broadcast, void* buffer) {
  finish_started();
  const ElementType type = broadcast.type;
  const std::int64_t count = broadcast.count;
  const int root = broadcast.root;
  const std::int64_t bytes = count * element_bytes(type);
  auto* memory = static_cast<std::byte*>(buffer);
  const bool gives = rank_ == root;
  const What what{.kind = Kind::broadcast, .type = type, .root = root, .count = count};
  const Copy copy_direct = copy_of(bytes);
  const Copy copy_staged = copy_of(bytes / 2);

  const bool is_small = bytes <= options_.small_bytes;
  const std::uint64_t number =
      begin_call(what, !gives     ? SharedPlace()
                       : is_small ? place_to_read(buffer, bytes, options_.small_bytes)
                                  : windows_->place_of(buffer, bytes, job_ranks_));
  if (gives || !is_small) post_data(number, memory, bytes, gives && is_small);
  if (!gives) wait_until([&] { return is_posted(root, number, what); });
  if (is_small || note(root, number).place.window != 0) {
    if (!gives) (is_small ? copy_bytes : copy_direct)(memory, posted(root, number), bytes);
    finish_once_read(number);
    return;
  }
  const std::int64_t most = options_.slot_bytes;
  const std::int64_t rounds = (bytes + most - 1) / most;
  for (std::int64_t at = 0; at < rounds; ++at) {
    const std::uint64_t round = rounds_++;
    const std::int64_t length = std::min(most, bytes - at * most);
    if (gives) {
      wait_until([&] { return may_stage(round); });
      copy_bytes(slot(root, round), memory + at * most, length);
      publish(SharedCounter::staged, round + 1);
    } else {
      wait_until([&] {
        awaited_ = root;
        return load(counter(root, SharedCounter::staged)) >= round + 1;
      });
      copy_staged(memory + at * most, slot(root, round), length);
    }
    publish(SharedCounter::consumed, round + 1);
  }
  finish(number);
}

}  // namespace meshwork
