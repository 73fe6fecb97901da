#include "collectives/shared_group.h"

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "collectives/blocks.h"
#include "collectives/error.h"
#include "collectives/hosted.h"
#include "collectives/rank_names.h"
#include "collectives/shared_counters.h"

namespace meshwork {

namespace {

constexpr std::int64_t page = 4096;
constexpr std::int64_t counters_bytes = SharedCounter::count * SharedCounter::stride;
// The beginning of the memory: who gives up claims it, leaves word, and raises the flag.
constexpr std::int64_t claim_at = 0, flag_at = 128, word_at = 256, word_bytes = 1024;
constexpr double seconds_between_checks = 0.2;

constexpr std::int64_t rounded_up(std::int64_t bytes, std::int64_t to) {
  return (bytes + to - 1) / to * to;
}

/// Where each rank has a part of a slot, in whole cache lines.
SharedGroupOptions with_room_for(SharedGroupOptions options, int ranks) {
  options.slot_bytes = std::max<std::int64_t>(options.slot_bytes, 64 * ranks);
  return options;
}

}  // namespace

void SharedAgenda::advance() {
  // A group that has nothing left removes itself.
  for (std::size_t i = 0; i < groups_.size();) {
    SharedGroup* group = groups_[i];
    (void)group->advance_started();
    if (i < groups_.size() && groups_[i] == group) ++i;
  }
  if (followed_by_) followed_by_();
}

void SharedAgenda::finish() {
  while (!groups_.empty()) groups_.front()->finish_started();
}

SharedGroup::SharedGroup(const Communicator& node, const SharedGroupOptions& options,
                         std::shared_ptr<const SharedWindows> windows,
                         std::shared_ptr<const SharedBells> bells,
                         std::shared_ptr<SharedAgenda> agenda)
    : options_(with_room_for(options, node.size())),
      rank_(node.rank()),
      size_(node.size()),
      job_ranks_(job_ranks_of(node)),
      windows_(std::move(windows)),
      bells_(std::move(bells)),
      agenda_(std::move(agenda)),
      bells_of_others_(bells_->of(job_ranks_)),
      call_bytes_(
          64 +
          rounded_up(std::max(options_.small_bytes, list_bytes() + options_.blocks_bytes), 64)),
      rank_bytes_(rounded_up(counters_bytes + options_.calls * call_bytes_, page) +
                  rounded_up(options_.slots * options_.slot_bytes, page)),
      channel_bytes_(
          rounded_up(SharedCounter::stride + options_.chunks * (64 + options_.chunk_bytes), page)),
      memory_(node, page + size_ * rank_bytes_ + size_ * size_ * channel_bytes_),
      waiting_(
          *bells_, [this](double seconds) { at_leisure(seconds); },
          [this] {
            return ways_ == Ways::one && agenda_->empty()
                       ? job_ranks_[static_cast<std::size_t>(awaited_)]
                       : SharedBells::anyone;
          }),
      pushed_(static_cast<std::size_t>(size_)),
      pulled_(pushed_.size()),
      sources_(pushed_.size()),
      buffers_(pushed_.size()) {
  outgoing_.reserve(pushed_.size());
  incoming_.reserve(pushed_.size());
  queue_.reserve(static_cast<std::size_t>(options_.calls));
  // Each rank touches its own pages first, which are near its processor then.
  touch_calls(rank_, 0, touched_bytes_);
  await_ranks(node);
  check_mpi(MPI_Barrier(node.native()), "MPI_Barrier");
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_) touch_calls(rank, 0, touched_bytes_);
  }
}

void SharedGroup::expect_blocks(const AllToAll& what) {
  // As all_to_all posts them.
  const std::int64_t kept = what.send_counts[static_cast<std::size_t>(rank_)];
  const std::int64_t sent = (total_of(what.send_counts) - kept) * element_bytes(what.type);
  const std::int64_t blocks = sent <= options_.blocks_bytes ? sent : 0;
  const std::int64_t bytes = rounded_up(64 + list_bytes() + blocks, 64);
  if (bytes <= touched_bytes_) return;
  touch_calls(rank_, touched_bytes_, bytes);
  touched_bytes_ = bytes;
}

void SharedGroup::touch_calls(int rank, std::int64_t from, std::int64_t to) {
  // Others may be using these pages: what they hold stays.
  const auto touch = [&](std::int64_t at) {
    const std::atomic_ref word(*reinterpret_cast<std::uint64_t*>(of_rank(rank) + at));
    if (rank == rank_) {
      word.fetch_or(0);
    } else {
      (void)word.load();
    }
  };
  touch(0);
  for (std::int64_t call = 0; call < options_.calls; ++call) {
    const std::int64_t begin = counters_bytes + call * call_bytes_;
    for (std::int64_t at = from; at < to; at += page) touch(begin + at);
    touch(begin + to - std::int64_t{sizeof(std::uint64_t)});
  }
}

SharedGroup::~SharedGroup() {
  agenda_->remove(this);
}

// ---- where things are ---------------------------------------------------------------------------

std::byte* SharedGroup::of_rank(int rank) const {
  return memory_.all().data() + page + rank * rank_bytes_;
}

std::uint64_t& SharedGroup::counter(int rank, int which) const {
  return *reinterpret_cast<std::uint64_t*>(of_rank(rank) + which * SharedCounter::stride);
}

SharedGroup::Note& SharedGroup::note(int rank, std::uint64_t number) const {
  const auto place = static_cast<std::int64_t>(number) % options_.calls;
  return *reinterpret_cast<Note*>(of_rank(rank) + counters_bytes + place * call_bytes_);
}

std::byte* SharedGroup::small(int rank, std::uint64_t number) const {
  return reinterpret_cast<std::byte*>(&note(rank, number)) + 64;
}

std::byte* SharedGroup::slot(int rank, std::uint64_t round) const {
  const auto place = static_cast<std::int64_t>(round) % options_.slots;
  return of_rank(rank) + rounded_up(counters_bytes + options_.calls * call_bytes_, page) +
         place * options_.slot_bytes;
}

std::byte* SharedGroup::address(const SharedPlace& place, int rank) const {
  return windows_->address(place, job_ranks_[static_cast<std::size_t>(rank)]);
}

SharedPlace SharedGroup::place_to_read(const void* data, std::int64_t bytes,
                                       std::int64_t room) const {
  return bytes > (options_.crowded ? room : options_.direct_bytes)
             ? windows_->place_of(data, bytes, job_ranks_)
             : SharedPlace();
}

std::byte* SharedGroup::channel(int from, int to) const {
  return memory_.all().data() + page + size_ * rank_bytes_ + (from * size_ + to) * channel_bytes_;
}

SharedGroup::ChunkNote& SharedGroup::chunk(int from, int to, std::uint64_t number) const {
  const auto place = static_cast<std::int64_t>(number) % options_.chunks;
  return *reinterpret_cast<ChunkNote*>(channel(from, to) + SharedCounter::stride +
                                       place * (64 + options_.chunk_bytes));
}

// ---- calls --------------------------------------------------------------------------------------

std::uint64_t SharedGroup::begin_call(const What& what, const SharedPlace& place) {
  const std::uint64_t number = ++calls_;
  const auto kept = static_cast<std::uint64_t>(options_.calls);
  if (number > kept && reached_[SharedCounter::finished] < number - kept) {
    wait_until([&] { return all_reached(SharedCounter::finished, number - kept); });
  }
  Note& own = note(rank_, number);
  own.what = what;
  own.place = place;
  return number;
}

void SharedGroup::post(std::uint64_t number) {
  publish(note(rank_, number).number, number);
}

bool SharedGroup::is_posted(int rank, std::uint64_t number, const What& what) {
  Note& theirs = note(rank, number);
  if (load(theirs.number) != number) {
    awaited_ = rank;
    return false;
  }
  if (!(theirs.what == what)) {
    const auto described = [](const What& of) {
      constexpr std::array<std::string_view, 7> kinds{
          "all_reduce", "reduce_in_parts", "barrier",   "reduce_scatter",
          "all_gather", "broadcast",       "all_to_all"};
      return fmt::format("{} {} x {} (reduction {}, root {})",
                         kinds[static_cast<std::size_t>(of.kind)], meshwork::name_of(of.type),
                         of.count, static_cast<int>(of.reduction), of.root);
    };
    give_up(fmt::format("the ranks are not in the same collective: {} is in {}, {} in {}",
                        name_of_rank(rank_), described(what), name_of_rank(rank),
                        described(theirs.what)));
  }
  return true;
}

bool SharedGroup::all_posted(std::uint64_t number, const What& what, int& seen) {
  for (; seen < size_; ++seen) {
    if (seen != rank_ && !is_posted(seen, number, what)) return false;
  }
  return true;
}

int SharedGroup::count_in_windows(std::uint64_t number) const {
  int count = 0;
  for (int rank = 0; rank < size_; ++rank) count += note(rank, number).place.window != 0 ? 1 : 0;
  return count;
}

void SharedGroup::publish(std::uint64_t& word, std::uint64_t value) {
  store(word, value);
  bells_->ring(bells_of_others_);
}

void SharedGroup::finish(std::uint64_t number) {
  publish(SharedCounter::finished, number);
}

void SharedGroup::wait_until_all_finished(std::uint64_t number) {
  wait_until([&] { return all_reached(SharedCounter::finished, number); });
}

void SharedGroup::post_data(std::uint64_t number, const std::byte* data, std::int64_t bytes,
                            bool is_small) {
  if (is_small && note(rank_, number).place.window == 0) {
    copy_bytes(small(rank_, number), data, bytes);
  }
  post(number);
}

bool SharedGroup::all_readable(std::uint64_t number, const What& what, bool is_small, int& seen) {
  if (!is_small && note(rank_, number).place.window == 0) return false;
  wait_until([&] { return all_posted(number, what, seen); });
  return is_small || count_in_windows(number) == size_;
}

const std::byte* SharedGroup::posted(int rank, std::uint64_t number) const {
  const SharedPlace& place = note(rank, number).place;
  return place.window == 0 ? small(rank, number) : address(place, rank);
}

void SharedGroup::finish_once_read(std::uint64_t number) {
  finish(number);
  if (note(rank_, number).place.window != 0) wait_until_all_finished(number);
}

bool SharedGroup::all_reached(int which, std::uint64_t value) {
  std::uint64_t& lowest = reached_[static_cast<std::size_t>(which)];
  if (lowest >= value) return true;
  std::uint64_t found = UINT64_MAX;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    const std::uint64_t theirs = load(counter(rank, which));
    if (theirs < value) {
      awaited_ = rank;
      return false;
    }
    found = std::min(found, theirs);
  }
  lowest = found;
  return true;
}

void SharedGroup::wait_until_left(std::ptrdiff_t count) {
  // A wait for each step that goes on, so that each begins by spinning.
  while (std::ssize(queue_) > count) {
    wait_until([&] { return advance_started() || std::ssize(queue_) <= count; }, Ways::several);
  }
}

void SharedGroup::barrier() {
  finish_started();
  const What what{.kind = Kind::barrier};
  const std::uint64_t number = begin_call(what, {});
  post(number);
  int seen = 0;
  wait_until([&] { return all_posted(number, what, seen); });
  finish(number);
}

// ---- waiting ------------------------------------------------------------------------------------

void SharedGroup::at_leisure(double seconds) {
  if (load(*reinterpret_cast<std::uint64_t*>(memory_.all().data() + flag_at)) != 0) {
    const char* word = reinterpret_cast<const char*>(memory_.all().data() + word_at);
    throw RanksParted(std::string(word, ::strnlen(word, word_bytes)));
  }
  if (Hosted* const hosted = Hosted::current()) {
    try {
      hosted->look();
    } catch (const RanksParted&) {
      hosted->leave_wait();
      throw;
    }
  }
  agenda_->advance();
  // MPI goes on with what was started through it only while somebody calls it.
  int found = 0;
  check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_SELF, &found, MPI_STATUS_IGNORE), "MPI_Iprobe");
  if (seconds < next_check_) return;
  next_check_ = seconds + seconds_between_checks;
  if (memory_.is_mapped_by(awaited_)) {
    suspect_ = -1;
  } else if (suspect_ != awaited_) {
    suspect_ = awaited_;  // it may have come before it went: look once more
  } else {
    give_up(fmt::format("{} has died or left, and {} waits for it in a collective of {} ranks",
                        name_of_rank(awaited_), name_of_rank(rank_), size_));
  }
}

void SharedGroup::give_up(const std::string& why) {
  std::byte* memory = memory_.all().data();
  std::uint64_t& claim = *reinterpret_cast<std::uint64_t*>(memory + claim_at);
  if (std::atomic_ref<std::uint64_t>(claim).exchange(1) == 0) {
    std::memcpy(memory + word_at, why.data(),
                std::min(why.size(), static_cast<std::size_t>(word_bytes)));
    publish(*reinterpret_cast<std::uint64_t*>(memory + flag_at), 1);
  }
  if (Hosted* const hosted = Hosted::current()) hosted->leave_wait();
  throw RanksParted(why);
}

std::string SharedGroup::name_of_rank(int rank) const {
  return fmt::format("rank {}", meshwork::name_of_rank(job_ranks_[static_cast<std::size_t>(rank)]));
}

}  // namespace meshwork
