// Threads that help the one who works, and leave the signals to it.
#pragma once

#include <functional>
#include <thread>

namespace meshwork {

/// Runs `work` in a thread that blocks every signal. The calling thread's are as before, also where
/// it throws: an `Error` that says why there can be no thread.
[[nodiscard]] std::thread thread_without_signals(std::function<void()> work);

}  // namespace meshwork
