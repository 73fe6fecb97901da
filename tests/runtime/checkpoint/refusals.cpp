// Checkpoints on a disk that does not give them back: the system refuses to read. That is no
// damage, since the file may be whole; what passes is waited for, and what stays is said to be what
// it is.
//
// The calls are those of the whole process, as in faults.cpp: this program defines them.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "collectives/exchange.h"
#include "layers/dense.h"
#include "runtime/checkpoint/directory.h"
#include "runtime/checkpoint/reader.h"
#include "runtime/data/hdf5_handles.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/optimizers/adam.h"
#include "tests/runtime/checkpoint/example.h"
#include "tests/support/one_rank.h"

namespace {

// Reads of files whose names end so fail, on this rank: `count` of them from number `first` on.
struct Refusal {
  std::string names;
  int first = 1;
  int count = INT_MAX;
  int error = EIO;
};
Refusal refusal;                  // set while nothing is read
std::atomic<int> reads_of_those;  // from 1

// Whether the system refuses to read from `descriptor`; then errno says why.
bool refuses(int descriptor) {
  if (refusal.names.empty()) return false;
  std::array<char, PATH_MAX> path{};
  std::array<char, 64> link{};
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", descriptor);
  if (::readlink(link.data(), path.data(), path.size() - 1) <= 0 ||
      !std::string_view(path.data()).ends_with(refusal.names)) {
    return false;
  }
  const int after_first = ++reads_of_those - refusal.first;
  if (after_first < 0 || after_first >= refusal.count) return false;
  errno = refusal.error;
  return true;
}

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ssize_t read(int descriptor, void* data, std::size_t size) {
  static auto* const system = real<ssize_t(int, void*, std::size_t)>("read");
  return refuses(descriptor) ? -1 : system(descriptor, data, size);
}

ssize_t pread(int descriptor, void* data, std::size_t size, off_t offset) {
  static auto* const system = real<ssize_t(int, void*, std::size_t, off_t)>("pread");
  return refuses(descriptor) ? -1 : system(descriptor, data, size, offset);
}

ssize_t pread64(int descriptor, void* data, std::size_t size, off64_t offset) {
  return pread(descriptor, data, size, offset);
}

}  // extern "C"

namespace meshwork::refusals_test {

using namespace meshwork::test;

namespace {

namespace fs = std::filesystem;

void refuse(const Refusal& now) {
  reads_of_those = 0;
  refusal = now;
}

// Reads everything: "" if all is as it was written, else what is thrown or found.
std::string verdict_on(const fs::path& file) {
  try {
    const CheckpointReader reader(file);
    const std::vector<std::string> damage = reader.verify();
    for (const CheckpointTensor& tensor : reader.tensors()) (void)reader.read(tensor);
    return damage.empty() ? "" : "damage: " + damage.front();
  } catch (const SystemFailure& failure) {
    return std::string("refused: ") + failure.what();
  } catch (const Error& error) {
    return std::string("damage: ") + error.what();
  }
}

void barrier() {
  check_mpi(MPI_Barrier(Communicator::world().native()), "MPI_Barrier");
}

struct Outcome {
  std::vector<std::vector<float>> weights;
  std::string said;  // on rank 0
};

// Trains to the end of `epochs`, with a checkpoint after each, of two steps.
Outcome train(const fs::path& directory, std::int64_t epochs, Resume resume) {
  DeviceMesh mesh({{"data", -1}});
  const auto input = Input({4});
  Model model(input, Dense({.name = "d1", .units = 3})(input), spread_over(mesh), {.seed = 3});
  model.compile({.loss = MeanSquaredError(), .optimizer = Adam({.learning_rate = 0.01})});
  const auto data = std::make_shared<ArraySource>(
      std::vector<Array>{Array("x", random_floats(16 * 4, 1), {16, 4}),
                         Array("t", random_floats(16 * 3, 2), {16, 3}, FieldRole::target)});
  // What a silent run must not keep to itself goes to standard error.
  const std::string file = (fs::current_path() / "said.txt").string();
  const int before = ::dup(2);
  if (mesh.rank() == 0) {
    const int said = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    ::dup2(said, 2);
    ::close(said);
  }
  const auto put_back = [&] {
    ::dup2(before, 2);
    ::close(before);
  };
  try {
    (void)model.fit(data, {.epochs = epochs,
                           .batch_size = 8,
                           .verbose = Verbosity::silent,
                           .checkpoint = {.directory = directory, .keep = 5, .resume = resume}});
  } catch (...) {
    put_back();
    throw;
  }
  put_back();
  std::ostringstream text;
  if (mesh.rank() == 0) text << std::ifstream(file).rdbuf();
  return {variables_of(model), text.str()};
}

// A directory with the checkpoints of two epochs.
fs::path trained(const std::string& name) {
  const fs::path directory = fs::current_path() / name;
  barrier();
  if (Communicator::world().rank() == 0) fs::remove_all(directory);
  barrier();
  (void)train(directory, 2, Resume::automatic);
  barrier();
  return directory;
}

bool is_last_rank() {
  return Communicator::world().rank() == Communicator::world().size() - 1;
}

}  // namespace

TEST_CASE("whatever read the system refuses, that is said, and is no damage") {
  if (Communicator::world().rank() == 0) {
    const fs::path file = fs::current_path() / "refused.h5";
    const MeshShape mesh({{"data", 1}, {"model", 1}}, 1);
    const ExampleParts parts(mesh, 0, example_state());
    (void)write_checkpoint(Communicator::self(), file, example_state(), parts.parts,
                           {CheckpointWriter::plain});
    refuse({"refused.h5", INT_MAX});
    CHECK(verdict_on(file) == "");
    const int reads = reads_of_those;
    REQUIRE(reads > 20);
    for (int number = 1; number <= reads; ++number) {
      for (const int error : {EIO, ESTALE}) {
        INFO("read " << number << " of " << reads);
        refuse({"refused.h5", number, 1, error});
        const std::string verdict = verdict_on(file);
        CHECK_THAT(verdict, Catch::StartsWith("refused: ") && Catch::Contains("refused.h5: ") &&
                                Catch::EndsWith(std::string(": ") + std::strerror(error)));
      }
    }
    refuse({});
    CHECK(verdict_on(file) == "");
  }
  barrier();
}

TEST_CASE("a run waits for a disk that comes back, and loses nothing") {
  const fs::path directory = trained("passing");
  const Outcome straight = train(trained("straight"), 3, Resume::automatic);
  // The last rank is refused twice, rank 0 as it looks through the directory.
  if (is_last_rank()) refuse({checkpoint_name(4), 1, 2});
  if (Communicator::world().rank() == 0) refuse({checkpoint_name(4), 1, 1});
  const Outcome resumed = train(directory, 3, Resume::automatic);
  refuse({});
  CHECK(resumed.weights == straight.weights);
  CHECK_THAT(resumed.said, !Catch::Contains("WARNING"));
}

TEST_CASE("what the disk does not give is passed over, said to be that, or an error if strict") {
  const fs::path directory = trained("refused");
  const Outcome straight = train(trained("straight"), 3, Resume::automatic);
  if (is_last_rank()) refuse({checkpoint_name(4)});
  CHECK_THROWS_WITH(train(directory, 3, Resume::strict),
                    Catch::Contains("checkpoint.resume is strict") &&
                        Catch::Contains(std::strerror(EIO)) && Catch::Contains("tried 4 times") &&
                        !Catch::Contains("damage"));
  const Outcome resumed = train(directory, 3, Resume::automatic);
  refuse({});
  CHECK(resumed.weights == straight.weights);
  if (Communicator::world().rank() == 0) {
    CHECK_THAT(resumed.said,
               Catch::Contains("WARNING: rank 1: ") && Catch::Contains(checkpoint_name(4)) &&
                   Catch::Contains("cannot be read: " + std::string(std::strerror(EIO))) &&
                   Catch::Contains("whether it is whole is not known") &&
                   Catch::Contains("goes back to step 2: 2 steps are lost") &&
                   !Catch::Contains("damaged"));
  }
}

TEST_CASE("where the disk gives nothing, no run begins anew") {
  const fs::path directory = trained("nothing");
  if (Communicator::world().rank() == 0) fs::remove(directory / checkpoint_name(2));
  barrier();
  refuse({".h5"});
  CHECK_THROWS_WITH(train(directory, 3, Resume::automatic),
                    Catch::Contains("its only checkpoint cannot be read") &&
                        Catch::Contains("start again when the system gives it") &&
                        !Catch::Contains("damage"));
  refuse({});
  CHECK(list_checkpoints(directory, "").checkpoints.size() == 1);
}

}  // namespace meshwork::refusals_test
