// What a checkpoint costs: bytes a second against plain writing of the same bytes, and how long
// training waits for it.
//
//   mpirun -n 2 build/benchmarks/checkpoint [DIRECTORY [MEBIBYTES [ROUNDS [writing]]]]
//
// The state is that of a dense network with Adam, of about the size asked for (1024 MiB). In each
// round, in turn: write and fsync by rank 0 of as many bytes; the same by all ranks, each its
// share, into one file; a checkpoint by either writer, in front of training. Beside them, how long
// its two checksums take. Then a small training run without checkpoints and with one every 25
// steps, in either mode, in turn: the longest steps are those that had to wait, and what a
// checkpoint costs is what the run takes longer, shared out to its checkpoints. With `writing` that
// is left out. Medians are printed, because disks are noisy. Files are removed.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string_view>

#include "layers/dense.h"
#include "runtime/checkpoint/checksum.h"
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

// What training saw, by run.
struct TrainingTimes {
  std::vector<double> total, step, waiting, worst;  // seconds
  void add(const TrainingTimes& other) {
    for (const auto list : {&TrainingTimes::total, &TrainingTimes::step, &TrainingTimes::waiting,
                            &TrainingTimes::worst}) {
      (this->*list).insert((this->*list).end(), (other.*list).begin(), (other.*list).end());
    }
  }
};

constexpr std::int64_t steps_between = 25;
constexpr int checkpoints_in_training = 8;

// One run, with a checkpoint every few steps if there is a mode.
TrainingTimes train(DeviceMesh& mesh, const std::filesystem::path& directory,
                    std::optional<CheckpointMode> mode) {
  std::vector<Array> arrays{
      Array("x", std::vector<float>(256 * 1024, 0.5f), {256, 1024}),
      Array("t", std::vector<float>(256 * 1024, 0.25f), {256, 1024}, FieldRole::target)};
  const auto input = Input({1024});
  auto x = input;
  for (int layer = 0; layer < 4; ++layer) x = Dense({.units = 1024})(x);
  Model model(input, x, DataParallel(mesh));
  model.compile({.loss = MeanSquaredError(), .optimizer = Adam()});
  const auto times = std::make_shared<StepTimes>();
  FitOptions options{.epochs = checkpoints_in_training * steps_between / 4,  // 4 steps each
                     .batch_size = 64,
                     .callbacks = {times},
                     .verbose = Verbosity::silent};
  if (mode) {
    options.checkpoint = {
        .directory = directory, .every_steps = steps_between, .keep = 1, .mode = *mode};
  }
  const double begin = now();
  (void)model.fit(std::make_shared<ArraySource>(std::move(arrays)), std::move(options));
  const double total = now() - begin;
  if (mesh.rank() == 0) std::filesystem::remove_all(directory);
  std::vector<double> sorted = times->seconds;
  std::sort(sorted.rbegin(), sorted.rend());
  const std::vector<double> waiting(sorted.begin(), sorted.begin() + checkpoints_in_training);
  return {{total}, {median(sorted)}, {median(waiting)}, {sorted.front()}};
}

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

    std::uint64_t checked = 0;  // so that it is not left out
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
      timed("checksums of the state", [&] {
        for (const TensorPart& part : parts) {
          const std::span values(part.values,
                                 static_cast<std::size_t>(element_count(shape_of(part.region))));
          Hash hash;
          hash.add(std::as_bytes(values));
          checked += hash.value() + sum_of(shape, part.region, values);
        }
      });
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
      std::printf("%d ranks, %.0f MB in %s (%016llx)\n", world.size(),
                  static_cast<double>(bytes) / 1e6, directory.c_str(),
                  static_cast<unsigned long long>(checked));
      for (const auto& [name, times] : seconds) {
        std::printf("  %-28s %8.3f s  %8.0f MB/s\n", name.c_str(), median(times),
                    static_cast<double>(bytes) / 1e6 / median(times));
      }
    }

    if (argc > 4 && std::string_view(argv[4]) == "writing") {
      if (root) std::filesystem::remove_all(directory);
      return;
    }

    // What training sees: 3 x 4 x 4 MB of state.
    const std::vector<std::pair<const char*, std::optional<CheckpointMode>>> modes{
        {"none", std::nullopt},
        {"sync", CheckpointMode::synchronous},
        {"async", CheckpointMode::asynchronous}};
    std::map<std::string, TrainingTimes> trained;
    for (int round = 0; round < rounds; ++round) {
      for (const auto& [name, mode] : modes) {
        trained[name].add(train(mesh, directory / name, mode));
      }
    }
    for (const auto& [name, mode] : modes) {
      if (root) {
        const TrainingTimes& times = trained[name];
        std::printf(
            "  training, checkpoints %-6s %7.3f s in all; steps %7.2f ms (median), the %d longest "
            "%7.2f ms (median), %7.2f ms (worst); a checkpoint costs %7.2f ms\n",
            name, median(times.total), median(times.step) * 1e3, checkpoints_in_training,
            median(times.waiting) * 1e3, median(times.worst) * 1e3,
            (median(times.total) - median(trained["none"].total)) / checkpoints_in_training * 1e3);
      }
    }
    barrier();
    if (root) std::filesystem::remove_all(directory);
  });
}
