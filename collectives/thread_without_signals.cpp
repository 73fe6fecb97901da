#include "collectives/thread_without_signals.h"

#include <pthread.h>

#include <csignal>
#include <system_error>
#include <utility>

#include "collectives/error.h"

namespace meshwork {

namespace {

/// While it lives, this thread blocks every signal, and so do those that it makes.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before_) != 0) fail("pthread_sigmask failed");
  }
  ~AllSignalsBlocked() {
    // It fails for arguments that it was not given.
    static_cast<void>(pthread_sigmask(SIG_SETMASK, &before_, nullptr));
  }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

std::thread thread_without_signals(std::function<void()> work) {
  const AllSignalsBlocked blocked;
  try {
    return std::thread(std::move(work));
  } catch (const std::system_error& error) {
    fail(
        "no thread can be started beside the one that works: {}; the limit of processes (ulimit "
        "-u) or of memory may be too low",
        error.what());
  }
}

}  // namespace meshwork
