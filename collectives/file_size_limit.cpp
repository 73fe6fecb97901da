#include "collectives/file_size_limit.h"

#include <pthread.h>
#include <sys/resource.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>

#include "collectives/error.h"
#include "collectives/printable.h"

namespace meshwork {
namespace {

sigset_t file_size_signal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGXFSZ);
  return set;
}

bool is_pending() {
  sigset_t pending;
  sigemptyset(&pending);
  return ::sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
}

}  // namespace

FileSizeSignalBlocked::FileSizeSignalBlocked() {
  const sigset_t signal = file_size_signal();
  sigset_t before;
  if (pthread_sigmask(SIG_BLOCK, &signal, &before) != 0) fail("pthread_sigmask failed");
  ours_ = sigismember(&before, SIGXFSZ) == 0;
  was_pending_ = ours_ && is_pending();
}

FileSizeSignalBlocked::~FileSizeSignalBlocked() {
  if (!ours_) return;
  const int reason = errno;  // which who failed to write may still have to tell
  const sigset_t signal = file_size_signal();
  if (!was_pending_ && is_pending()) {
    const timespec none{};
    while (::sigtimedwait(&signal, nullptr, &none) < 0 && errno == EINTR) {
    }
  }
  // It fails for arguments that it was not given.
  static_cast<void>(pthread_sigmask(SIG_UNBLOCK, &signal, nullptr));
  errno = reason;
}

void check_file_size(const std::string& file, std::int64_t bytes) {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      static_cast<std::uint64_t>(bytes) > limit.rlim_cur) {
    fail("{}: there is no room for {} bytes: {} (ulimit -f allows {})", in_one_line(file), bytes,
         std::strerror(EFBIG), limit.rlim_cur);
  }
}

}  // namespace meshwork
