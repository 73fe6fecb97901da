#include "collectives/datagrams.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "collectives/error.h"

namespace meshwork {

sockaddr_in datagram_address(std::uint32_t host, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = host;
  address.sin_port = htons(port);
  return address;
}

std::vector<std::uint32_t> own_datagram_hosts() {
  std::vector<std::uint32_t> addresses;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) == 0) {
    for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
      if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
      if ((one->ifa_flags & IFF_UP) == 0 || (one->ifa_flags & IFF_LOOPBACK) != 0) continue;
      addresses.push_back(reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr.s_addr);
    }
    ::freeifaddrs(list);
  }
  if (addresses.empty()) addresses.push_back(htonl(INADDR_LOOPBACK));
  return addresses;
}

DatagramSocket open_datagram_socket(int room) {
  const int file = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (file < 0) return {};
  (void)::setsockopt(file, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
  sockaddr_in own = datagram_address(htonl(INADDR_ANY), 0);
  socklen_t length = sizeof own;
  if (::bind(file, reinterpret_cast<const sockaddr*>(&own), sizeof own) == 0 &&
      ::getsockname(file, reinterpret_cast<sockaddr*>(&own), &length) == 0) {
    return {file, ntohs(own.sin_port)};
  }
  ::close(file);
  return {};
}

std::string random_datagram_key() {
  std::uint64_t key = 0;
  if (::getrandom(&key, sizeof key, 0) != sizeof key) {
    fail("there are no random numbers: getrandom: {}", std::strerror(errno));
  }
  return fmt::format("{:016x}", key);
}

}  // namespace meshwork
