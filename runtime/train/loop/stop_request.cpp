#include "runtime/train/loop/stop_request.h"

#include <csignal>

namespace meshwork {

int stopped_status(int reason) {
  return reason == SIGINT ? 128 + SIGINT : 75;
}

std::string stop_reason_name(int reason) {
  switch (reason) {
    case SIGUSR1:
      return "SIGUSR1";
    case SIGTERM:
      return "SIGTERM";
    case SIGINT:
      return "SIGINT";
    default:
      return fmt::format("a request ({})", reason);
  }
}

}  // namespace meshwork
