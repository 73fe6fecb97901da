// LastWords: one message of a job that a rank ends.
//
// Where a rank fails, others notice: it has gone, a launcher sends them SIGTERM, they wait in vain.
// Each would say so. None of that is the cause. While a `LastWords` lives, one rank of a node
// speaks: the first that ends the job, or that tells what failed on all ranks. The others of that
// node end without a word.
//
// A rank that was killed says nothing. Ranks of its node see that it is gone, and one of them names
// it.
//
// The node's memory says which rank speaks. Ranks that can share no memory all speak. So do those
// of a job without a `LastWords`. It is state of the process, since anyone may ask: abort_job, a
// watchdog.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/shared_memory.h"

namespace meshwork {

class LastWords {
 public:
  /// Every rank of the job, `ranks`, calls it. A process has one. `titles` are what each rank is
  /// called behind its number: "rank 2 (board)". Empty: nothing.
  explicit LastWords(const Communicator& ranks, const std::vector<std::string>& titles = {});
  ~LastWords();
  LastWords(const LastWords&) = delete;
  LastWords& operator=(const LastWords&) = delete;

  /// Whether the process has one, so that one rank of the node alone speaks.
  [[nodiscard]] static bool are_kept() noexcept;
  /// Whether this rank is to say why the job ends: true for the first of its node that asks, once.
  /// From any thread.
  [[nodiscard]] static bool claim() noexcept;
  /// Whether a rank of the node has said it, or is about to.
  [[nodiscard]] static bool are_said() noexcept;
  /// "rank 2 (board) has died or left", of the ranks of the node; "" if all are there. A system
  /// call for each rank of the node. From any thread.
  [[nodiscard]] static std::string missing();

 private:
  [[nodiscard]] std::uint32_t& word() const;

  std::optional<SharedMemory> memory_;  // of the node
  int own_ = 0;                         // this rank's number on the node
  std::vector<std::string> names_;      // by that number: "2 (board)"
};

}  // namespace meshwork
