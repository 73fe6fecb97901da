#include "collectives/device_transports.h"

#include <mpi.h>
#ifdef MESHWORK_MPI_TELLS_OF_CUDA
#include <mpi-ext.h>
#endif

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>
#include <vector>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/forwarding.h"
#include "collectives/host_transports.h"
#include "collectives/hosted.h"
#include "collectives/mpi_transport.h"
#include "collectives/rank_names.h"
#include "collectives/staged_transport.h"
#ifdef MESHWORK_HAS_NCCL
#include "collectives/nccl/library.h"
#endif

namespace meshwork {

namespace {

constexpr char line_end = '\n';

/// What rank 0 has of all ranks.
struct RankNccl {
  std::string problem, version, gpu;
  explicit RankNccl(const std::string& text) {
    const std::size_t first = text.find(line_end);
    const std::size_t second = text.find(line_end, first + 1);
    problem = text.substr(0, first);
    version = text.substr(first + 1, second - first - 1);
    gpu = text.substr(second + 1);
  }
};

std::string judged(const std::vector<RankNccl>& ranks) {
  const auto lacks = [](const RankNccl& rank) { return !rank.problem.empty(); };
  const auto named = [](auto rank) { return name_of_rank(static_cast<int>(rank)); };
  if (const auto found = std::find_if(ranks.begin(), ranks.end(), lacks); found != ranks.end()) {
    const bool all = std::all_of(ranks.begin(), ranks.end(), [&](const RankNccl& rank) {
      return rank.problem == found->problem;
    });
    if (all) return found->problem;
    return fmt::format("rank {}: {}", named(found - ranks.begin()), found->problem);
  }
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    if (ranks[rank].version != ranks[0].version) {
      return fmt::format("rank {} has NCCL {} and rank {} NCCL {}; all ranks need the same",
                         named(0), ranks[0].version, named(rank), ranks[rank].version);
    }
    for (std::size_t other = 0; other < rank; ++other) {
      if (ranks[other].gpu == ranks[rank].gpu) {
        return fmt::format("ranks {} and {} share a GPU ({}), and NCCL wants one for each rank",
                           named(other), named(rank), ranks[rank].gpu);
      }
    }
  }
  return {};
}

/// Why NCCL cannot serve these ranks; empty if it can. The same on all of them.
std::string why_not_nccl(const Communicator& ranks, const DeviceBackends& backends) {
  std::string problem = backends.nccl_problem;
  std::replace(problem.begin(), problem.end(), line_end, ' ');
  const std::vector<std::string> texts = gather_texts(
      ranks,
      fmt::format("{}{}{}{}{}", problem, line_end, backends.nccl_version, line_end, backends.gpu));
  const std::vector<RankNccl> all(texts.begin(), texts.end());
  return broadcast_text(ranks, judged(all));
}

std::unique_ptr<Transport> make_cuda_aware_mpi(DeviceQueues& device) {
  return make_staged_transport(make_mpi_transport(), device,
                               {.inner_reaches_device = true, .name = "cuda_aware_mpi"});
}

/// Of an all-reduce of `bytes` of a device's memory, on the slowest rank; the best of some.
double seconds_of_all_reduce(Transport& transport, const Communicator& ranks, DeviceQueues& device,
                             void* buffer, std::int64_t bytes) {
  using Clock = std::chrono::steady_clock;
  constexpr int times = 6;  // in the first of which much is made
  const std::unique_ptr<Mark> done = device.make_mark();
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < times; ++i) {
    const Clock::time_point begin = Clock::now();
    transport.run(ranks, AllReduce{ElementType::float32, Reduction::sum, bytes / 4}, buffer);
    device.kernels().record(*done);
    done->wait();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  double slowest = 0;
  await_ranks(ranks);
  check_mpi(MPI_Allreduce(&best, &slowest, 1, MPI_DOUBLE, MPI_MAX, ranks.native()),
            "MPI_Allreduce");
  return slowest;
}

std::unique_ptr<Transport> make_staged(std::string_view name, const Communicator& ranks,
                                       DeviceQueues& device, std::string remark = {}) {
  return make_staged_transport(make_host_transport(name, ranks), device,
                               {.remark = std::move(remark)});
}

/// Of staging and MPI that takes the device's addresses the one that was faster, until a run that
/// goes on takes up the other.
class TimedTransport final : public ForwardingTransport {
 public:
  TimedTransport(std::unique_ptr<Transport> staged, std::unique_ptr<Transport> direct, bool stages,
                 std::string remark)
      : ForwardingTransport(stages ? *staged : *direct),
        staged_(std::move(staged)),
        direct_(std::move(direct)),
        remark_(std::move(remark)) {}

  [[nodiscard]] std::string remark() const override { return remark_; }
  void prepare(const Communicator& communicator) override {
    staged_->prepare(communicator);
    direct_->prepare(communicator);
  }
  [[nodiscard]] bool take_up(std::string_view name) override {
    for (Transport* const other : {staged_.get(), direct_.get()}) {
      if (other == &inner() || other->name() != name) continue;
      forward_to(*other);
      remark_ = fmt::format(
          "collectives are by \"{}\" as in the run that this one goes on from, whatever the time",
          name);
      return true;
    }
    return false;
  }

 private:
  std::unique_ptr<Transport> staged_, direct_;
  std::string remark_;
};

std::unique_ptr<Transport> make_faster(const Communicator& ranks, DeviceQueues& device,
                                       const DeviceMemory& device_memory) {
  constexpr std::int64_t bytes = std::int64_t{4} << 20;
  // What transports keep for a communicator goes with this one.
  const Communicator tried = ranks.duplicate();
  double staged = 0, direct = 0;
  {
    Memory memory;
    together(tried, [&] { memory = device_memory(bytes); });
    for (const bool stages : {true, false}) {
      const std::unique_ptr<Transport> transport =
          stages ? make_staged("auto", tried, device) : make_cuda_aware_mpi(device);
      transport->prepare(tried);
      (stages ? staged : direct) =
          seconds_of_all_reduce(*transport, tried, device, memory.data(), bytes);
    }
  }
  const bool stages = staged <= direct;
  return std::make_unique<TimedTransport>(
      make_staged("auto", ranks, device), make_cuda_aware_mpi(device), stages,
      fmt::format("collectives: an all-reduce of {} MiB takes {:.2f} ms by CUDA-aware MPI and "
                  "{:.2f} ms staged through the host's memory; chosen: {}",
                  bytes >> 20, 1e3 * direct, 1e3 * staged,
                  stages ? "staged" : "MPI (\"cuda_aware_mpi\" always is)"));
}

}  // namespace

std::unique_ptr<Transport> make_device_transport(std::string_view name, const Communicator& ranks,
                                                 DeviceQueues& device,
                                                 const DeviceMemory& device_memory,
                                                 const DeviceBackends& backends) {
  const bool automatic = name == "auto";
  if (automatic && ranks.size() == 1) return make_staged(name, ranks, device);
  std::string problem;
  if (automatic || name == "nccl") {
    problem = why_not_nccl(ranks, backends);
    if (problem.empty()) {
      // What is asked of NCCL for the first time can fail where all looked well.
      try {
        std::unique_ptr<Transport> staged = make_staged("auto", ranks, device), nccl;
        together(ranks, [&] { nccl = backends.make_nccl(ranks, std::move(staged), device); });
        nccl->prepare(ranks);
        return nccl;
      } catch (const Error& error) {
        problem = error.what();
      }
    }
    if (!automatic) {
      fail(
          "the transport \"nccl\" is not available: {}; take \"auto\", or \"shared\" or \"mpi\", "
          "which stage data through the host's memory",
          problem);
    }
  }
  if (automatic || name == "cuda_aware_mpi") {
    const bool reaches = on_all(ranks, backends.mpi_reaches_memory);
    if (!automatic && !reaches) {
      fail(
          "the transport \"cuda_aware_mpi\" is not available: MPIX_Query_cuda_support of this MPI "
          "does not report support for {}; take \"mpi\", which stages data through the host's "
          "memory",
          backends.is_gpu ? "a GPU's memory" : "this device's memory");
    }
    if (!automatic) return make_cuda_aware_mpi(device);
    if (reaches && device_memory) return make_faster(ranks, device, device_memory);
  }
  return make_staged(name, ranks, device,
                     automatic && backends.is_gpu
                         ? fmt::format("collectives are staged through pinned memory of the host, "
                                       "since NCCL is not available: {}",
                                       problem)
                         : "");
}

void prefer_settings_of_devices() {
#ifdef MESHWORK_HAS_NCCL
  // Sums in the network's switches differ from call to call (NVIDIA/nccl #1497).
  ::setenv("NCCL_NVLS_ENABLE", "0", 0);
  // Buffers of captured operations are not registered: with other ranks' registrations, a step's
  // memory could not be given back when a larger step takes its place.
  ::setenv("NCCL_GRAPH_REGISTER", "0", 0);
  // The operations of several communicators, two models' too, run in the order in which they were
  // started (from NCCL 2.26 on).
  ::setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
#endif
}

DeviceBackends device_backends(DeviceQueues& device) {
  DeviceBackends backends;
  backends.is_gpu = device.transfers().native() != nullptr;
  if (!backends.is_gpu) {
    backends.nccl_problem = "it is for GPUs of NVIDIA, and this device is none";
    return backends;
  }
#ifdef MESHWORK_MPI_TELLS_OF_CUDA
  backends.mpi_reaches_memory = MPIX_Query_cuda_support() == 1;
#endif
#ifdef MESHWORK_HAS_NCCL
  const nccl::Found found = nccl::find();
  backends.nccl_problem = found.problem;
  backends.nccl_version = found.version;
  backends.gpu = found.gpu;
  backends.make_nccl = found.make;
#else
  backends.nccl_problem = "this build is without it (nccl.h was not found when it was configured)";
#endif
  return backends;
}

}  // namespace meshwork
