// Signals that ask a process to stop: SIGUSR1, SIGTERM, SIGINT.
//
// The handler notes which came and tells who asked to be told; whoever runs the work looks at it
// when the work can be left. Only a second SIGINT ends the process at once, with status 130. How a
// process treats signals is the process's, so this is the one place with state that belongs to
// nobody.
#pragma once

#include <cstdint>
#include <string_view>

namespace meshwork {

/// In rising order of urgency.
enum class StopSignal : std::uint8_t { none, user1, terminate, interrupt };
/// "SIGTERM"; "" for none.
[[nodiscard]] std::string_view name_of(StopSignal signal);

/// The most urgent one that this process received while a `StopSignals` lived.
[[nodiscard]] StopSignal received_stop_signal();

/// Takes the signals. One that is made while another lives takes them over, and what came before is
/// forgotten. When the last one made ends, nobody is told any more, but SIGUSR1 and SIGTERM stay
/// harmless: the process is about to end with the status of what it did, and a signal that a launcher
/// sends because another rank has ended already must not change that.
class StopSignals {
 public:
  /// Told of each signal, by its number, inside the handler: it may only do what handlers may.
  using Listener = void (*)(void* context, int number);

  explicit StopSignals(Listener listener = nullptr, void* context = nullptr);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
};

}  // namespace meshwork
