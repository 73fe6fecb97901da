// Which memory is shared, and where the same memory of another rank is.
//
// A *window* is what one call of `Transport::allocate` gave to the ranks of a communicator: a part
// for each of them, all mapped by every one, side by side. A *place* names an address of a rank in
// a way that others understand: the window's number, which is the same on all of its ranks, and the
// offset from where that rank's part begins. A rank's buffer may lie in the part of another (memory
// that several use as one); its offset is then outside its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/nodes.h"
#include "collectives/transport.h"

namespace meshwork {

struct SharedPlace {
  std::uint64_t window = 0;  // 0: memory that others do not see
  std::int64_t offset = 0;   // in bytes
};

/// The windows of one transport on one rank.
class SharedWindows {
 public:
  /// What the ranks of a communicator need to know about each other: their numbers in the job.
  using JobRanks = std::span<const int>;

  /// Makes a window. Every rank of `node`, which are on one node, calls it with its own number of
  /// bytes. Throws on all ranks if there is not enough memory.
  [[nodiscard]] static TransportMemory allocate(const std::shared_ptr<SharedWindows>& windows,
                                                const Communicator& node, std::int64_t bytes);

  /// The place of `bytes` bytes that all of `ranks` can reach, this one's among them, or none.
  [[nodiscard]] SharedPlace place_of(const void* data, std::int64_t bytes, JobRanks ranks) const;

  /// Where this process sees a place of rank `job_rank`.
  [[nodiscard]] std::byte* address(const SharedPlace& place, int job_rank) const;

 private:
  class Window;
  std::vector<const Window*> windows_;
  std::uint32_t made_ = 0;
};

}  // namespace meshwork
