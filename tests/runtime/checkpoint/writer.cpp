// Checkpoints written by several ranks, in both ways, and read back by one: contents, commit, and
// what happens when the disk does not want them.
#include "runtime/checkpoint/writer.h"

#include <fcntl.h>
#include <semaphore.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "runtime/checkpoint/hdf5_values.h"
#include "runtime/checkpoint/mpi_io.h"
#include "runtime/checkpoint/new_file.h"
#include "runtime/checkpoint/reader.h"
#include "tests/runtime/checkpoint/example.h"
#include "tests/support/catch.h"

namespace meshwork::writer_test {

using namespace meshwork::test;

namespace {

namespace fs = std::filesystem;

MeshShape mesh_of(const Communicator& world) {
  return world.size() % 2 == 0 ? MeshShape({{"data", world.size() / 2}, {"model", 2}}, world.size())
                               : MeshShape({{"data", 1}, {"model", world.size()}}, world.size());
}

// An empty directory, the same on all ranks.
fs::path fresh_directory(const Communicator& world, const std::string& name) {
  const fs::path directory = fs::current_path() / name;
  if (world.rank() == 0) {
    fs::remove_all(directory);
    fs::create_directories(directory);
  }
  check_mpi(MPI_Barrier(world.native()), "MPI_Barrier");
  return directory;
}

WriteReport write_example(const Communicator& world, const fs::path& file,
                          const WriteOptions& options) {
  const ExampleParts parts(mesh_of(world), world.rank(), example_state());
  return write_checkpoint(world, file, example_state(), parts.parts, options);
}

// Compares everything in the file with the example.
void check_example(const fs::path& file) {
  const CheckpointReader reader(file);
  CheckpointState expected = example_state();
  expected.program = reader.state().program;
  expected.writer = reader.state().writer;
  expected.created = reader.state().created;
  CHECK(expected.program.starts_with("meshwork "));
  CHECK(reader.state() == expected);
  CHECK(reader.tensors().size() == example_tensors().size());
  for (const ExampleTensor& example : example_tensors()) {
    const std::string name = name_of(example.tensor, expected.callbacks);
    INFO(name);
    const CheckpointTensor* found = reader.find(name);
    REQUIRE(found != nullptr);
    CHECK(found->shape == example.tensor.shape);
    CHECK(found->kind == example.tensor.kind);
    const std::vector<float> values = reader.read(*found);
    std::vector<float> truth;
    for (std::size_t i = 0; i < values.size(); ++i) {
      truth.push_back(example_value(name, static_cast<std::int64_t>(i)));
    }
    CHECK(values == truth);
  }
  CHECK(reader.verify().empty());
}

// While this lives, no file of this process can grow beyond `bytes`, as on a full disk.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

// A small file system in memory over `directory`, if this is root.
class SmallDisk {
 public:
  explicit SmallDisk(const fs::path& directory) : directory_(directory) {
    mounted_ = geteuid() == 0 && ::mount("none", directory.c_str(), "tmpfs", 0, "size=3000k") == 0;
  }
  ~SmallDisk() {
    if (mounted_) remove(directory_);
  }
  /// A run that was killed may have left one.
  static void remove(const fs::path& directory) { ::umount2(directory.c_str(), MNT_DETACH); }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  [[nodiscard]] bool mounted() const { return mounted_; }

 private:
  fs::path directory_;
  bool mounted_ = false;
};

const std::vector<CheckpointWriter> writers{CheckpointWriter::parallel, CheckpointWriter::plain};

}  // namespace

TEST_CASE("what is written is read back, element by element") {
  const Communicator world = Communicator::world().duplicate();
  const fs::path directory = fresh_directory(world, "written");
  int number = 0;
  for (const CheckpointWriter writer : writers) {
    // Parts of 256 MiB, and so small ones that there are many rounds, unequal between ranks.
    for (const std::int64_t part_bytes : {std::int64_t{256} << 20, std::int64_t{20000}}) {
      const fs::path file = directory / fmt::format("{}.h5", number++);
      const WriteReport report = write_example(world, file, {writer, true, part_bytes});
      if (world.rank() == 0) {
        CHECK(report.bytes == static_cast<std::int64_t>(fs::file_size(file)));
        CHECK_FALSE(fs::exists(name_while_writing(file)));
      }
      check_example(file);
    }
  }
}

TEST_CASE("h5py reads it as plain arrays, and both writers' files have the same") {
  const Communicator world = Communicator::world().duplicate();
  const fs::path directory = fresh_directory(world, "plain_arrays");
  write_example(world, directory / "parallel.h5", {CheckpointWriter::parallel});
  write_example(world, directory / "plain.h5", {CheckpointWriter::plain});
  if (world.rank() == 0) {
    // Of MPI's environment the new process must see nothing.
    const std::string command = "env -i PATH=/usr/bin:/bin python3 " MESHWORK_SOURCE_DIR
                                "/tests/runtime/checkpoint/plain_arrays.py ";
    for (const char* name : {"parallel.h5", "plain.h5"}) {
      const int status = std::system((command + (directory / name).string()).c_str());
      if (WEXITSTATUS(status) == 77) {
        WARN("there is no h5py");
      } else {
        CHECK(status == 0);
      }
    }
  }
  check_mpi(MPI_Barrier(world.native()), "MPI_Barrier");
}

TEST_CASE("the file says how it was written, and not by what is known to damage files") {
  const Communicator world = Communicator::world().duplicate();
  const fs::path directory = fresh_directory(world, "how");
  write_example(world, directory / "a.h5", {CheckpointWriter::parallel});
  write_example(world, directory / "b.h5", {CheckpointWriter::plain});
  CHECK_THAT(
      CheckpointReader(directory / "a.h5").state().writer,
      Catch::StartsWith(world.size() == 1 ? "parallel, 1 rank: "
                                          : fmt::format("parallel, {} ranks: ", world.size())));
  CHECK(CheckpointReader(directory / "b.h5").state().writer == "plain");
  const MpiIo io = find_mpi_io();
  CHECK(io.trusted);
  CHECK_THAT(CheckpointReader(directory / "a.h5").state().writer, Catch::Contains(io.description));
  CHECK_THAT(io.description, !Catch::Contains("fcoll default") && !Catch::Contains("vulcan"));
}

TEST_CASE("an older checkpoint of the same name is replaced") {
  const Communicator world = Communicator::world().duplicate();
  const fs::path directory = fresh_directory(world, "replaced");
  if (world.rank() == 0) std::ofstream(directory / "a.h5") << "something else";
  write_example(world, directory / "a.h5", {CheckpointWriter::parallel});
  check_example(directory / "a.h5");
}

TEST_CASE("a flipped bit in any region is found in that region, and in no other") {
  const Communicator world = Communicator::world().duplicate();
  const fs::path directory = fresh_directory(world, "flipped");
  write_example(world, directory / "a.h5", {CheckpointWriter::parallel});
  if (world.rank() == 0) {
    const fs::path file = directory / "a.h5";
    const std::vector<StoredRegion> regions = CheckpointReader(file).regions();
    CHECK(regions.size() >= example_tensors().size() - 3);  // three have no elements
    for (const StoredRegion& region : regions) {
      if (is_empty(region.block)) continue;
      INFO(region.dataset << " " << meshwork::to_string(region.block));
      // The place in the file of the region's last element.
      std::int64_t place = 0;
      {
        const Hdf5Guard guard;
        const Hdf5File opened(H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
        const Hdf5Dataset dataset = open_dataset(opened.native(), region.dataset, file.string());
        const Shape shape = shape_of(dataset, file.string());
        const Hdf5Datatype type(H5Dget_type(dataset.native()));
        std::int64_t index = 0;
        for (std::size_t d = 0; d < shape.size(); ++d) {
          index = index * shape[d] + region.block[d].end - 1;
        }
        place = static_cast<std::int64_t>(H5Dget_offset(dataset.native())) +
                index * static_cast<std::int64_t>(H5Tget_size(type.native()));
      }
      const auto flip = [&] {
        std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
        bytes.seekg(place);
        const char flipped = static_cast<char>(bytes.get() ^ 8);
        bytes.seekp(place);
        bytes.put(flipped);
      };
      flip();
      std::vector<std::string> damage;
      try {
        damage = CheckpointReader(file).verify();
      } catch (const DamagedCheckpoint& error) {
        damage = {error.what()};  // of what a reader needs to know anything at all
      }
      flip();
      REQUIRE(damage.size() == 1);
      CHECK_THAT(damage[0], Catch::Contains(region.dataset));
      if (CheckpointReader(file).find(region.dataset) != nullptr) {
        CHECK_THAT(damage[0], Catch::Contains(meshwork::to_string(region.block)));
      }
    }
    CHECK(CheckpointReader(file).verify().empty());
  }
  check_mpi(MPI_Barrier(world.native()), "MPI_Barrier");
}

TEST_CASE("regions that do not cover a tensor are an error before anything is written") {
  const Communicator world = Communicator::world().duplicate();
  const fs::path directory = fresh_directory(world, "uncovered");
  ExampleParts parts(mesh_of(world), world.rank(), example_state());
  // The first of them that this rank has loses a row, on the last rank only.
  if (world.rank() == world.size() - 1) {
    for (TensorPart& part : parts.parts) {
      if (!is_empty(part.region) && part.region.size() == 2) {
        --part.region[0].end;
        break;
      }
    }
  }
  CHECK_THROWS_WITH(write_checkpoint(world, directory / "a.h5", example_state(), parts.parts, {}),
                    Catch::Contains("belong to no region") && Catch::Contains("a.h5"));
  check_mpi(MPI_Barrier(world.native()), "MPI_Barrier");
  CHECK(fs::is_empty(directory));
}

TEST_CASE("a directory that is gone is one error on all ranks") {
  const Communicator world = Communicator::world().duplicate();
  const fs::path directory = fresh_directory(world, "gone");
  for (const CheckpointWriter writer : writers) {
    CHECK_THROWS_WITH(
        write_example(world, directory / "below" / "a.h5", {writer}),
        Catch::Contains("below/a.h5.meshwork-unfinished") && Catch::Contains("cannot be created"));
  }
}

TEST_CASE("a full disk leaves the older checkpoint whole, and no temporary file") {
  const Communicator world = Communicator::world().duplicate();
  const fs::path directory = fresh_directory(world, "full");
  for (const CheckpointWriter writer : writers) {
    const fs::path file = directory / "a.h5";
    write_example(world, file, {writer});
    check_mpi(MPI_Barrier(world.native()), "MPI_Barrier");
    {
      // Rank 0 reserves the space, and is refused.
      const FullDisk full(100000);
      CHECK_THROWS_WITH(
          write_example(world, file, {writer}),
          Catch::Contains("a.h5.meshwork-unfinished") && Catch::Contains("there is no room"));
    }
    check_mpi(MPI_Barrier(world.native()), "MPI_Barrier");
    CHECK_FALSE(fs::exists(name_while_writing(file)));
    check_example(file);
    // Afterwards all is well again.
    write_example(world, file, {writer});
    check_example(file);
  }
}

TEST_CASE(
    "whatever size a file may have, a checkpoint is whole or an error, and the program goes on") {
  const Communicator world = Communicator::world().duplicate();
  const fs::path directory = fresh_directory(world, "limited");
  const fs::path file = directory / "a.h5";
  write_example(world, file, {CheckpointWriter::plain});
  check_mpi(MPI_Barrier(world.native()), "MPI_Barrier");
  const rlim_t size = fs::file_size(file);
  for (const CheckpointWriter writer : writers) {
    int written = 0;
    // The limit of all ranks, and that of the last one alone.
    for (const bool all : {true, false}) {
      for (const rlim_t bytes : {rlim_t{0}, rlim_t{1000}, size / 2, size - 200000, size - 20000,
                                 size - 1, size, size + 20000, size + 200000}) {
        INFO(bytes << " of " << size << " bytes, on " << (all ? "all ranks" : "the last rank"));
        std::string message;
        {
          std::optional<FullDisk> full;
          if (all || world.rank() == world.size() - 1) full.emplace(bytes);
          try {
            write_example(world, file, {writer});
            ++written;
          } catch (const Error& error) {
            message = error.what();
          }
        }
        check_mpi(MPI_Barrier(world.native()), "MPI_Barrier");
        if (!message.empty()) {
          CHECK_THAT(message, Catch::Contains("a.h5.meshwork-unfinished") &&
                                  Catch::Contains(std::strerror(EFBIG)));
          CHECK(bytes < size + 200000);
        }
        CHECK_FALSE(fs::exists(name_while_writing(file)));
        check_example(file);
        check_mpi(MPI_Barrier(world.native()), "MPI_Barrier");
      }
    }
    CHECK(written >= 2);
  }
}

TEST_CASE("a full file system leaves the older checkpoint whole") {
  const Communicator world = Communicator::world().duplicate();
  if (world.rank() == 0) SmallDisk::remove(fs::absolute("small_disk"));
  const fs::path directory = fresh_directory(world, "small_disk");
  std::optional<SmallDisk> disk;
  if (world.rank() == 0) disk.emplace(directory);
  const bool mounted = broadcast_text(world, disk && disk->mounted() ? "yes" : "no") == "yes";
  if (!mounted) {
    WARN("skipped: only root can mount a small file system");
    return;
  }
  // There is room for one, and for a second one but for some pages: all of it, what describes the
  // data, the last page.
  std::vector<std::string> messages;
  for (const CheckpointWriter writer : writers) {
    const fs::path first = directory / "first.h5";
    if (world.rank() == 0) fs::remove(first);
    check_mpi(MPI_Barrier(world.native()), "MPI_Barrier");
    write_example(world, first, {writer});
    for (const std::uintmax_t missing : {500000, 40000, 12000, 4096}) {
      if (world.rank() == 0) {
        std::ofstream(directory / "filler").flush();
        const std::uintmax_t filler =
            fs::space(directory).available + missing - fs::file_size(first) / 4096 * 4096 - 4096;
        std::ofstream(directory / "filler") << std::string(filler, 'x');
      }
      check_mpi(MPI_Barrier(world.native()), "MPI_Barrier");
      try {
        write_example(world, directory / "second.h5", {writer});
        messages.emplace_back(fmt::format("written where {} bytes are missing", missing));
      } catch (const Error& error) {
        messages.emplace_back(error.what());
      }
      check_example(first);
      check_mpi(MPI_Barrier(world.native()), "MPI_Barrier");
      CHECK_FALSE(fs::exists(name_while_writing(directory / "second.h5")));
      check_mpi(MPI_Barrier(world.native()), "MPI_Barrier");
    }
  }
  for (const std::string& message : messages) {
    CHECK_THAT(message, Catch::Contains("second.h5.meshwork-unfinished") &&
                            Catch::Contains("No space left"));
  }
}

TEST_CASE("a run that was killed while it opened the file does not stop the next one") {
  const Communicator world = Communicator::world().duplicate();
  const fs::path file = fresh_directory(world, "killed") / "killed.h5";
  if (world.rank() == 0) {
    // Open MPI's semaphore for files of this name, as a killed process leaves it: taken.
    sem_t* left = ::sem_open("/OMPIO_killed.h5.meshwork-unfinished", O_CREAT, 0600, 0);
    REQUIRE(left != SEM_FAILED);
    ::sem_close(left);
  }
  check_mpi(MPI_Barrier(world.native()), "MPI_Barrier");
  write_example(world, file, {CheckpointWriter::parallel});
  check_example(file);
}

TEST_CASE("a rank that cannot write does not leave the others waiting") {
  const Communicator world = Communicator::world().duplicate();
  const fs::path directory = fresh_directory(world, "one_full");
  const fs::path file = directory / "a.h5";
  write_example(world, file, {CheckpointWriter::parallel});
  if (world.size() > 1) {
    std::optional<FullDisk> full;
    if (world.rank() == world.size() - 1) full.emplace(100000);
    // Whether this rank writes at all is up to MPI, which may hand its data to another. If it
    // does, it is an error on all ranks.
    std::string message;
    try {
      write_example(world, file, {CheckpointWriter::parallel});
    } catch (const Error& error) {
      message = error.what();
    }
    CHECK(broadcast_text(world, message) == message);
  }
  check_mpi(MPI_Barrier(world.native()), "MPI_Barrier");
  CHECK_FALSE(fs::exists(name_while_writing(file)));
  check_example(file);
}

}  // namespace meshwork::writer_test
