#include "collectives/shared_bells.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <ctime>

#include "collectives/error.h"
#include "collectives/shared_windows.h"

namespace meshwork {

namespace {

// The number of listeners, then the bells, each on a cache line of its own.
constexpr std::int64_t line = 128;

constexpr std::uint32_t nobody = 0, for_anyone = 1;

std::uint32_t wish_for(int job_rank) {
  return job_rank == SharedBells::anyone ? for_anyone : static_cast<std::uint32_t>(job_rank) + 2;
}

std::atomic_ref<std::uint32_t> shared(std::uint32_t& word) {
  return std::atomic_ref<std::uint32_t>(word);
}

}  // namespace

SharedBells::SharedBells(const Communicator& node)
    : job_ranks_(job_ranks_of(node)),
      memory_(node, line * (1 + node.size())),
      own_job_rank_(job_ranks_[static_cast<std::size_t>(node.rank())]),
      listeners_(reinterpret_cast<std::uint32_t*>(memory_.all().data())),
      own_(&bell(static_cast<std::size_t>(node.rank()))) {
  // Takes part in the fences of others from now on. Refused: see the header.
  (void)::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0);
}

SharedBells::Bell& SharedBells::bell(std::size_t index) const {
  return *reinterpret_cast<Bell*>(memory_.all().data() +
                                  line * (1 + static_cast<std::int64_t>(index)));
}

std::vector<SharedBells::Bell*> SharedBells::of(std::span<const int> job_ranks) const {
  std::vector<Bell*> bells;
  for (const int job_rank : job_ranks) {
    if (job_rank == own_job_rank_) continue;
    const auto found = std::ranges::find(job_ranks_, job_rank);
    if (found == job_ranks_.end()) {
      internal_error("a communicator has ranks for which its transport was not made");
    }
    bells.push_back(&bell(static_cast<std::size_t>(found - job_ranks_.begin())));
  }
  return bells;
}

void SharedBells::wake(std::span<Bell* const> bells) const noexcept {
  for (Bell* const bell : bells) {
    std::uint32_t wish = shared(bell->awaited).load(std::memory_order_relaxed);
    if (wish != for_anyone && wish != wish_for(own_job_rank_)) continue;
    // Of several that ring, one wakes.
    if (!shared(bell->awaited).compare_exchange_strong(wish, nobody)) continue;
    shared(bell->rings).fetch_add(1);
    ::syscall(SYS_futex, &bell->rings, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
}

SharedBells::Listening::Listening(const SharedBells& bells, int awaited_job_rank) noexcept
    : bells_(bells), rings_(shared(bells.own_->rings).load(std::memory_order_relaxed)) {
  shared(bells.own_->awaited).store(wish_for(awaited_job_rank), std::memory_order_relaxed);
  shared(*bells.listeners_).fetch_add(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  (void)::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

SharedBells::Listening::~Listening() {
  shared(bells_.own_->awaited).store(nobody, std::memory_order_relaxed);
  shared(*bells_.listeners_).fetch_sub(1, std::memory_order_relaxed);
}

void SharedBells::Listening::sleep(double seconds) const noexcept {
  timespec limit{};
  limit.tv_sec = static_cast<time_t>(seconds);
  limit.tv_nsec = static_cast<long>((seconds - static_cast<double>(limit.tv_sec)) * 1e9);
  // Whatever it returns for, the caller looks.
  ::syscall(SYS_futex, &bells_.own_->rings, FUTEX_WAIT, rings_, &limit, nullptr, 0);
}

}  // namespace meshwork
