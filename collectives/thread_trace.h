// The trace that a thread's waits are written to, where nobody hands it to them.
//
// A watchdog (watchdog.h) watches the thread that makes it. Collectives get its trace with their
// communicators. Calls between ranks (calls.h) belong to no watchdog: while a thread waits for an
// answer, they look here for its trace. What a thread does is the thread's, so this is state of the
// process.
#pragma once

#include "collectives/trace.h"

namespace meshwork {

/// Lets waits of the thread that makes it write to `trace`, as long as it lives.
class ThreadTrace {
 public:
  explicit ThreadTrace(CollectiveTrace& trace);
  /// In any thread.
  ~ThreadTrace();
  ThreadTrace(const ThreadTrace&) = delete;
  ThreadTrace& operator=(const ThreadTrace&) = delete;

  /// That of this thread, the last one made; null: there is none.
  [[nodiscard]] static CollectiveTrace* current();

 private:
  CollectiveTrace* trace_;
};

}  // namespace meshwork
