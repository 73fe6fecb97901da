// What tests can ask of the NCCL that is none (nccl.h), and have it do.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace meshwork::test {

struct NcclOnHost {
  /// Operations and groups that were put into a stream so far.
  std::int64_t operations = 0;
  std::int64_t communicators = 0;  // that were made
  std::int64_t destroyed = 0, aborted = 0;
  /// Who aborts a communicator waits for the other ranks of the node to do so, as NCCL's threads do.
  bool aborts_together = false;
  /// The next call of this function fails, after so many that do not; "" for none.
  std::string failing;
  int before_failing = 0;
  /// A sum of floating-point numbers over a communicator of which this is true is rounded in another order.
  bool adds_backwards = false;
};

/// That of this process.
[[nodiscard]] NcclOnHost& nccl_on_host();

/// From now on every communicator of this process has failed.
void fail_nccl_later();

}  // namespace meshwork::test
