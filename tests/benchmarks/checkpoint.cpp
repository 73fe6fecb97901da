// What a checkpoint costs: bytes a second against plain writing of the same bytes, and how long
// training waits for it.
//
//   mpirun -n 2 build/benchmarks/checkpoint [DIRECTORY [MEBIBYTES [ROUNDS [writing]]]]
//
// The state is that of a dense network with Adam, of about the size asked for (1024 MiB). In each
// round, in turn: write and fsync by rank 0 of as many bytes; the same by all ranks, each its
// share, into one file; a checkpoint by either writer, in front of training. Then a small training
// run with a checkpoint every few steps, in either mode: the longest steps are those that had to
// wait. With `writing` that is left out. Medians are printed, because disks are noisy. Files are
// removed.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <string_view>

#include "layers/dense.h"
#include "runtime/checkpoint/regions.h"
#include "runtime/checkpoint/writer.h"
#include "runtime/data/array.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/model.h"
#include "runtime/train/optimizers/adam.h"
#include "runtime/train/runtime.h"

using namespace meshwork;

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

// Writes `bytes` of `data` at `offset`, and brings them to the disk.
void write_plainly(const std::string& file, const std::vector<float>& data, std::int64_t offset) {
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT, 0666);
  if (descriptor < 0) fail("{}: {}", file, std::strerror(errno));
  const char* at = reinterpret_cast<const char*>(data.data());
  std::int64_t left = static_cast<std::int64_t>(data.size()) * 4;
  while (left > 0) {
    const ssize_t written = ::pwrite(
        descriptor, at, static_cast<std::size_t>(std::min<std::int64_t>(left, 1 << 30)), offset);
    if (written < 0) fail("{}: {}", file, std::strerror(errno));
    at += written;
    offset += written;
    left -= written;
  }
  if (::fsync(descriptor) != 0) fail("{}: {}", file, std::strerror(errno));
  ::close(descriptor);
}

// The time of every step.
class StepTimes final : public Callback {
 public:
  std::string class_name() const override { return "StepTimes"; }
  bool decides_alike() const override { return true; }
  void on_train_batch_begin(Training&) override {
    const double time = now();
    if (last_ > 0) seconds.push_back(time - last_);
    last_ = time;
  }
  std::vector<double> seconds;

 private:
  double last_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Runtime runtime(argc, argv);
  return runtime.attempt(1, [&] {
    const std::filesystem::path directory =
        std::filesystem::path(argc > 1 ? argv[1] : ".") / "checkpoint_benchmark";
    const std::int64_t mebibytes = argc > 2 ? std::atoll(argv[2]) : 1024;
    const int rounds = argc > 3 ? std::atoi(argv[3]) : 3;
    const Communicator world = runtime.world().duplicate();
    const bool root = world.rank() == 0;
    const auto barrier = [&] { check_mpi(MPI_Barrier(world.native()), "MPI_Barrier"); };
    if (root) {
      std::filesystem::remove_all(directory);
      std::filesystem::create_directories(directory);
    }
    barrier();

    // A kernel and two slots of 12 layers.
    DeviceMesh mesh({{"data", -1}});
    const std::int64_t side = 1024;
    const std::int64_t length = std::max<std::int64_t>(1, mebibytes * (1 << 20) / 36 / side / 4);
    const Layout layout = Layout::replicated(2);
    const Shape shape{length, side};
    CheckpointState state;
    state.mesh = to_string(mesh.shape());
    std::vector<TensorPart> parts;
    std::int64_t own = 0;
    for (int layer = 0; layer < 12; ++layer) {
      for (const char* slot : {"", "momentum", "velocity"}) {
        const Block region = region_of(layout, shape, mesh.shape(), mesh.rank(),
                                       static_cast<std::int64_t>(parts.size()));
        parts.push_back({{*slot ? TensorKind::slot : TensorKind::variable,
                          fmt::format("layer_{}/kernel", layer), slot, -1, true, shape, "", 0},
                         region,
                         nullptr});
        own += element_count(shape_of(region));
      }
    }
    std::vector<float> memory(static_cast<std::size_t>(own), 1.25f);
    std::int64_t offset = 0;
    for (TensorPart& part : parts) {
      part.values = memory.data() + offset;
      offset += element_count(shape_of(part.region));
    }
    const std::int64_t bytes = element_count(shape) * 4 * static_cast<std::int64_t>(parts.size());
    const std::vector<float> all(root ? static_cast<std::size_t>(bytes / 4) : 0, 1.25f);
    std::vector<float> copy(memory.size());

    std::map<std::string, std::vector<double>> seconds;
    const auto timed = [&](const std::string& name, const auto& action) {
      barrier();
      const double begin = now();
      action();
      barrier();
      seconds[name].push_back(now() - begin);
    };
    for (int round = 0; round < rounds; ++round) {
      timed("copy of the state in memory", [&] { copy = memory; });
      timed("write + fsync, one process", [&] {
        if (root) write_plainly((directory / "one").string(), all, 0);
      });
      if (root) std::filesystem::remove(directory / "one");
      timed("write + fsync, all ranks",
            [&] { write_plainly((directory / "all").string(), memory, world.rank() * own * 4); });
      if (root) std::filesystem::remove(directory / "all");
      for (const auto& [name, writer] :
           {std::pair{"checkpoint, parallel", CheckpointWriter::parallel},
            {"checkpoint, plain", CheckpointWriter::plain}}) {
        timed(name, [&, writer = writer] {
          (void)write_checkpoint(world, directory / "step.h5", state, parts, {writer});
        });
        if (root) std::filesystem::remove(directory / "step.h5");
      }
    }
    if (root) {
      std::printf("%d ranks, %.0f MB in %s\n", world.size(), static_cast<double>(bytes) / 1e6,
                  directory.c_str());
      for (const auto& [name, times] : seconds) {
        std::printf("  %-28s %8.3f s  %8.0f MB/s\n", name.c_str(), median(times),
                    static_cast<double>(bytes) / 1e6 / median(times));
      }
    }

    if (argc > 4 && std::string_view(argv[4]) == "writing") {
      if (root) std::filesystem::remove_all(directory);
      return;
    }

    // How long training waits: 3 x 4 x 4 MB of state, a checkpoint every 25 steps.
    std::vector<Array> arrays{
        Array("x", std::vector<float>(256 * 1024, 0.5f), {256, 1024}),
        Array("t", std::vector<float>(256 * 1024, 0.25f), {256, 1024}, FieldRole::target)};
    const auto source = std::make_shared<ArraySource>(std::move(arrays));
    for (const auto& [name, mode] : {std::pair{"none", std::optional<CheckpointMode>()},
                                     {"sync", std::optional(CheckpointMode::synchronous)},
                                     {"async", std::optional(CheckpointMode::asynchronous)}}) {
      const auto input = Input({1024});
      auto x = input;
      for (int layer = 0; layer < 4; ++layer) x = Dense({.units = 1024})(x);
      Model model(input, x, DataParallel(mesh));
      model.compile({.loss = MeanSquaredError(), .optimizer = Adam()});
      const auto times = std::make_shared<StepTimes>();
      FitOptions options{.epochs = 50,
                         .batch_size = 64,
                         .callbacks = {times},
                         .verbose = root ? Verbosity::lines : Verbosity::silent};
      options.verbose = Verbosity::silent;
      if (mode) {
        options.checkpoint = {
            .directory = directory / name, .every_steps = 25, .keep = 1, .mode = *mode};
      }
      const double begin = now();
      (void)model.fit(source, std::move(options));
      const double total = now() - begin;
      if (root) {
        std::vector<double> sorted = times->seconds;
        std::sort(sorted.rbegin(), sorted.rend());
        const std::size_t checkpoints = std::max<std::size_t>(1, sorted.size() / 25);
        const std::vector<double> waiting(
            sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(checkpoints));
        std::printf(
            "  training, checkpoints %-6s %7.2f s in all; steps %7.2f ms (median), the %zu longest "
            "%7.2f ms (median), %7.2f ms (worst)\n",
            name, total, median(times->seconds) * 1e3, checkpoints, median(waiting) * 1e3,
            sorted[0] * 1e3);
      }
    }
    barrier();
    if (root) std::filesystem::remove_all(directory);
  });
}
