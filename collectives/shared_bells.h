// How a rank that sleeps is woken by the ranks that it waits for.
//
// Every rank of a node has a *bell*, a word in memory that all of them map. A rank that has nothing
// to do *listens*: it writes beside its bell for whom it waits, one rank or anyone, looks once more
// whether it has to wait at all, and sleeps until its bell is rung or a time is over (a futex). A
// rank that has stored what others may wait for *rings*: it wakes those of them that listen for it.
//
// Nothing is lost: to listen and to look come in this order, and so do to store and to ring; so
// either the listener sees what was stored, or who stored it sees the listener. That takes a fence
// between the two on both sides. One after every store would make each rank wait until the others
// have given up their copies of its cache line, so the listener, who has time, has the kernel do it
// for all (membarrier). Where the kernel does not, a ring can be missed, which costs what the sleep
// was long. While nobody listens, to ring is one load of a word that stays in the cache; no system
// call.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/shared_memory.h"

namespace meshwork {

class SharedBells {
 public:
  /// Whom a rank listens for if not one rank.
  static constexpr int anyone = -1;

  /// A bell in memory: a word that each ring increments, and the listener's wish.
  struct Bell {
    std::uint32_t rings;
    std::uint32_t awaited;  // 0: nobody; else 2 + the rank in the job, or 1 for anyone
  };

  /// Every rank of `node`, which are on one node, calls it. Throws on all ranks if they cannot
  /// share memory.
  explicit SharedBells(const Communicator& node);

  /// The bells of ranks given by their numbers in the job, the calling one left out.
  [[nodiscard]] std::vector<Bell*> of(std::span<const int> job_ranks) const;

  /// Wakes those whose bells these are if they listen for this rank. Call it after every store that
  /// may end a wait.
  void ring(std::span<Bell* const> bells) const noexcept {
    std::atomic_signal_fence(std::memory_order_seq_cst);  // the compiler keeps the order
    if (std::atomic_ref<std::uint32_t>(*listeners_).load(std::memory_order_relaxed) != 0) {
      wake(bells);
    }
  }

  /// Listens as long as it lives. Between the making and `sleep` one has to look whether there is
  /// anything to wait for.
  class Listening {
   public:
    Listening(const SharedBells& bells, int awaited_job_rank) noexcept;
    ~Listening();
    Listening(const Listening&) = delete;
    Listening& operator=(const Listening&) = delete;

    /// Returns when the bell was rung since the making, after `seconds`, or for no reason.
    void sleep(double seconds) const noexcept;

   private:
    const SharedBells& bells_;
    std::uint32_t rings_;
  };

 private:
  void wake(std::span<Bell* const> bells) const noexcept;
  [[nodiscard]] Bell& bell(std::size_t index) const;

  std::vector<int> job_ranks_;
  SharedMemory memory_;
  int own_job_rank_;
  std::uint32_t* listeners_;  // how many there are
  Bell* own_;
};

}  // namespace meshwork
