// Short texts from any rank to rank 0 that travel beside MPI, and so also when MPI hangs.
//
// They are datagrams (UDP over IPv4) to a port that rank 0 opens when the channel is made; its
// number and rank 0's addresses are told to all ranks then. Datagrams may get lost, so a text that
// matters is sent again until something happens, and no rank is ever waited for. A key that only
// the ranks of the channel know is in front of every text; others are ignored. Where the network of
// the machines does not let datagrams pass, nothing arrives, and that is all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/communicator.h"

namespace meshwork {

class SideChannel {
 public:
  /// No text is longer, in bytes.
  static constexpr std::size_t longest = 1200;

  /// Collective. Fails nowhere: without a network the channel is mute.
  explicit SideChannel(const Communicator& ranks);
  ~SideChannel();
  SideChannel(const SideChannel&) = delete;
  SideChannel& operator=(const SideChannel&) = delete;

  /// Sends `text`, cut to `longest` bytes, to rank 0. Calls no MPI and does not wait.
  void send(std::string_view text) const;
  /// On rank 0: a text that has arrived. Calls no MPI and does not wait.
  [[nodiscard]] std::optional<std::string> receive() const;

 private:
  int socket_ = -1;
  std::string key_;
  std::uint16_t port_ = 0;                // of rank 0; 0 if it has none
  std::vector<std::uint32_t> addresses_;  // of rank 0, in network order
};

}  // namespace meshwork
