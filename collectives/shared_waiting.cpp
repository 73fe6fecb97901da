#include "collectives/shared_waiting.h"

#include <sched.h>

#include <thread>

namespace meshwork {

namespace {

using Seconds = std::chrono::duration<double>;

constexpr Seconds yielding{0.002};
constexpr Seconds longest_sleep{0.001};
constexpr std::int64_t rounds_between_leisure = 16;

}  // namespace

void SharedWaiting::give_way(std::int64_t round, std::chrono::steady_clock::time_point start) {
  const Seconds waited = std::chrono::steady_clock::now() - start;
  const bool sleeps = waited > yielding;
  if (sleeps || round % rounds_between_leisure == rounds_between_leisure - 1) {
    at_leisure_(waited.count());
  }
  if (sleeps) {
    std::this_thread::sleep_for(std::min(longest_sleep, waited / 20));
  } else {
    ::sched_yield();
  }
}

}  // namespace meshwork
