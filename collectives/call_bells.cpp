#include "collectives/call_bells.h"

#include <arpa/inet.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <ctime>
#include <sstream>
#include <string_view>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/nodes.h"
#include "collectives/text_list.h"
#include "collectives/thread_without_signals.h"

namespace meshwork {

namespace {

constexpr std::int64_t bell_bytes = 128;               // a cache line of its own, and its neighbour
constexpr std::int64_t between_datagrams = 1'000'000;  // nanoseconds
constexpr int longest_deafness = 1000;  // milliseconds until the ear sees that it is not needed

std::atomic_ref<std::uint32_t> word_of(std::uint32_t& word) {
  return std::atomic_ref<std::uint32_t>(word);
}

std::int64_t nanoseconds_now() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

}  // namespace

CallBells::CallBells(const Communicator& ranks) : own_rank_(ranks.rank()), own_(&alone_) {
  const Nodes nodes(ranks);
  const Communicator node = nodes.split(ranks);
  try {
    memory_.emplace(node, bell_bytes * node.size());
  } catch (const RanksParted&) {
    throw;
  } catch (const Error&) {
    memory_.reset();  // on all ranks of the node
  }
  const auto bell_of = [&](int node_rank) {
    return reinterpret_cast<Bell*>(memory_->all().data() + bell_bytes * node_rank);
  };
  if (memory_) own_ = bell_of(node.rank());

  // Every rank tells how it is rung.
  const std::vector<int> job_ranks = job_ranks_of(ranks);
  const std::vector<int> neighbours = job_ranks_of(node);
  const bool is_far = !memory_ ? ranks.size() > 1 : node.size() < ranks.size();
  std::string told;
  if (is_far) {
    socket_ = open_datagram_socket(1 << 16);
    key_ = random_datagram_key();
    told = fmt::format("{} {}", key_, socket_.port);
    for (const std::uint32_t host : own_datagram_hosts()) told += fmt::format(" {}", host);
  }
  std::string list;
  for (const std::string& text : gather_texts(ranks, told)) append_entry(list, text);
  const std::vector<std::string> texts = entries_of(broadcast_text(ranks, list));
  // One key for all bells: rank 0's, or the first that has one.
  std::string common_key;
  for (const std::string& text : texts) {
    std::istringstream words(text);
    Place& place = *places_.emplace_back(std::make_unique<Place>());
    std::string key;
    words >> key >> place.port;
    for (std::uint32_t host = 0; words >> host;) place.hosts.push_back(host);
    if (common_key.empty()) common_key = key;
  }
  key_ = common_key;
  for (std::size_t rank = 0; rank < places_.size(); ++rank) {
    const auto found = std::ranges::find(neighbours, job_ranks[rank]);
    if (!memory_ || found == neighbours.end()) continue;
    places_[rank]->node_rank = static_cast<int>(found - neighbours.begin());
    places_[rank]->bell = bell_of(places_[rank]->node_rank);
  }
  if (socket_.file >= 0) ear_ = thread_without_signals([this] { hear(); });
}

CallBells::~CallBells() {
  if (ear_.joinable()) {
    ends_ = true;
    const sockaddr_in self = datagram_address(htonl(INADDR_LOOPBACK), socket_.port);
    // If it does not arrive, the ear wakes a little later.
    (void)::sendto(socket_.file, "", 0, MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&self),
                   sizeof self);
    ear_.join();
  }
  if (socket_.file >= 0) ::close(socket_.file);
}

void CallBells::ring(int rank) noexcept {
  Place& place = *places_[static_cast<std::size_t>(rank)];
  if (rank == own_rank_) return ring_own();
  if (place.bell != nullptr) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (word_of(place.bell->listens).load(std::memory_order_relaxed) == 0) return;
    // Of several that ring, one wakes.
    if (word_of(place.bell->listens).exchange(0) == 0) return;
    word_of(place.bell->rings).fetch_add(1);
    ::syscall(SYS_futex, &place.bell->rings, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
    return;
  }
  if (socket_.file < 0 || place.port == 0) return;
  const std::int64_t time = nanoseconds_now();
  std::int64_t last = place.rung.load(std::memory_order_relaxed);
  if (time - last < between_datagrams) return;
  if (!place.rung.compare_exchange_strong(last, time, std::memory_order_relaxed)) return;
  for (const std::uint32_t host : place.hosts) {
    const sockaddr_in address = datagram_address(host, place.port);
    // Whether it arrives cannot be known here.
    (void)::sendto(socket_.file, key_.data(), key_.size(), MSG_NOSIGNAL,
                   reinterpret_cast<const sockaddr*>(&address), sizeof address);
  }
}

void CallBells::ring_own() noexcept {
  word_of(own_->rings).fetch_add(1);
  ::syscall(SYS_futex, &own_->rings, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void CallBells::listen() noexcept {
  word_of(own_->listens).store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void CallBells::stop_listening() noexcept {
  word_of(own_->listens).store(0, std::memory_order_relaxed);
}

std::uint32_t CallBells::rings() const noexcept {
  return word_of(own_->rings).load(std::memory_order_acquire);
}

void CallBells::sleep(std::uint32_t rings, double seconds) const noexcept {
  timespec limit{};
  limit.tv_sec = static_cast<time_t>(seconds);
  limit.tv_nsec = static_cast<long>((seconds - static_cast<double>(limit.tv_sec)) * 1e9);
  // Whatever it returns for, the caller looks.
  ::syscall(SYS_futex, &own_->rings, FUTEX_WAIT, rings, &limit, nullptr, 0);
}

bool CallBells::is_gone(int rank) const {
  const Place& place = *places_[static_cast<std::size_t>(rank)];
  if (rank == own_rank_ || place.node_rank < 0) return false;
  return word_of(place.bell->departure).load() != Departure::none ||
         !memory_->is_mapped_by(place.node_rank);
}

void CallBells::leave() noexcept {
  std::uint32_t none = Departure::none;
  word_of(own_->departure).compare_exchange_strong(none, Departure::in_order);
}

void CallBells::leave_for(int culprit) noexcept {
  std::uint32_t none = Departure::none;
  word_of(own_->departure)
      .compare_exchange_strong(none,
                               Departure::for_a_culprit + static_cast<std::uint32_t>(culprit));
}

int CallBells::culprit_of(int rank) const {
  const Place& place = *places_[static_cast<std::size_t>(rank)];
  const std::uint32_t departure =
      place.bell == nullptr ? Departure::none : word_of(place.bell->departure).load();
  if (departure == Departure::none) return rank;
  return departure == Departure::in_order ? -1
                                          : static_cast<int>(departure - Departure::for_a_culprit);
}

void CallBells::hear() {
  std::array<char, 64> buffer{};
  pollfd wish{.fd = socket_.file, .events = POLLIN, .revents = 0};
  while (!ends_) {
    (void)::poll(&wish, 1, longest_deafness);
    bool rung = false;
    for (ssize_t length = 0;
         (length = ::recv(socket_.file, buffer.data(), buffer.size(), 0)) >= 0;) {
      if (std::string_view(buffer.data(), static_cast<std::size_t>(length)) == key_) rung = true;
    }
    if (rung) ring_own();
  }
}

}  // namespace meshwork
