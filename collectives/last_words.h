// LastWords: one message of a job that a rank ends.
//
// Where a rank fails, others notice: it has gone, a launcher sends them SIGTERM, they wait in vain. Each
// would say so, and none of that is the cause. While a `LastWords` lives, the first rank of a node that
// ends the job, or tells what failed on all ranks, says why. The others of that node end without a word.
//
// Which rank that is stands in memory of the node. Ranks that can share none all speak, and so do those
// of a job without a `LastWords`. Who asks may be anywhere (abort_job, a watchdog), so this is state of
// the process.
#pragma once

#include <cstdint>
#include <optional>

#include "collectives/communicator.h"
#include "collectives/shared_memory.h"

namespace meshwork {

class LastWords {
 public:
  /// Every rank of `ranks` calls it. A process has one.
  explicit LastWords(const Communicator& ranks);
  ~LastWords();
  LastWords(const LastWords&) = delete;
  LastWords& operator=(const LastWords&) = delete;

  /// Whether the process has one, so that one rank of the node alone speaks.
  [[nodiscard]] static bool are_kept() noexcept;
  /// Whether this rank is to say why the job ends: true for the first of its node that asks, once. From
  /// any thread.
  [[nodiscard]] static bool claim() noexcept;
  /// Whether a rank of the node has said it, or is about to.
  [[nodiscard]] static bool are_said() noexcept;

 private:
  [[nodiscard]] std::uint32_t& word() const;

  std::optional<SharedMemory> memory_;  // of the node
};

}  // namespace meshwork
