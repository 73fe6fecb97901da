// DirectoryLock: one run at a time in a directory of checkpoints.
//
// Two runs in one directory would remove each other's files and go on from each other's steps. It
// happens when a run is started again while ranks of the one before are still being ended. So rank
// 0 of a run holds a lock on the file `.lock` in the directory for as long as it runs. The system
// gives the lock back when the process ends, however that ends, on all machines that share the
// directory. The file stays; it tells who has it, for messages. Nothing here is collective.
//
// Where the file system has no locks, `held` says so, and nobody is kept out.
#pragma once

#include <chrono>
#include <filesystem>

namespace meshwork {

class DirectoryLock {
 public:
  /// Takes the lock of `directory`, which is there; waits for one who has it, `patience` at most.
  /// Throws `Error` that names who has it, or if the file cannot be made or is
  /// somebody else's.
  DirectoryLock(const std::filesystem::path& directory, std::chrono::seconds patience);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

  /// Whether nobody else has this directory.
  [[nodiscard]] bool held() const { return held_; }

 private:
  int file_ = -1;
  bool held_ = false;
};

}  // namespace meshwork
