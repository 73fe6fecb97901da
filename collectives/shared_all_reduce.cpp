// The all-reduces of a group (shared_group.h), blocking and started.
#include <algorithm>
#include <cstring>

#include "collectives/error.h"
#include "collectives/shared_counters.h"
#include "collectives/shared_group.h"
#include "collectives/shared_reduction.h"

namespace meshwork {

class SharedGroup::Started final : public CompiledCollective {
 public:
  Started(SharedGroup& group, What what) : group_(group), what_(what) {}

  void start(const void* /*send*/, void* buffer) override {
    group_.wait_until_left(group_.options_.calls - 2);
    call = {};
    group_.begin_reduce(call, what_, buffer);
    under_way_ = group_.shared_from_this();
    if (group_.queue_.empty()) group_.agenda_->add(&group_);
    group_.queue_.push_back(this);
    group_.agenda_->advance();
  }

  void wait() override {
    const std::shared_ptr<SharedGroup> here = std::move(under_way_);
    while (!call.done) {
      here->wait_until([&] { return here->advance_started() || call.done; }, Ways::several);
    }
    // After a reduction in parts the next barrier says that others have read this buffer.
    if (others_read()) here->wait_until_all_finished(call.number);
  }

  [[nodiscard]] bool is_complete() const override {
    return call.done && (!others_read() || under_way_ == nullptr ||
                         under_way_->all_reached(SharedCounter::finished, call.number));
  }

  Call call;

 private:
  [[nodiscard]] bool others_read() const {
    return call.way == Way::direct && call.what.kind == Kind::all_reduce;
  }

  SharedGroup& group_;
  What what_;
  std::shared_ptr<SharedGroup> under_way_;  // the group, which stays as long
};

Compiled SharedGroup::started(const AllReduce& what) {
  return std::make_unique<Started>(*this, what_of(what));
}

void SharedGroup::all_reduce(const AllReduce& what, void* buffer) {
  finish_started();
  Call call;
  begin_reduce(call, what_of(what), buffer);
  (void)step(call);
  while (!call.done) {
    wait_until([&] { return step(call); }, call.way == Way::undecided ? Ways::one : Ways::several);
  }
  if (call.way == Way::direct && call.what.kind == Kind::all_reduce) {
    wait_until_all_finished(call.number);
  }
}

bool SharedGroup::advance_started() {
  bool went_on = false;
  while (!queue_.empty()) {
    Call& call = queue_.front()->call;
    went_on |= step(call);
    if (!call.done) break;
    queue_.erase(queue_.begin());
    if (queue_.empty()) agenda_->remove(this);
  }
  return went_on;
}

SharedGroup::What SharedGroup::what_of(const AllReduce& what) {
  return {.kind = what.in_parts ? Kind::reduce_in_parts : Kind::all_reduce,
          .type = what.type,
          .reduction = what.reduction,
          .count = what.count};
}

void SharedGroup::begin_reduce(Call& call, const What& what, void* buffer) {
  const std::int64_t bytes = what.count * element_bytes(what.type);
  call.buffer = static_cast<std::byte*>(buffer);
  call.what = what;
  call.number = begin_call(call.what, place_to_read(buffer, bytes, options_.small_bytes));
  const bool in_window = note(rank_, call.number).place.window != 0;
  if (bytes <= options_.small_bytes && !in_window) {
    std::memcpy(small(rank_, call.number), buffer, static_cast<std::size_t>(bytes));
  }
  post(call.number);
}

bool SharedGroup::step(Call& call) {
  if (call.way == Way::staged) return step_staged(call);
  // All ranks choose alike. One whose buffer is neither small nor in a window knows at once.
  const bool is_small = call.what.count * element_bytes(call.what.type) <= options_.small_bytes;
  int in_windows = 0;
  if (is_small || note(rank_, call.number).place.window != 0) {
    if (!all_posted(call.number, call.what, call.seen)) return false;
    in_windows = count_in_windows(call.number);
  }
  if (in_windows == size_) {
    call.way = Way::direct;
    reduce_direct(call);
  } else if (is_small && in_windows == 0) {
    call.way = Way::small;
    reduce_small(call);
  } else {
    begin_rounds(call);
    return step_staged(call);
  }
  finish(call.number);
  call.done = true;
  return true;
}

void SharedGroup::reduce_small(const Call& call) {
  for (int rank = 0; rank < size_; ++rank) {
    sources_[static_cast<std::size_t>(rank)] =
        rank == rank_ ? call.buffer : small(rank, call.number);
  }
  reduce_elements(call.what.type, call.what.reduction, sources_, call.buffer, call.what.count);
}

void SharedGroup::reduce_direct(const Call& call) {
  for (int rank = 0; rank < size_; ++rank) {
    buffers_[static_cast<std::size_t>(rank)] = address(note(rank, call.number).place, rank);
  }
  const std::int64_t begin = part_begin(call.what.count, rank_, size_, call.what.type);
  const std::int64_t end = part_begin(call.what.count, rank_ + 1, size_, call.what.type);
  if (call.what.kind == Kind::all_reduce) {
    reduce_everywhere(call.what.type, call.what.reduction, buffers_, begin, end - begin);
    return;
  }
  const std::int64_t offset = begin * element_bytes(call.what.type);
  for (std::size_t rank = 0; rank < buffers_.size(); ++rank) {
    sources_[rank] = buffers_[rank] + offset;
  }
  reduce_elements(call.what.type, call.what.reduction, sources_, call.buffer + offset, end - begin);
}

void SharedGroup::begin_rounds(Call& call) {
  call.way = Way::staged;
  const std::int64_t most = options_.slot_bytes / element_bytes(call.what.type);
  call.rounds = (call.what.count + most - 1) / most;
  call.round_count = most;
  call.first_round = rounds_;
  rounds_ += static_cast<std::uint64_t>(call.rounds);
}

// In a round, a rank stages what the others reduce, reduces its part of all, which it leaves in its
// slot, and takes theirs. Of its own part nothing is copied before it is reduced.
bool SharedGroup::step_staged(Call& call) {
  const ElementType type = call.what.type;
  const std::int64_t width = element_bytes(type);
  const auto part = [&](std::int64_t round, int rank) {
    const std::int64_t count =
        std::min(call.round_count, call.what.count - round * call.round_count);
    return width * part_begin(count, rank, size_, type);
  };
  const auto buffer = [&](std::int64_t round) {
    return call.buffer + round * call.round_count * width;
  };
  const auto copy = [](std::byte* to, const std::byte* from, std::int64_t begin, std::int64_t end) {
    std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
  };

  for (bool went_on = false;; went_on = true) {
    bool goes_on = false;
    if (call.taken < call.reduced) {
      const std::uint64_t round = call.first_round + static_cast<std::uint64_t>(call.taken);
      if (all_reached(SharedCounter::reduced, round + 1)) {
        for (int rank = 0; rank < size_; ++rank) {
          if (rank == rank_) continue;
          copy(buffer(call.taken), slot(rank, round), part(call.taken, rank),
               part(call.taken, rank + 1));
        }
        publish(SharedCounter::consumed, round + 1);
        ++call.taken;
        goes_on = true;
      }
    }
    if (call.taken == call.rounds) {
      finish(call.number);
      call.done = true;
      return true;
    }
    if (call.reduced < call.staged && all_posted(call.number, call.what, call.seen)) {
      const std::uint64_t round = call.first_round + static_cast<std::uint64_t>(call.reduced);
      if (all_reached(SharedCounter::staged, round + 1)) {
        const std::int64_t begin = part(call.reduced, rank_);
        const std::int64_t end = part(call.reduced, rank_ + 1);
        for (int rank = 0; rank < size_; ++rank) {
          sources_[static_cast<std::size_t>(rank)] =
              (rank == rank_ ? buffer(call.reduced) : slot(rank, round)) + begin;
        }
        reduce_elements(type, call.what.reduction, sources_, buffer(call.reduced) + begin,
                        (end - begin) / width);
        copy(slot(rank_, round), buffer(call.reduced), begin, end);
        publish(SharedCounter::reduced, round + 1);
        ++call.reduced;
        goes_on = true;
      }
    }
    if (call.staged < call.rounds && call.staged - call.taken < options_.slots) {
      const std::uint64_t round = call.first_round + static_cast<std::uint64_t>(call.staged);
      if (may_stage(round)) {
        copy(slot(rank_, round), buffer(call.staged), 0, part(call.staged, rank_));
        copy(slot(rank_, round), buffer(call.staged), part(call.staged, rank_ + 1),
             part(call.staged, size_));
        publish(SharedCounter::staged, round + 1);
        ++call.staged;
        goes_on = true;
      }
    }
    if (!goes_on) return went_on;
  }
}

}  // namespace meshwork
