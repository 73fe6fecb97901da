// DirectoryLock: one run at a time in a directory of checkpoints.
//
// Two runs in one directory would remove each other's files and go on from each other's steps. It
// happens when a run is started again while ranks of the one before are still being ended. So rank
// 0 of a run holds a lock on the file `.lock` in the directory for as long as it runs
// (owner_lock.h). The file stays. Nothing here is collective.
#pragma once

#include <chrono>
#include <filesystem>

#include "runtime/checkpoint/owner_lock.h"

namespace meshwork {

class DirectoryLock {
 public:
  /// Takes the lock of `directory`, which is there; waits for one who has it, `patience` at most.
  /// Throws `FailedWrite` that names who has it, and as `OwnerLock`.
  DirectoryLock(const std::filesystem::path& directory, std::chrono::seconds patience);

  /// Whether nobody else has this directory.
  [[nodiscard]] bool held() const { return lock_.held(); }

 private:
  OwnerLock lock_;
};

}  // namespace meshwork
