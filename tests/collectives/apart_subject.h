// A transport for the memory of a device that is apart, and kernels around its operations.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "collectives/transport.h"
#include "tests/support/apart_queues.h"

namespace meshwork::test {

struct ApartSubject {
  static constexpr std::int64_t count = 1000;  // elements of each memory

  ApartSubject(bool untouchable, bool has_streams) : device(untouchable, has_streams) {}

  [[nodiscard]] Memory floats() { return device.allocate(count * 4); }
  /// Starts a kernel that sets every element.
  void fill(const Memory& memory, float value) {
    auto* at = static_cast<float*>(memory.data());
    device.start([=] { std::fill_n(at, count, value); });
  }
  /// Starts a kernel that adds to every element.
  void add(const Memory& memory, float value) {
    auto* at = static_cast<float*>(memory.data());
    device.start([=] {
      for (std::int64_t i = 0; i < count; ++i) at[i] += value;
    });
  }
  /// How many elements are not `value`, once the kernels that were started are done.
  [[nodiscard]] std::int64_t others_than(float value, const Memory& memory) {
    std::vector<float> values(count);
    device.kernels().start_copy(values.data(), memory.data(), count * 4);
    const std::unique_ptr<Mark> read = device.make_mark();
    device.kernels().record(*read);
    read->wait();
    return count - std::count(values.begin(), values.end(), value);
  }
  /// By what is kept, so that it can be captured.
  void sum(const Memory& memory) { compiled(Use::at_once)->run(nullptr, memory.data()); }
  Pending start(const Memory& memory) { return {compiled(Use::started), nullptr, memory.data()}; }
  std::shared_ptr<CompiledCollective> compiled(Use use) {
    const AllReduce sum{ElementType::float32, Reduction::sum, count};
    return kept.emplace_back(transport->compile(world, sum, use));
  }

  Communicator world = Communicator::world();
  ApartQueues device;
  std::unique_ptr<Transport> transport;
  std::vector<std::shared_ptr<CompiledCollective>> kept{};
};

}  // namespace meshwork::test
