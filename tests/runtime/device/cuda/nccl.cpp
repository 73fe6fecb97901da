// The NCCL transport on GPUs: sums, blocks, messages and order, each rank with a GPU of its own. On
// a machine with fewer GPUs than ranks it is refused, saying why. Without a GPU, or in a build
// without NCCL, skipped.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "collectives/device_transports.h"
#include "collectives/error.h"
#include "runtime/device/device.h"
#include "tests/support/catch.h"
#include "tests/support/session.h"

namespace meshwork::nccl_test {

namespace {

constexpr std::int64_t count = 100'000;

struct Gpu {
  std::unique_ptr<Device> device;
  std::unique_ptr<Transport> transport;
  Memory memory;

  void put(const std::vector<float>& values) const {
    device->copy_in(memory.data(), values.data(), std::ssize(values) * 4);
  }
  [[nodiscard]] std::vector<float> get(std::int64_t values = count) const {
    std::vector<float> got(static_cast<std::size_t>(values));
    device->copy_out(got.data(), memory.data(), values * 4);
    return got;
  }
};

[[noreturn]] void skip(const std::string& why) {
  std::fprintf(stderr, "skipped: %s\n", why.c_str());
  std::fflush(stderr);
  std::_Exit(77);
}

/// This rank's GPU and NCCL over all ranks; null where they share GPUs.
const Gpu* gpu() {
  static std::unique_ptr<Gpu> made = []() -> std::unique_ptr<Gpu> {
    const Communicator world = Communicator::world();
    const Communicator node = world.split_by_node();
    test::after_tests([] { made.reset(); });
    auto one = std::make_unique<Gpu>();
    try {
      one->device =
          make_device({.kind = "cuda", .ranks_on_node = node.size(), .rank_on_node = node.rank()});
    } catch (const Error& error) {
      skip(error.what());
    }
    if (const auto there = device_backends(one->device->queues()); !there.nccl_problem.empty()) {
      skip(there.nccl_problem);
    }
    try {
      one->transport = make_transport("nccl", world, &one->device->queues());
    } catch (const Error& error) {
      CHECK_THAT(error.what(), Catch::Contains("share a GPU"));
      return nullptr;
    }
    one->transport->prepare(world);
    one->memory = one->device->allocate(count * 4 * world.size());
    return one;
  }();
  return made.get();
}

}  // namespace

TEST_CASE("NCCL sums, alike on all ranks and in every call") {
  if (gpu() == nullptr) return;
  const Communicator world = Communicator::world();
  for (const std::int64_t elements : {std::int64_t{1}, std::int64_t{1000}, count}) {
    std::vector<float> terms(static_cast<std::size_t>(elements));
    for (std::size_t i = 0; i < terms.size(); ++i) {
      terms[i] = 1.0f / static_cast<float>(i + 1 + 3 * static_cast<std::size_t>(world.rank()));
    }
    std::vector<float> first;
    for (int call = 0; call < 3; ++call) {
      gpu()->put(terms);
      gpu()
          ->transport
          ->start(world, AllReduce{ElementType::float32, Reduction::sum, elements},
                  gpu()->memory.data())
          .wait();
      const std::vector<float> sums = gpu()->get(elements);
      if (call == 0) first = sums;
      CHECK(sums == first);
    }
    std::vector<float> of_rank_0 = first;
    gpu()->transport->run(world, Broadcast{ElementType::float32, elements, 0}, of_rank_0.data());
    CHECK(first == of_rank_0);
    double exact = 0;
    for (int rank = 0; rank < world.size(); ++rank) exact += 1.0 / (1.0 + 3.0 * rank);
    CHECK(first[0] == Approx(exact).epsilon(1e-6));
  }
}

TEST_CASE("NCCL's operations that were captured give the sums of those that were not") {
  const Communicator world = Communicator::world();
  if (gpu() == nullptr || world.size() == 1) return;
  INFO(gpu()->transport->remark());
  // What is captured outlives its capture.
  const std::shared_ptr<CompiledCollective> sum = gpu()->transport->compile(
      world, AllReduce{ElementType::float32, Reduction::sum, count}, Use::started);
  REQUIRE(sum->is_enqueued());
  std::vector<float> terms(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < terms.size(); ++i) {
    terms[i] = 1.0f / static_cast<float>(i + 1 + 3 * static_cast<std::size_t>(world.rank()));
  }
  const auto reduce = [&] { sum->run(nullptr, gpu()->memory.data()); };
  gpu()->put(terms);
  reduce();
  const std::vector<float> once = gpu()->get();
  reduce();
  const std::vector<float> twice = gpu()->get();
  const std::unique_ptr<CapturedWork> captured = gpu()->device->queues().capture(reduce);
  REQUIRE(captured != nullptr);
  Enqueued& enqueued = *gpu()->transport->enqueued();
  for (int again = 0; again < 3; ++again) {
    gpu()->put(terms);
    captured->start();
    CHECK(gpu()->get() == once);
    captured->start();
    CHECK(gpu()->get() == twice);
  }
  enqueued.add_captured(6);
  gpu()->device->synchronize();
  CHECK(enqueued.done() == enqueued.started());
}

TEST_CASE("NCCL gathers and scatters blocks of one size and of several") {
  if (gpu() == nullptr) return;
  const Communicator world = Communicator::world();
  const auto size = static_cast<std::size_t>(world.size());
  for (const std::int64_t more : {0, 7}) {
    std::vector<std::int64_t> counts(size), offsets(size);
    std::int64_t end = 0;
    for (std::size_t rank = 0; rank < size; ++rank) {
      counts[rank] = 100 + more * static_cast<std::int64_t>(rank);
      offsets[rank] = end;
      end += counts[rank];
    }
    const auto own = static_cast<std::size_t>(world.rank());
    std::vector<float> all(static_cast<std::size_t>(end), static_cast<float>(world.rank() + 1));
    gpu()->put(all);
    const Memory block = gpu()->device->allocate(counts[own] * 4);
    gpu()->transport->run(world, ReduceScatter{ElementType::float32, counts}, gpu()->memory.data(),
                          block.data());
    gpu()->transport->run(world, AllGather{ElementType::float32, counts, offsets}, block.data(),
                          gpu()->memory.data());
    const auto sum = static_cast<float>(world.size() * (world.size() + 1) / 2);
    CHECK(gpu()->get(end) == std::vector<float>(static_cast<std::size_t>(end), sum));
  }
}

TEST_CASE("NCCL brings messages from the GPU's memory to the host's and back") {
  if (gpu() == nullptr) return;
  const Communicator world = Communicator::world();
  const auto size = static_cast<std::size_t>(world.size());
  std::vector<std::int64_t> counts(size, 50), offsets(size);
  for (std::size_t rank = 0; rank < size; ++rank)
    offsets[rank] = static_cast<std::int64_t>(rank) * 50;
  std::vector<float> sent(size * 50, static_cast<float>(world.rank())), received(sent.size(), -1);
  gpu()->put(sent);
  gpu()->transport->run(world, AllToAll{ElementType::float32, counts, offsets, counts, offsets},
                        gpu()->memory.data(), received.data());
  for (std::size_t i = 0; i < received.size(); ++i) {
    if (received[i] != static_cast<float>(i / 50)) FAIL("element " << i << ": " << received[i]);
  }
  gpu()->transport->run(world, AllToAll{ElementType::float32, counts, offsets, counts, offsets},
                        received.data(), gpu()->memory.data());
  CHECK(gpu()->get(std::ssize(sent)) == sent);
}

}  // namespace meshwork::nccl_test
