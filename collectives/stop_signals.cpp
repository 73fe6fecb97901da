#include "collectives/stop_signals.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "collectives/error.h"

namespace meshwork {

namespace {

constexpr int interrupted_status = 130;  // 128 + SIGINT, as a shell says it

struct Known {
  int number;
  StopSignal signal;
};
constexpr std::array<Known, 3> known{{{SIGUSR1, StopSignal::user1},
                                      {SIGTERM, StopSignal::terminate},
                                      {SIGINT, StopSignal::interrupt}}};

std::atomic<StopSignal> received{StopSignal::none};
static_assert(std::atomic<StopSignal>::is_always_lock_free, "a signal handler writes it");

std::atomic<StopSignals::Listener> told{nullptr};
std::atomic<void*> told_context{nullptr};

void note(int number) {
  if (const StopSignals::Listener listener = told.load(std::memory_order_acquire)) {
    listener(told_context.load(std::memory_order_relaxed), number);
  }
  for (const Known& one : known) {
    if (one.number != number) continue;
    const StopSignal before = received.load(std::memory_order_relaxed);
    if (one.signal == StopSignal::interrupt && before == StopSignal::interrupt) {
      ::_exit(interrupted_status);
    }
    if (one.signal > before) received.store(one.signal, std::memory_order_relaxed);
  }
}

}  // namespace

std::string_view name_of(StopSignal signal) {
  switch (signal) {
    case StopSignal::none:
      return "";
    case StopSignal::user1:
      return "SIGUSR1";
    case StopSignal::terminate:
      return "SIGTERM";
    case StopSignal::interrupt:
      return "SIGINT";
  }
  return "?";
}

StopSignal received_stop_signal() {
  return received.load(std::memory_order_relaxed);
}

StopSignals::StopSignals(Listener listener, void* context) {
  received.store(StopSignal::none, std::memory_order_relaxed);
  told_context.store(context, std::memory_order_relaxed);
  told.store(listener, std::memory_order_release);
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;  // reads and writes go on
  sigemptyset(&action.sa_mask);
  for (const Known& one : known) {
    if (::sigaction(one.number, &action, nullptr) != 0) {
      fail("sigaction for signal {} failed: {}", one.number, std::strerror(errno));
    }
  }
}

StopSignals::~StopSignals() {
  told.store(nullptr, std::memory_order_release);
  (void)std::signal(SIGINT, SIG_DFL);
}

}  // namespace meshwork
