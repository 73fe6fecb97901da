// Where datagrams (UDP over IPv4) of this machine go to and come from: what a side channel and the
// bells of calls have in common.
#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <string>
#include <vector>

namespace meshwork {

/// `host` is in network order, `port` is not.
[[nodiscard]] sockaddr_in datagram_address(std::uint32_t host, std::uint16_t port);

/// This machine's addresses, in network order: those that others can reach, else the one by which
/// it reaches itself.
[[nodiscard]] std::vector<std::uint32_t> own_datagram_hosts();

/// A socket that has a port of its own, or -1.
struct DatagramSocket {
  int file = -1;
  std::uint16_t port = 0;
};
/// Opens one that never blocks, with room for `room` bytes that have come. Fails nowhere.
[[nodiscard]] DatagramSocket open_datagram_socket(int room);

/// A word that strangers do not guess: those who know it begin their datagrams with it. Throws
/// `Error` where the system has no random numbers.
[[nodiscard]] std::string random_datagram_key();

}  // namespace meshwork
