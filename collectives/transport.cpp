#include "collectives/transport.h"

#include <cstring>
#include <exception>
#include <new>
#include <utility>
#include <vector>

#include "collectives/device_transports.h"
#include "collectives/error.h"
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

Pending& Pending::operator=(Pending&& other) noexcept {
  if (this == &other) return *this;
  if (active()) {
    abort_job(1, "a started collective was replaced before it was waited for");
  }
  request_ = std::move(other.request_);
  return *this;
}

Pending::~Pending() {
  if (!active()) return;
  abort_job(1, std::uncaught_exceptions() > 0
                   ? "an error ended the work between the start of a collective and its end"
                   : "a started collective was destroyed before it was waited for");
}

void Pending::wait() {
  // Whether it succeeds or throws, it is over.
  if (const std::shared_ptr<Request> request = std::move(request_)) request->wait();
}

bool Transport::enqueues(const Communicator& /*communicator*/, ElementType /*type*/,
                         Reduction /*reduction*/) const {
  return false;
}

void Transport::prepare(const Communicator& /*communicator*/) {}

void Transport::prepare_sum(const Communicator& /*communicator*/,
                            std::span<const std::int64_t> /*counts*/) {}

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

Pending Transport::start_reduce_in_parts(const Communicator& communicator, ElementType type,
                                         Reduction reduction, void* buffer, std::int64_t count) {
  return start_all_reduce(communicator, type, reduction, buffer, count);
}

std::int64_t part_begin(std::int64_t count, int part, int parts, ElementType type) {
  if (part == parts) return count;
  const std::int64_t line = 64 / element_bytes(type);
  return count / parts * part / line * line;
}

const std::vector<std::string>& transport_names() {
  static const std::vector<std::string> names{"auto", "cuda_aware_mpi", "hierarchical",
                                              "mpi",  "nccl",           "shared"};
  return names;
}

std::unique_ptr<Transport> make_transport(std::string_view name, const Communicator& ranks,
                                          DeviceQueues* device, const DeviceMemory& device_memory) {
  if (device != nullptr) {
    return make_device_transport(name, ranks, *device, device_memory, device_backends(*device));
  }
  if (name == "nccl" || name == "cuda_aware_mpi") {
    fail(
        "the transport \"{}\" is for the memory of GPUs, and this run computes on the CPU; "
        "\"auto\" takes the best for that",
        name);
  }
  return make_host_transport(name, ranks);
}

}  // namespace meshwork
