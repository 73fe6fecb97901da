#include "collectives/transport.h"

#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "collectives/device_transports.h"
#include "collectives/host_transports.h"

namespace meshwork {

namespace {

/// Memory that only this rank sees.
class PrivateMemory final : public TransportMemory::Owner {
 public:
  explicit PrivateMemory(std::int64_t bytes)
      : bytes_(static_cast<std::size_t>(bytes)),
        memory_(static_cast<std::byte*>(::operator new(bytes_, alignment))) {
    std::memset(memory_, 0, bytes_);
  }
  ~PrivateMemory() override { ::operator delete(memory_, alignment); }
  PrivateMemory(const PrivateMemory&) = delete;
  PrivateMemory& operator=(const PrivateMemory&) = delete;
  [[nodiscard]] std::span<std::byte> all() const { return {memory_, bytes_}; }

 private:
  static constexpr std::align_val_t alignment{4096};
  std::size_t bytes_;
  std::byte* memory_;
};

}  // namespace

void Transport::prepare(const Communicator& /*communicator*/) {}

Compiled Transport::compile(const Communicator& communicator, const Collective& collective,
                            Use use) {
  check(collective, communicator);
  return make(communicator, collective, use);
}

void Transport::announce(const Communicator& /*communicator*/, const Collective& /*collective*/) {}

Sharers Transport::sharers(const Communicator& /*communicator*/) const {
  return {};
}

void Transport::barrier_of_sharers(const Communicator& /*communicator*/) {}

void Transport::reserve(std::int64_t /*bytes*/, std::span<const std::int64_t> /*started*/) {}

TransportMemory Transport::allocate(const Communicator& communicator, std::int64_t bytes) {
  auto memory = std::make_unique<PrivateMemory>(bytes);
  std::vector<std::span<std::byte>> parts(static_cast<std::size_t>(communicator.size()));
  parts[static_cast<std::size_t>(communicator.rank())] = memory->all();
  return {std::move(memory), std::move(parts), communicator.rank()};
}

const std::vector<std::string>& transport_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> found;
    for (const NamedTransport& transport : named_transports()) found.emplace_back(transport.name);
    return found;
  }();
  return names;
}

std::unique_ptr<Transport> make_transport(std::string_view name, const Communicator& ranks,
                                          DeviceQueues* device, const DeviceMemory& device_memory) {
  if (device != nullptr) {
    return make_device_transport(name, ranks, *device, device_memory, device_backends(*device));
  }
  return make_host_transport(name, ranks);
}

}  // namespace meshwork
