#include "collectives/file_size_limit.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <thread>

#include "tests/support/catch.h"

namespace meshwork::file_size_limit_test {

namespace {

// While this lives, files may have 100 bytes.
class SmallFiles {
 public:
  SmallFiles() {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{100, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~SmallFiles() { setrlimit(RLIMIT_FSIZE, &before_); }
  SmallFiles(const SmallFiles&) = delete;
  SmallFiles& operator=(const SmallFiles&) = delete;

 private:
  rlimit before_{};
};

// The reason for which a byte beyond the limit is not written; 0 if it is.
int write_too_much() {
  const int file = ::memfd_create("written", MFD_CLOEXEC);
  REQUIRE(file >= 0);
  int reason = 0;
  {
    const SmallFiles small;
    reason = ::pwrite(file, "x", 1, 100) == 1 ? 0 : errno;
  }
  ::close(file);
  return reason;
}

bool blocks_signal() {
  sigset_t blocked;
  sigemptyset(&blocked);
  REQUIRE(pthread_sigmask(SIG_SETMASK, nullptr, &blocked) == 0);
  return sigismember(&blocked, SIGXFSZ) == 1;
}

volatile std::sig_atomic_t taken = 0;

}  // namespace

TEST_CASE("what is written beyond the limit of a file's size fails, and ends nothing") {
  REQUIRE_FALSE(blocks_signal());
  {
    const FileSizeSignalBlocked blocked;
    CHECK(write_too_much() == EFBIG);
    {
      const FileSizeSignalBlocked inner;
      CHECK(write_too_much() == EFBIG);
    }
    CHECK(blocks_signal());
    CHECK(write_too_much() == EFBIG);
  }
  CHECK_FALSE(blocks_signal());
  std::thread([] {
    const FileSizeSignalBlocked blocked;
    CHECK(write_too_much() == EFBIG);
  }).join();
}

TEST_CASE("a program's own answer to the signal stays, and hears of what it does itself only") {
  struct sigaction own {};
  own.sa_handler = [](int) { taken = taken + 1; };
  struct sigaction before {};
  REQUIRE(::sigaction(SIGXFSZ, &own, &before) == 0);
  {
    const FileSizeSignalBlocked blocked;
    CHECK(write_too_much() == EFBIG);
  }
  CHECK(taken == 0);
  CHECK(write_too_much() == EFBIG);
  CHECK(taken == 1);
  REQUIRE(::sigaction(SIGXFSZ, &before, &own) == 0);
  CHECK(own.sa_handler != SIG_IGN);
}

}  // namespace meshwork::file_size_limit_test
