// How a rank that is called wakes while it sleeps.
//
// The content of a call travels by MPI, which goes on only while somebody calls it. A rank that has
// nothing to do does not: it sleeps, and a *bell* wakes it. A bell carries nothing. It says: look.
//
// A rank *listens* when nobody on it looks at MPI any more, and stops when somebody does again.
// Who has given a message to MPI *rings* the rank that it is for. On its own node a bell is a word in
// shared memory, on which the sleeper waits (futex). The ringer sees there whether that rank listens,
// and leaves it alone if not; so to ring a rank that is awake costs a fence and a load. To another
// node the ringer sends a datagram, at most one every millisecond, since it cannot see who sleeps. A
// thread of the called rank, the *ear*, blocks in the kernel until one comes, and then rings its own
// rank.
//
// No ring is lost on a node. The listener writes that it listens, then looks once more; the ringer
// sends, then reads whether it listens. Both put a fence between the two. A datagram may be lost, and
// so may a ring be early, where MPI had no room for the message at once. Therefore nobody sleeps for
// longer than a time that it chooses, and looks then.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/datagrams.h"
#include "collectives/shared_memory.h"

namespace meshwork {

class CallBells {
 public:
  /// Every rank of `ranks` calls it. Fails nowhere: ranks that can share no memory ring by datagrams,
  /// and where these do not pass either, sleepers wake by themselves.
  explicit CallBells(const Communicator& ranks);
  ~CallBells();
  CallBells(const CallBells&) = delete;
  CallBells& operator=(const CallBells&) = delete;

  /// Wakes `rank` of the communicator if it listens. From any thread; calls no MPI and does not wait.
  void ring(int rank) noexcept;
  /// Wakes who sleeps on this rank, whether or not it listens.
  void ring_own() noexcept;

  // Of this rank:

  /// It listens from now on: nobody looks any more. Look once more after this.
  void listen() noexcept;
  /// Somebody looks again.
  void stop_listening() noexcept;
  /// What `sleep` compares with: read it before the last look.
  [[nodiscard]] std::uint32_t rings() const noexcept;
  /// Returns when this rank was rung since `rings` was read, after `seconds`, or for no reason.
  void sleep(std::uint32_t rings, double seconds) const noexcept;

  /// Whether the process of `rank` has ended, or it has left or let go of its bells. Known of this
  /// rank's node only: false for all others. Costs a system call.
  [[nodiscard]] bool is_gone(int rank) const;
  /// This rank leaves, since nobody needs it any more.
  void leave() noexcept;
  /// It leaves on account of `culprit`: of itself, or of a rank that it waited for in vain. The first
  /// time that it leaves counts.
  void leave_for(int culprit) noexcept;
  /// On account of whom `rank`, which is gone, has left: of itself if it has died; -1: nobody needed
  /// it any more.
  [[nodiscard]] int culprit_of(int rank) const;

 private:
  /// How a rank has left: not, in order, or `for_a_culprit` and the culprit's number.
  struct Departure {
    static constexpr std::uint32_t none = 0, in_order = 1, for_a_culprit = 2;
  };
  struct Bell {
    std::uint32_t rings;
    std::uint32_t listens;
    std::uint32_t departure;
  };
  /// Where a rank is rung.
  struct Place {
    Bell* bell = nullptr;  // on this node
    int node_rank = -1;
    std::vector<std::uint32_t> hosts;  // on another
    std::uint16_t port = 0;
    std::atomic<std::int64_t> rung{0};  // the last time, in nanoseconds
  };

  void hear();

  int own_rank_;
  Bell alone_{};                        // the own bell where no memory is shared
  std::optional<SharedMemory> memory_;  // of the node
  Bell* own_;
  std::vector<std::unique_ptr<Place>> places_;  // by rank
  DatagramSocket socket_;
  std::string key_;  // of the datagrams that are meant for these bells
  std::atomic<bool> ends_{false};
  std::thread ear_;
};

}  // namespace meshwork
