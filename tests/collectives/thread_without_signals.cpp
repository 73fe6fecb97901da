#include "collectives/thread_without_signals.h"

#include <pthread.h>

#include <csignal>

#include "collectives/error.h"
#include "tests/support/catch.h"

namespace meshwork::thread_without_signals_test {

namespace {

/// Whether the calling thread blocks SIGTERM.
bool blocks_signals() {
  sigset_t blocked;
  sigemptyset(&blocked);
  REQUIRE(pthread_sigmask(SIG_SETMASK, nullptr, &blocked) == 0);
  return sigismember(&blocked, SIGTERM) == 1;
}

}  // namespace

TEST_CASE("signals are blocked in the thread and in no other") {
  bool blocks = false;
  thread_without_signals([&] { blocks = blocks_signals(); }).join();
  CHECK(blocks);
  CHECK(!blocks_signals());
}

TEST_CASE("where there can be no thread the calling one takes signals as before") {
  pthread_attr_t usual, too_large;
  REQUIRE(pthread_getattr_default_np(&usual) == 0);
  REQUIRE(pthread_attr_init(&too_large) == 0);
  REQUIRE(pthread_attr_setstacksize(&too_large, std::size_t{1} << 46) == 0);
  REQUIRE(pthread_setattr_default_np(&too_large) == 0);
  CHECK_THROWS_WITH(thread_without_signals([] {}),
                    Catch::Contains("no thread can be started beside the one that works"));
  REQUIRE(pthread_setattr_default_np(&usual) == 0);
  CHECK(!blocks_signals());
  thread_without_signals([] {}).join();
}

}  // namespace meshwork::thread_without_signals_test
