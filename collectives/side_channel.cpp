#include "collectives/side_channel.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <random>
#include <sstream>

#include "collectives/exchange.h"

namespace meshwork {

namespace {

sockaddr_in address_of(std::uint32_t host, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = host;
  address.sin_port = htons(port);
  return address;
}

/// This machine's addresses: those that others can reach, else the one by which it reaches itself.
std::vector<std::uint32_t> own_addresses() {
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

}  // namespace

SideChannel::SideChannel(const Communicator& ranks) {
  socket_ = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  std::string told;
  if (ranks.rank() == 0 && socket_ >= 0) {
    const int room = 1 << 22;  // for reports that all come at once; less will do
    (void)::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    sockaddr_in own = address_of(htonl(INADDR_ANY), 0);
    socklen_t length = sizeof own;
    if (::bind(socket_, reinterpret_cast<const sockaddr*>(&own), sizeof own) == 0 &&
        ::getsockname(socket_, reinterpret_cast<sockaddr*>(&own), &length) == 0) {
      std::random_device random;
      told = fmt::format("{:08x}{:08x} {}", random(), random(), ntohs(own.sin_port));
      for (const std::uint32_t address : own_addresses()) told += fmt::format(" {}", address);
    }
  }
  std::istringstream words(broadcast_text(ranks, told));
  words >> key_ >> port_;
  for (std::uint32_t address = 0; words >> address;) addresses_.push_back(address);
}

SideChannel::~SideChannel() {
  if (socket_ >= 0) ::close(socket_);
}

void SideChannel::send(std::string_view text) const {
  if (socket_ < 0 || port_ == 0) return;
  const std::string datagram = fmt::format("{} {}", key_, text.substr(0, longest));
  for (const std::uint32_t host : addresses_) {
    const sockaddr_in address = address_of(host, port_);
    // Whether it arrives cannot be known here.
    (void)::sendto(socket_, datagram.data(), datagram.size(), MSG_NOSIGNAL,
                   reinterpret_cast<const sockaddr*>(&address), sizeof address);
  }
}

std::optional<std::string> SideChannel::receive() const {
  if (socket_ < 0 || port_ == 0) return std::nullopt;
  std::array<char, longest + 64> buffer{};
  for (;;) {
    const ssize_t length = ::recv(socket_, buffer.data(), buffer.size(), 0);
    if (length < 0) return std::nullopt;
    const std::string_view datagram(buffer.data(), static_cast<std::size_t>(length));
    if (datagram.size() > key_.size() && datagram.starts_with(key_)) {
      return std::string(datagram.substr(key_.size() + 1));
    }
  }
}

}  // namespace meshwork
