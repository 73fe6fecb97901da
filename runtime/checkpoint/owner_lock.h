// OwnerLock: a lock on a file that says who holds it.
//
// The file holds one line, "process 4711 on node3", for messages. The system gives the lock back
// when the process ends, however that ends, on all machines that share the file. The lock is on a
// file of its own, never on data: MPI and HDF5 take locks on what they write. Nothing here is
// collective.
//
// Where the file system has no locks, `held` says so, and nobody is kept out.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "collectives/error.h"

namespace meshwork {

/// Another run holds a lock; `what()` is its "process 4711 on node3".
class HeldByOther : public Error {
 public:
  using Error::Error;
};

class OwnerLock {
 public:
  enum class Afterwards { keep, remove };  // the file

  /// Takes the lock of `file`, which it makes; waits for one who has it, `patience` at most, then
  /// throws `HeldByOther`. Throws `Error` if the file cannot be made (`FailedWrite` if that may
  /// pass) or is somebody else's.
  OwnerLock(std::filesystem::path file, std::chrono::seconds patience, Afterwards afterwards);
  ~OwnerLock();
  OwnerLock(const OwnerLock&) = delete;
  OwnerLock& operator=(const OwnerLock&) = delete;

  /// Whether nobody else has the lock.
  [[nodiscard]] bool held() const { return held_; }

 private:
  void open();
  [[nodiscard]] bool is_still_there() const;

  std::filesystem::path name_;
  Afterwards afterwards_;
  int file_ = -1;
  bool held_ = false;
};

}  // namespace meshwork
