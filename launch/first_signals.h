// FirstSignals: SIGUSR1, SIGTERM and SIGINT from the first moment of the program on.
//
// While MPI begins they are noted: a rank that ended then would leave the others, and mpirun, inside
// it. At any other time they end the process at once, with one line and the status that signals have
// (75, and 130 for SIGINT), until a command answers them itself (Runtime::stop_request).
#pragma once

#include <atomic>

#include "collectives/stop_signals.h"

namespace meshwork {

class FirstSignals {
 public:
  FirstSignals() : signals_(answer, this) {}

  /// MPI is about to begin.
  void begin_noting() { noting_ = true; }
  /// MPI has begun. The number of the signal that came meanwhile, or 0.
  [[nodiscard]] int end_noting() {
    noting_ = false;
    return noted_;
  }

 private:
  static void answer(void* self, int number);

  std::atomic<bool> noting_{false};
  std::atomic<int> noted_{0};
  StopSignals signals_;
};

}  // namespace meshwork
