#include "launch/first_signals.h"

#include <unistd.h>

#include <csignal>
#include <cstring>

#include "runtime/train/loop/stop_request.h"

namespace meshwork {
namespace {

const char* line_of(int number) {
  switch (number) {
    case SIGTERM:
      return "stopped by SIGTERM\n";
    case SIGINT:
      return "stopped by SIGINT\n";
    default:
      return "stopped by SIGUSR1\n";
  }
}

}  // namespace

void FirstSignals::answer(void* self, int number) {
  auto& first = *static_cast<FirstSignals*>(self);
  if (first.noting_) {
    // As StopRequest has it, the larger number stays.
    if (first.noted_ < number) first.noted_ = number;
    return;
  }
  const char* const line = line_of(number);
  (void)!::write(STDERR_FILENO, line, std::strlen(line));
  ::_exit(stopped_status(number));
}

}  // namespace meshwork
