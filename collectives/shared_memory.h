// Memory that the ranks of a communicator all map, if they are on one node.
//
// It has no name in any file system: rank 0 makes an anonymous file (memfd), the others open it as
// a file that rank 0 holds (/proc/PID/fd/N), and it is gone when the last mapping is, however the
// ranks end. Where /proc does not let ranks do that (containers that see each other's processes
// under other numbers, or not at all), it is a POSIX shared-memory object whose name is removed as
// soon as all ranks have opened it, while it is still empty. Pages are taken when they are first
// touched, by default near the processor that touches them. It begins at a huge page (huge_pages.h).
//
// Every rank that maps the memory holds a lock of the file, a *sign of life*, which the kernel
// takes back when the process ends in whatever way. So ranks can be asked for without their help,
// and a number of a process that is used again deceives nobody.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "collectives/communicator.h"

namespace meshwork {

class SharedMemory {
 public:
  /// Maps `bytes` of zeros on all ranks of `node`, which all call this with the same number. Throws
  /// on all of them if any cannot.
  SharedMemory(const Communicator& node, std::int64_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  [[nodiscard]] std::span<std::byte> all() const { return {memory_, bytes_}; }

  /// Whether rank `rank` of the communicator still maps the memory. False once it has let go of it
  /// or its process has ended. Costs a system call.
  [[nodiscard]] bool is_mapped_by(int rank) const;

 private:
  void create(const Communicator& node, bool anonymous);
  void close() noexcept;

  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
  std::size_t mapped_bytes_ = 0;  // whole pages, and one behind them for a key
  int file_ = -1;  // the only descriptor of this process: closing any other would lose the lock
};

}  // namespace meshwork
