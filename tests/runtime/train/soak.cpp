// A run that goes on for long: what it has taken of the machine after many epochs, evaluations and
// checkpoints is what it had taken after the first hundred. The long version:
// MESHWORK_SOAK_CYCLES=20000.
#include <hdf5.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "layers/activation.h"
#include "layers/dense.h"
#include "runtime/device/kernels/activation.h"
#include "runtime/train/losses/categorical_crossentropy.h"
#include "runtime/train/metrics/categorical_accuracy.h"
#include "runtime/train/optimizers/adam.h"
#include "tests/support/one_rank.h"

namespace meshwork::soak_test {

using namespace meshwork::test;

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t rows = 24;
constexpr std::int64_t warm_cycles = 100;
// Over so many the least is taken: a checkpoint that is being written has a megabyte and a
// descriptor for itself, and a busy machine writes during most of them.
constexpr std::int64_t looks = 100;

std::int64_t cycles() {
  const char* asked = std::getenv("MESHWORK_SOAK_CYCLES");
  return asked == nullptr ? 500 : std::atoll(asked);
}

std::shared_ptr<const Source> samples(unsigned seed) {
  std::vector<float> labels = random_floats(rows, seed + 1, 0, 3);
  for (float& label : labels) label = std::floor(label);
  return std::make_shared<ArraySource>(
      std::vector<Array>{Array("x", random_floats(rows * 5, seed), {rows, 5}),
                         Array("t", std::move(labels), {rows}, FieldRole::target)});
}

std::int64_t entries_of(const fs::path& folder) {
  std::int64_t count = 0;
  std::error_code problem;
  for (fs::directory_iterator entry(folder, problem), end; !problem && entry != end;
       entry.increment(problem)) {
    ++count;
  }
  return count;
}

// Names of shared segments of Meshwork's, also of other jobs.
std::set<std::string> segments() {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator("/dev/shm")) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("meshwork-")) names.insert(name);
  }
  return names;
}

// Those that stay, and were not there `before`: other jobs' go soon.
std::int64_t segments_besides(const std::set<std::string>& before) {
  std::int64_t besides = 1;
  for (int look = 0; look < 100 && besides > 0; ++look) {
    if (look > 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const std::set<std::string> now = segments();
    besides = std::count_if(now.begin(), now.end(),
                            [&](const std::string& name) { return !before.contains(name); });
  }
  return besides;
}

struct Taken {
  std::int64_t resident = 0;  // bytes
  std::int64_t heap = 0;      // bytes that are in use
  std::int64_t descriptors = 0, checkpoints = 0, mappings = 0;
};

Taken taken_now(const fs::path& checkpoints) {
  Taken taken;
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  taken.resident = pages * 4096;
  taken.heap = static_cast<std::int64_t>(::mallinfo2().uordblks);
  taken.descriptors = entries_of("/proc/self/fd");
  taken.checkpoints = entries_of(checkpoints);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) ++taken.mappings;
  return taken;
}

Taken least(const Taken& one, const Taken& other) {
  return {std::min(one.resident, other.resident), std::min(one.heap, other.heap),
          std::min(one.descriptors, other.descriptors),
          std::min(one.checkpoints, other.checkpoints), std::min(one.mappings, other.mappings)};
}

// Looks at what is taken when the first cycles are over, and at the end.
class Look final : public Callback {
 public:
  explicit Look(fs::path checkpoints) : checkpoints_(std::move(checkpoints)) {}
  std::string class_name() const override { return "Look"; }
  bool decides_alike() const override { return true; }
  void on_epoch_end(Training& training) override {
    const std::int64_t epoch = training.position().epoch;
    for (const auto& [from, taken] : {std::pair(warm_cycles, &early), {cycles() - looks, &last}}) {
      if (epoch < from || epoch >= from + looks) continue;
      const Taken now = taken_now(checkpoints_);
      *taken = epoch == from ? now : least(*taken, now);
    }
  }
  Taken early, last;

 private:
  fs::path checkpoints_;
};

}  // namespace

TEST_CASE("epochs, evaluations and checkpoints leave nothing behind") {
  // The HDF5 library keeps up to some megabytes of what it has freed.
  REQUIRE(H5set_free_list_limits(0, 0, 0, 0, 0, 0) >= 0);
  const Communicator world = Communicator::world();
  const fs::path folder = fs::current_path() / "soak";
  if (world.rank() == 0) fs::remove_all(folder);
  check_mpi(MPI_Barrier(world.native()), "MPI_Barrier");
  DeviceMesh mesh({{"data", world.size()}});
  const auto input = Input({5});
  auto x = Dense({.name = "d1", .units = 6, .activation = Activation::relu})(input);
  x = Dense({.name = "d2", .units = 3})(x);
  Model model(input, x, DataParallel(mesh), {.seed = 5});
  model.compile({.loss = SparseCategoricalCrossentropy({.from_logits = true}),
                 .optimizer = Adam(),
                 .metrics = {SparseCategoricalAccuracy()}});
  const auto look = std::make_shared<Look>(folder);
  FitOptions options;
  options.epochs = cycles();
  options.batch_size = 8;
  options.validation = samples(7);
  options.callbacks = {look};
  options.verbose = Verbosity::silent;
  options.checkpoint.directory = folder;
  options.checkpoint.keep = 2;
  REQUIRE(options.epochs > warm_cycles + looks);
  const std::set<std::string> before = segments();
  (void)model.fit(samples(3), options);
  const Taken &early = look->early, &last = look->last;
  INFO(last.resident - early.resident << " bytes more resident, " << last.heap - early.heap
                                      << " of the heap");
  // The history has some hundred bytes an epoch, of which a checkpoint in work has a copy.
  const std::int64_t history = (options.epochs - warm_cycles) * 1024;
  CHECK(last.heap < early.heap + (std::int64_t{1} << 20) + history);
  CHECK(last.resident < early.resident + (std::int64_t{8} << 20) + history);
  CHECK(last.descriptors <= early.descriptors);
  CHECK(last.mappings < early.mappings + 16);
  // Two, the lock, and one that is being written.
  CHECK(last.checkpoints <= 4);
  CHECK(segments_besides(before) == 0);
}

}  // namespace meshwork::soak_test
