// Which transport is taken for a device's memory, and what is said of those that are not.
#include "collectives/device_transports.h"

#include <memory>
#include <string>
#include <utility>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "tests/support/apart_queues.h"
#include "tests/support/catch.h"

namespace meshwork::device_transports_test {

using meshwork::test::ApartQueues;

namespace {

std::string number(int rank) {
  return std::to_string(rank);
}

/// A machine on which everything is there: NCCL's transport is another one in its place, which
/// remarks what it is.
DeviceBackends everything() {
  return {.is_gpu = true,
          .mpi_reaches_memory = true,
          .nccl_version = "2.28.9",
          .gpu = "GPU of rank " + number(Communicator::world().rank()),
          .make_nccl = [](const Communicator&, std::unique_ptr<Transport> staged, DeviceQueues&) {
            CHECK(staged->name() != "cuda_aware_mpi");
            return staged;
          }};
}

DeviceBackends without_nccl() {
  DeviceBackends backends = everything();
  backends.nccl_problem = "libnccl.so.2 is not there";
  backends.make_nccl = {};
  return backends;
}

struct Made {
  ApartQueues device{false};
  std::unique_ptr<Transport> transport;

  Made(std::string_view name, const DeviceBackends& backends, bool has_memory = true)
      : transport(make_device_transport(
            name, Communicator::world(), device,
            has_memory ? DeviceMemory([&](std::int64_t bytes) { return device.allocate(bytes); })
                       : DeviceMemory(),
            backends)) {}
};

bool alone() {
  return Communicator::world().size() == 1;
}

}  // namespace

TEST_CASE("NCCL is taken where all ranks have it, and asked for none where a rank is alone") {
  int made = 0;
  DeviceBackends backends = everything();
  backends.make_nccl = [&](const Communicator&, std::unique_ptr<Transport> staged, DeviceQueues&) {
    ++made;
    return staged;
  };
  CHECK(Made("auto", backends).transport->remark().empty());
  CHECK(made == (alone() ? 0 : 1));
  CHECK(Made("nccl", backends).transport->remark().empty());
  CHECK(made == (alone() ? 1 : 2));
}

TEST_CASE("what a rank lacks of NCCL is said on all, and collectives are staged") {
  if (alone()) return;
  const int rank = Communicator::world().rank();
  DeviceBackends backends = everything();
  backends.mpi_reaches_memory = false;
  std::string expected;
  switch (GENERATE(0, 1, 2, 3)) {
    case 0:
      if (rank == 1) backends.nccl_problem = "libnccl.so.2 is\nnot there";
      expected = "rank 1: libnccl.so.2 is not there";
      break;
    case 1:
      backends.nccl_problem = "libnccl.so.2 is not there";
      expected = "libnccl.so.2 is not there";
      break;
    case 2:
      if (rank == 1) backends.nccl_version = "2.27.3";
      expected = "rank 0 has NCCL 2.28.9 and rank 1 NCCL 2.27.3; all ranks need the same";
      break;
    default:
      if (rank < 2) backends.gpu = "PCI 0000:17:00.0 of the machine a";
      expected =
          "ranks 0 and 1 share a GPU (PCI 0000:17:00.0 of the machine a), and NCCL wants one for "
          "each rank";
  }
  const Made made("auto", backends);
  CHECK(made.transport->name() == "shared");
  CHECK(made.transport->remark() ==
        "collectives are staged through pinned memory of the host, since NCCL is not available: " +
            expected);
  CHECK_THROWS_WITH(Made("nccl", backends),
                    Catch::Contains("the transport \"nccl\" is not available: " + expected + ";"));
  // Who asks for another is told nothing.
  CHECK(Made("mpi", backends).transport->remark().empty());
}

TEST_CASE("an NCCL that fails when it is tried on one rank is taken on none") {
  if (alone()) return;
  const Communicator world = Communicator::world();
  DeviceBackends backends = everything();
  backends.mpi_reaches_memory = false;
  backends.make_nccl = [](const Communicator& ranks, std::unique_ptr<Transport> staged,
                          DeviceQueues&) {
    together(ranks, [&] {
      if (ranks.rank() == 1) fail("ncclCommInitRank failed");
    });
    return staged;
  };
  const Made made("auto", backends);
  CHECK(made.transport->name() == "shared");
  CHECK(made.transport->remark() ==
        "collectives are staged through pinned memory of the host, since NCCL is not available: "
        "rank 1: ncclCommInitRank failed");
  CHECK_THROWS_WITH(
      Made("nccl", backends),
      Catch::Contains("the transport \"nccl\" is not available: rank 1: ncclCommInitRank failed;"));
}

TEST_CASE("a device that is no GPU is staged without a word") {
  ApartQueues device;
  const DeviceBackends backends = device_backends(device);
  const Made made("auto", backends);
  CHECK(made.transport->name() == (alone() ? "mpi" : "shared"));
  CHECK(made.transport->remark().empty());
  CHECK_THROWS_WITH(Made("nccl", backends),
                    Catch::Contains("it is for GPUs of NVIDIA, and this device is none"));
  CHECK_THROWS_WITH(
      Made("cuda_aware_mpi", backends),
      Catch::Contains("\"cuda_aware_mpi\" is not available") &&
          Catch::Contains("take \"mpi\", which stages data through the host's memory"));
}

TEST_CASE("MPI is handed a GPU's memory if it says on all ranks that it takes it") {
  DeviceBackends backends = without_nccl();
  CHECK(Made("cuda_aware_mpi", backends).transport->name() == "cuda_aware_mpi");
  if (alone()) return;
  backends.mpi_reaches_memory = Communicator::world().rank() != 1;
  CHECK_THROWS_WITH(Made("cuda_aware_mpi", backends), Catch::Contains("does not report support"));
  CHECK(Made("auto", backends).transport->name() == "shared");
}

TEST_CASE("between MPI on a GPU's memory and staging the time decides, and is said") {
  if (alone()) return;
  Made made("auto", without_nccl());
  const std::string name(made.transport->name());
  CHECK((name == "cuda_aware_mpi" || name == "shared"));
  CHECK_THAT(made.transport->remark(),
             Catch::Contains("an all-reduce of 4 MiB takes ") &&
                 Catch::Contains(name == "shared" ? "chosen: staged" : "chosen: MPI"));
  // A run that goes on takes up what an earlier one had chosen.
  const std::string other = name == "shared" ? "cuda_aware_mpi" : "shared";
  made.transport->prepare(Communicator::world());
  CHECK_FALSE(made.transport->take_up(name));
  CHECK_FALSE(made.transport->take_up("nccl"));
  CHECK(made.transport->take_up(other));
  CHECK(made.transport->name() == other);
  CHECK_THAT(made.transport->remark(), Catch::Contains("as in the run that this one goes on from"));
  const Memory memory = made.device.allocate(4);
  const float one = 1;
  float sum = 0;
  made.device.kernels().start_copy(memory.data(), &one, 4);
  made.transport->run(Communicator::world(), AllReduce{ElementType::float32, Reduction::sum, 1},
                      memory.data());
  made.device.kernels().start_copy(&sum, memory.data(), 4);
  made.device.finish();
  CHECK(sum == static_cast<float>(Communicator::world().size()));
  // Without memory to try it in, nothing is tried.
  CHECK(Made("auto", without_nccl(), false).transport->name() == "shared");
}

TEST_CASE("transports of GPUs are refused where memory is the host's") {
  for (const char* name : {"nccl", "cuda_aware_mpi"}) {
    CHECK_THROWS_WITH(make_transport(name),
                      Catch::Contains(std::string("the transport \"") + name +
                                      "\" is for the memory of GPUs, and this run computes on the "
                                      "CPU; \"auto\" takes"));
  }
}

}  // namespace meshwork::device_transports_test
