#pragma once

#include <ctime>

namespace meshwork::test {

/// Seconds of a processor that this process has used.
inline double processor_seconds() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

}  // namespace meshwork::test
