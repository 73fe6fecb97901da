// Checkpoints on a disk that fails: the n-th call of the system that writes, on one rank, ends with
// an error, or takes less than it was given. What was there before stays whole, all ranks hear the
// same, and nothing is left behind; where writing seems to have gone well, it has.
//
// The calls are those of the whole process: this program defines them, and so stands between the
// libraries and the system. Only files of checkpoints being written are touched.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "runtime/checkpoint/new_file.h"
#include "runtime/checkpoint/reader.h"
#include "runtime/checkpoint/verdict.h"
#include "runtime/checkpoint/writer.h"
#include "tests/runtime/checkpoint/example.h"
#include "tests/support/catch.h"

namespace {

enum class Call { write, sync, rename, reserve };
constexpr int call_count = 4;

// What is to happen, on this rank.
struct Fault {
  bool armed = false;
  Call call = Call::write;
  int number = 0;  // of the call that fails, from 1
  int error = 0;   // 0: a short write
};
Fault fault;                                      // set while nothing is written
std::array<std::atomic<int>, call_count> counts;  // of calls on the files in question
std::atomic<off_t> most_reserved{0};

// Counts a call; whether it is the one that fails.
bool fails(Call call) {
  const int number = ++counts[static_cast<std::size_t>(call)];
  return fault.armed && fault.call == call && fault.number == number;
}

// Not what MPI keeps beside it under longer names.
bool is_temporary(const char* path) {
  return std::string_view(path).ends_with(meshwork::unfinished);
}

bool is_temporary(int descriptor) {
  std::array<char, PATH_MAX> path{};
  std::array<char, 64> link{};
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", descriptor);
  return ::readlink(link.data(), path.data(), path.size() - 1) > 0 && is_temporary(path.data());
}

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

// The bytes that a write of `size` shall take: all, half of them, or -1 with errno.
ssize_t granted(int descriptor, std::size_t size) {
  if (size == 0 || !is_temporary(descriptor) || !fails(Call::write)) {
    return static_cast<ssize_t>(size);
  }
  if (fault.error != 0) {
    errno = fault.error;
    return -1;
  }
  return static_cast<ssize_t>((size + 1) / 2);
}

std::size_t bytes_of(const iovec* pieces, int count) {
  std::size_t bytes = 0;
  for (int i = 0; i < count; ++i) bytes += pieces[i].iov_len;
  return bytes;
}

}  // namespace

extern "C" {

ssize_t write(int descriptor, const void* data, std::size_t size) {
  static auto* const system = real<ssize_t(int, const void*, std::size_t)>("write");
  const ssize_t take = granted(descriptor, size);
  return take < 0 ? take : system(descriptor, data, static_cast<std::size_t>(take));
}

ssize_t pwrite(int descriptor, const void* data, std::size_t size, off_t offset) {
  static auto* const system = real<ssize_t(int, const void*, std::size_t, off_t)>("pwrite");
  const ssize_t take = granted(descriptor, size);
  return take < 0 ? take : system(descriptor, data, static_cast<std::size_t>(take), offset);
}

ssize_t pwrite64(int descriptor, const void* data, std::size_t size, off64_t offset) {
  return pwrite(descriptor, data, size, offset);
}

ssize_t writev(int descriptor, const iovec* pieces, int count) {
  static auto* const system = real<ssize_t(int, const iovec*, int)>("writev");
  const std::size_t size = bytes_of(pieces, count);
  const ssize_t take = granted(descriptor, size);
  if (take < 0) return take;
  // A short one takes half of the first piece.
  return static_cast<std::size_t>(take) == size
             ? system(descriptor, pieces, count)
             : write(descriptor, pieces[0].iov_base, (pieces[0].iov_len + 1) / 2);
}

ssize_t pwritev(int descriptor, const iovec* pieces, int count, off_t offset) {
  static auto* const system = real<ssize_t(int, const iovec*, int, off_t)>("pwritev");
  const std::size_t size = bytes_of(pieces, count);
  const ssize_t take = granted(descriptor, size);
  if (take < 0) return take;
  return static_cast<std::size_t>(take) == size
             ? system(descriptor, pieces, count, offset)
             : pwrite(descriptor, pieces[0].iov_base, (pieces[0].iov_len + 1) / 2, offset);
}

ssize_t pwritev64(int descriptor, const iovec* pieces, int count, off64_t offset) {
  return pwritev(descriptor, pieces, count, offset);
}

int fsync(int descriptor) {
  static auto* const system = real<int(int)>("fsync");
  if (is_temporary(descriptor) && fails(Call::sync)) {
    errno = fault.error;
    return -1;
  }
  return system(descriptor);
}

int rename(const char* from, const char* to) noexcept {
  static auto* const system = real<int(const char*, const char*)>("rename");
  if (is_temporary(from) && fails(Call::rename)) {
    errno = fault.error;
    return -1;
  }
  return system(from, to);
}

int fallocate(int descriptor, int mode, off_t offset, off_t length) {
  static auto* const system = real<int(int, int, off_t, off_t)>("fallocate");
  if (is_temporary(descriptor) && fails(Call::reserve)) {
    errno = fault.error;
    return -1;
  }
  if (is_temporary(descriptor)) most_reserved = std::max<off_t>(most_reserved, offset + length);
  return system(descriptor, mode, offset, length);
}

int fallocate64(int descriptor, int mode, off64_t offset, off64_t length) {
  return fallocate(descriptor, mode, offset, length);
}

}  // extern "C"

namespace meshwork::faults_test {

using namespace meshwork::test;

namespace {

namespace fs = std::filesystem;

MeshShape mesh_of(const Communicator& world) {
  return MeshShape({{"data", world.size()}, {"model", 1}}, world.size());
}

// Writes the example with this step; "" or the error.
std::string attempt(const Communicator& world, const fs::path& file, const WriteOptions& options,
                    std::int64_t step) {
  CheckpointState state = example_state();
  state.step = step;
  const ExampleParts parts(mesh_of(world), world.rank(), state);
  for (std::atomic<int>& count : counts) count = 0;
  try {
    (void)write_checkpoint(world, file, state, parts.parts, options);
    return "";
  } catch (const JointError& error) {
    return error.what();
  }
}

// The step in a checkpoint that is whole, or what is wrong with it.
std::string verdict_on(const fs::path& file) {
  try {
    const CheckpointReader reader(file);
    const std::vector<std::string> damage = reader.verify();
    return damage.empty() ? fmt::format("step {}", reader.state().step) : damage.front();
  } catch (const Error& error) {
    return error.what();
  }
}

// Numbers of calls from 1 to `count`: all if they are few, else from all over; always the last,
// which libraries make in flushing and closing.
std::set<int> chosen(int count) {
  std::set<int> numbers;
  for (int number = 1; number <= count; number += std::max(1, count / 4)) numbers.insert(number);
  for (int number = std::max(1, count - 1); number <= count; ++number) numbers.insert(number);
  return numbers;
}

const char* name_of(Call call) {
  switch (call) {
    case Call::write:
      return "write";
    case Call::sync:
      return "fsync";
    case Call::rename:
      return "rename";
    case Call::reserve:
      return "fallocate";
  }
  return "?";
}

}  // namespace

TEST_CASE("whichever call of the system fails, the older checkpoint stays and all ranks hear why") {
  const Communicator world = Communicator::world().duplicate();
  const fs::path directory = fs::current_path() / "faults";
  const auto barrier = [&] { check_mpi(MPI_Barrier(world.native()), "MPI_Barrier"); };
  for (const CheckpointWriter writer : {CheckpointWriter::parallel, CheckpointWriter::plain}) {
    // Nothing is read back: what the system says has to be enough.
    const WriteOptions options{writer, false};
    if (world.rank() == 0) {
      fs::remove_all(directory);
      fs::create_directories(directory);
    }
    barrier();
    const fs::path file = directory / "a.h5";
    REQUIRE(attempt(world, file, options, 1) == "");
    // How often each call is made, on the first and on the last rank.
    std::array<int, 2 * call_count> made{};
    for (int call = 0; call < call_count; ++call) {
      const int own = counts[static_cast<std::size_t>(call)];
      if (world.rank() == 0) made[static_cast<std::size_t>(call)] = own;
      if (world.rank() == world.size() - 1) made[static_cast<std::size_t>(call_count + call)] = own;
    }
    check_mpi(
        MPI_Allreduce(MPI_IN_PLACE, made.data(), made.size(), MPI_INT, MPI_MAX, world.native()),
        "MPI_Allreduce");
    CHECK(made[static_cast<std::size_t>(Call::write)] > 0);
    CHECK(made[static_cast<std::size_t>(Call::rename)] == 1);

    std::int64_t step = 2;
    int failed = 0;
    int tried = 0;
    for (int rank = 0; rank < world.size(); rank += std::max(1, world.size() - 1)) {
      for (const Call call : {Call::write, Call::sync, Call::rename, Call::reserve}) {
        int count = made[static_cast<std::size_t>(call) + (rank == 0 ? 0 : call_count)];
        for (const int number : chosen(count)) {
          for (const int error : {EIO, EDQUOT, ENOSPC, 0}) {
            if ((error == 0 || error == EDQUOT) && call != Call::write) continue;
            INFO(fmt::format("{} {} of {} on rank {}: {}, {}", name_of(call), number, count, rank,
                             error == 0 ? "short" : std::strerror(error),
                             writer == CheckpointWriter::plain ? "plain" : "parallel"));
            const std::string before = verdict_on(file);
            barrier();
            fault = {world.rank() == rank, call, number, error};
            const std::string message = attempt(world, file, options, step);
            fault = {};
            ++tried;
            CHECK(broadcast_text(world, message) == message);
            if (message.empty()) {
              // Less was taken, and the rest written with another call.
              CHECK(error == 0);
              CHECK(verdict_on(file) == fmt::format("step {}", step));
            } else {
              ++failed;
              CHECK(verdict_on(file) == before);
              CHECK_THAT(message, Catch::Contains("a.h5"));
            }
            CHECK_FALSE(fs::exists(name_while_writing(file)));
            barrier();
            ++step;
          }
        }
      }
    }
    CHECK(failed > 4);
    if (world.rank() == 0) WARN(failed << " of " << tried << " faults were errors");
    CHECK(attempt(world, file, options, step) == "");
    barrier();
    CHECK(verdict_on(file) == fmt::format("step {}", step));
    barrier();
  }
}

TEST_CASE("what the disk says is in the message") {
  const Communicator world = Communicator::world().duplicate();
  const fs::path file = fs::current_path() / "said.h5";
  for (const auto& [call, error] : {std::pair{Call::sync, EIO},
                                    {Call::rename, EDQUOT},
                                    {Call::reserve, ENOSPC},
                                    {Call::write, EDQUOT}}) {
    fault = {world.rank() == 0, call, 1, error};
    const std::string message = attempt(world, file, {CheckpointWriter::plain}, 1);
    fault = {};
    CHECK_THAT(message, Catch::Contains("said.h5") && Catch::Contains(std::strerror(error)));
  }
}

TEST_CASE("the room that is asked for is what the file takes") {
  const Communicator world = Communicator::world().duplicate();
  const fs::path file = fs::current_path() / "room.h5";
  for (const CheckpointWriter writer : {CheckpointWriter::parallel, CheckpointWriter::plain}) {
    most_reserved = 0;
    REQUIRE(attempt(world, file, {writer}, 1) == "");
    if (world.rank() == 0) CHECK(most_reserved == static_cast<off_t>(fs::file_size(file)));
    check_mpi(MPI_Barrier(world.native()), "MPI_Barrier");
  }
}

}  // namespace meshwork::faults_test
