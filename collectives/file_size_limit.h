// The limit of a file's size (RLIMIT_FSIZE, `ulimit -f`) as an error, like a full disk.
//
// The kernel answers who would write beyond it in two ways: the call fails with EFBIG, and the
// thread gets SIGXFSZ, which ends a process that does not expect it. What a signal does belongs to
// the program as a whole, which may be anybody's. Whether a thread takes it now is the thread's own
// affair, and SIGXFSZ goes to the thread that wrote.
//
// The HDF5 library (1.10) cannot close a file that it may not write: what asks it to write looks at
// the limit first.
#pragma once

#include <cstdint>
#include <string>

namespace meshwork {

/// While it lives, this thread does not take SIGXFSZ, and what it writes beyond the limit only
/// fails, with EFBIG. Afterwards the thread takes signals as before, and one that came meanwhile is
/// gone. Can be nested. To be destroyed by the thread that made it.
class FileSizeSignalBlocked {
 public:
  FileSizeSignalBlocked();
  ~FileSizeSignalBlocked();
  FileSizeSignalBlocked(const FileSizeSignalBlocked&) = delete;
  FileSizeSignalBlocked& operator=(const FileSizeSignalBlocked&) = delete;

 private:
  bool ours_ = false;         // it was not blocked before
  bool was_pending_ = false;  // somebody else's
};

/// Throws an `Error` about `file` if this process may have no files of `bytes`.
void check_file_size(const std::string& file, std::int64_t bytes);

}  // namespace meshwork
