#include "collectives/side_channel.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <sstream>

#include "collectives/datagrams.h"
#include "collectives/exchange.h"

namespace meshwork {

SideChannel::SideChannel(const Communicator& ranks) {
  std::string told;
  if (ranks.rank() == 0) {
    const DatagramSocket own = open_datagram_socket(1 << 22);  // reports may all come at once
    socket_ = own.file;
    if (socket_ >= 0) {
      told = fmt::format("{} {}", random_datagram_key(), own.port);
      for (const std::uint32_t host : own_datagram_hosts()) told += fmt::format(" {}", host);
    }
  } else {
    socket_ = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
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
    const sockaddr_in address = datagram_address(host, port_);
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
