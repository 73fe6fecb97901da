// Every kind of damage to a checkpoint file is found and named, or does no harm; nothing crashes.
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "runtime/checkpoint/hdf5_values.h"
#include "runtime/checkpoint/reader.h"
#include "tests/runtime/checkpoint/example.h"
#include "tests/runtime/checkpoint/mended.h"
#include "tests/support/catch.h"

namespace meshwork::damage_test {

using namespace meshwork::test;

namespace {

namespace fs = std::filesystem;

// A small checkpoint with everything in it.
fs::path small_checkpoint() {
  const fs::path file = fs::current_path() / "small.h5";
  CheckpointState state = example_state();
  const std::vector<float> kernel(35, 1.5f);
  const std::vector<float> bias{1, 2, 3};
  std::vector<TensorPart> parts;
  for (const auto& [kind, slot, callback] :
       {std::tuple{TensorKind::variable, "", -1}, std::tuple{TensorKind::slot, "momentum", -1},
        std::tuple{TensorKind::kept, "", 0}}) {
    parts.push_back({{kind, "d1/kernel", slot, callback, true, {5, 7}, "[~, ~]", 0},
                     whole({5, 7}),
                     kernel.data()});
    parts.push_back(
        {{kind, "d1/bias", slot, callback, true, {3}, "[~]", 0}, whole({3}), bias.data()});
  }
  write_checkpoint(Communicator::self(), file, state, parts, {CheckpointWriter::plain});
  return file;
}

// What a reader makes of a file: "" if all is as it should be, else what it says.
std::string verdict_on(const fs::path& file, const CheckpointState& state,
                       const std::vector<CheckpointTensor>& tensors) {
  try {
    const CheckpointReader reader(file);
    const std::vector<std::string> damage = reader.verify();
    if (!damage.empty()) return damage.front();
    for (const CheckpointTensor& tensor : reader.tensors()) (void)reader.read(tensor);
    return reader.state() == state && reader.tensors() == tensors ? "" : "unnoticed";
  } catch (const Error& error) {
    return error.what();
  }
}

// Changes the table of checksums, and its own hash to what it is then.
void change_table(const fs::path& file,
                  const std::function<void(std::vector<std::uint64_t>& table)>& change) {
  change_file(file, [&](hid_t opened) {
    const Hdf5Dataset dataset = open_dataset(opened, "checksums/regions", "test");
    std::vector<std::uint64_t> table(
        static_cast<std::size_t>(element_count(shape_of(dataset, "test"))));
    REQUIRE(H5Dread(dataset.native(), H5T_NATIVE_UINT64, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                    table.data()) >= 0);
    change(table);
    REQUIRE(H5Dwrite(dataset.native(), H5T_NATIVE_UINT64, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                     table.data()) >= 0);
    mend_table(opened);
  });
}

std::string content(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("a flipped bit anywhere is found, or is where nothing stands") {
  const fs::path file = small_checkpoint();
  const CheckpointReader whole_one(file);
  const CheckpointState state = whole_one.state();
  const std::vector<CheckpointTensor> tensors = whole_one.tensors();
  const std::string bytes = content(file);
  REQUIRE(verdict_on(file, state, tensors) == "");
  const fs::path damaged = fs::current_path() / "flipped.h5";
  std::ofstream(damaged, std::ios::binary) << bytes;
  const int descriptor = ::open(damaged.c_str(), O_WRONLY);
  REQUIRE(descriptor >= 0);
  std::int64_t found = 0;
  std::int64_t harmless = 0;
  for (std::size_t at = 0; at < bytes.size(); at += 5) {
    const char flipped = static_cast<char>(bytes[at] ^ (1 << (at / 5 % 8)));
    REQUIRE(::pwrite(descriptor, &flipped, 1, static_cast<off_t>(at)) == 1);
    const std::string verdict = verdict_on(damaged, state, tensors);
    INFO("byte " << at << ": " << verdict);
    CHECK(verdict != "unnoticed");
    if (verdict.empty()) {
      ++harmless;
    } else {
      ++found;
      CHECK_THAT(verdict, Catch::Contains("flipped.h5"));
    }
    REQUIRE(::pwrite(descriptor, &bytes[at], 1, static_cast<off_t>(at)) == 1);
  }
  ::close(descriptor);
  CHECK(found > 100);
  WARN(found << " of " << found + harmless << " flipped bits were found in " << bytes.size()
             << " bytes");
}

TEST_CASE("a flipped bit in a tensor is named with its dataset and region") {
  const fs::path file = small_checkpoint();
  std::string bytes = content(file);
  for (const char* name :
       {"params/d1/bias", "slots/d1/bias/momentum", "callbacks/0-EarlyStopping/weights/d1/bias"}) {
    haddr_t offset = 0;
    {
      const Hdf5Guard guard;
      const Hdf5File opened(H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
      const Hdf5Dataset dataset = open_dataset(opened.native(), name, file.string());
      offset = H5Dget_offset(dataset.native());
    }
    std::string damaged = bytes;
    damaged[offset + 5] = static_cast<char>(damaged[offset + 5] ^ 16);
    std::ofstream("named.h5", std::ios::binary) << damaged;
    const CheckpointReader reader("named.h5");
    REQUIRE(reader.verify().size() == 1);
    CHECK_THAT(reader.verify()[0],
               Catch::Contains("named.h5: ") && Catch::Contains(name) && Catch::Contains("[0:3]"));
    CHECK_THROWS_AS(reader.read(*reader.find(name)), DamagedCheckpoint);
  }
}

TEST_CASE("a truncated file is found at every length") {
  const fs::path file = small_checkpoint();
  const std::string bytes = content(file);
  std::vector<std::size_t> lengths{0, 1, 7, 8, 9, 47, 48, 95, 96, 97, 511, 512, 2047, 2048, 4096};
  for (int i = 1; i < 64; ++i) lengths.push_back(bytes.size() * static_cast<std::size_t>(i) / 64);
  for (const std::size_t off : {1, 2, 8, 100, 1000}) lengths.push_back(bytes.size() - off);
  for (const std::size_t length : lengths) {
    INFO(length << " of " << bytes.size() << " bytes");
    std::ofstream("short.h5", std::ios::binary) << bytes.substr(0, length);
    CHECK_THROWS_AS(CheckpointReader("short.h5"), DamagedCheckpoint);
    CHECK_THROWS_WITH(CheckpointReader("short.h5"), Catch::Contains("short.h5"));
  }
}

TEST_CASE(
    "a table of checksums that was made to mislead is an error, though its own hash is right") {
  struct Case {
    std::size_t column;
    std::uint64_t value;
    std::string said;
  };
  constexpr std::uint64_t top = std::uint64_t{1} << 63;
  for (const Case& one :
       {Case{0, top, "is none"}, Case{2, top, "is none"}, Case{2, top + 1, "is none"},
        Case{2, ~std::uint64_t{0}, "is none"}, Case{2, 7, "is none"},
        Case{3, ~std::uint64_t{0} - 4, "has the range"}, Case{4, top, "has the range"}}) {
    INFO("column " << one.column << " is " << one.value);
    const fs::path file = small_checkpoint();
    change_table(file, [&](std::vector<std::uint64_t>& table) { table[one.column] = one.value; });
    CHECK_THROWS_AS(CheckpointReader(file), DamagedCheckpoint);
    CHECK_THROWS_WITH(CheckpointReader(file), Catch::Contains(one.said));
  }
}

TEST_CASE("a range of the table beyond its dataset is damage") {
  const fs::path file = small_checkpoint();
  constexpr std::size_t columns = 7;  // for tensors of at most 2 dimensions
  change_table(file, [](std::vector<std::uint64_t>& table) {
    for (std::size_t end = 4; end < table.size(); end += columns) {
      table[end] = std::uint64_t{1} << 62;
    }
  });
  const CheckpointReader reader(file);
  CHECK(!reader.verify().empty());
}

TEST_CASE("a table of no rows has no more columns than regions have") {
  const fs::path file = small_checkpoint();
  test::change_file(file, [](hid_t opened) {
    REQUIRE(H5Ldelete(opened, "checksums/regions", H5P_DEFAULT) >= 0);
    (void)create_dataset(opened, "checksums/regions", H5T_STD_U64LE, {0, std::int64_t{1} << 40},
                         "test");
    test::mend_table(opened);
  });
  CHECK_THROWS_AS(CheckpointReader(file), DamagedCheckpoint);
  CHECK_THROWS_WITH(CheckpointReader(file),
                    Catch::Contains("the table of checksums has the shape (0, 1099511627776)"));
}

TEST_CASE("what is no checkpoint is said to be none") {
  CHECK_THROWS_WITH(CheckpointReader("nowhere.h5"), Catch::Contains("there is no such file"));
  fs::create_directories("folder.h5");
  CHECK_THROWS_WITH(CheckpointReader("folder.h5"), Catch::Contains("is a directory"));
  std::ofstream("text.h5") << "just a text, longer than HDF5's signature";
  CHECK_THROWS_WITH(CheckpointReader("text.h5"), Catch::Contains("no HDF5 file"));
  {
    const Hdf5Guard guard;
    Hdf5File other(H5Fcreate("other.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    other.close("other.h5");
  }
  CHECK_THROWS_WITH(CheckpointReader("other.h5"), Catch::Contains("no checkpoint of Meshwork"));
}

TEST_CASE("an attribute of another value, type or name is damage, and its object is named") {
  struct Case {
    std::string object;
    std::function<void(hid_t file)> change;
  };
  for (const Case& one : std::vector<Case>{
           {"/", [](hid_t file) { change_attribute(file, "/", "step", std::int64_t{-1}); }},
           {"/", [](hid_t file) { change_attribute(file, "/", "epoch", 3.0); }},
           {"/", [](hid_t file) { H5Arename(file, "mesh", "mash"); }},
           {"state", [](hid_t file) { change_attribute(file, "state", "learning_rate", 0.5); }},
           {"state",
            [](hid_t file) { H5Adelete_by_name(file, "state", "precision", H5P_DEFAULT); }},
           {"params/d1",
            [](hid_t file) {
              write_attribute(open_group(file, "params/d1", "test").native(), "note",
                              std::string("mine"), "test");
            }},
           {"slots/d1/bias/momentum",
            [](hid_t file) {
              change_attribute(file, "slots/d1/bias/momentum", "layout", std::string("[x]"));
            }},
           {"callbacks/0-EarlyStopping/numbers",
            [](hid_t file) {
              change_attribute(file, "callbacks/0-EarlyStopping/numbers", "wait", 0.0);
            }},
           {"state/data", [](hid_t file) { H5Ldelete(file, "state/data", H5P_DEFAULT); }},
           {"params/mine", [](hid_t file) { (void)create_group(file, "params/mine", "test"); }},
           {"params/soft",
            [](hid_t file) {
              H5Lcreate_soft("/state", file, "params/soft", H5P_DEFAULT, H5P_DEFAULT);
            }},
           {"params/virtual",
            [](hid_t file) {
              const Hdf5Dataspace space(H5Screate(H5S_SCALAR));
              const Hdf5Properties creation(H5Pcreate(H5P_DATASET_CREATE));
              H5Pset_virtual(creation.native(), space.native(), "nowhere.h5", "x", space.native());
              const Hdf5Dataset made(H5Dcreate2(file, "params/virtual", H5T_NATIVE_FLOAT,
                                                space.native(), H5P_DEFAULT, creation.native(),
                                                H5P_DEFAULT));
              REQUIRE(made.exists());
            }},
           {"params/again", [](hid_t file) {
              H5Lcreate_hard(file, "/", file, "params/again", H5P_DEFAULT, H5P_DEFAULT);
            }}}) {
    INFO(one.object);
    const fs::path file = small_checkpoint();
    change_file(file, one.change);
    CHECK_THROWS_AS(CheckpointReader(file), DamagedCheckpoint);
    CHECK_THROWS_WITH(CheckpointReader(file), Catch::Contains("small.h5: " + one.object + ": "));
  }
}

TEST_CASE("the list of objects is covered by the table's hash") {
  const fs::path file = small_checkpoint();
  change_file(file, [](hid_t opened) {
    change_attribute(opened, "/", "step", std::int64_t{7});
    const std::uint64_t before = read_number<std::uint64_t>(
        open_group(opened, "checksums", "test").native(), "hash", "test");
    mend(opened);
    change_attribute(opened, "checksums", "hash", before);
  });
  CHECK_THROWS_WITH(CheckpointReader(file), Catch::Contains("the table of checksums is damaged"));
}

TEST_CASE("numbers that cannot be are damage, though all checksums are right") {
  for (const auto& [object, name] :
       {std::pair{"/", "step"}, {"/", "epoch"}, {"state", "batch"}, {"state", "samples"}}) {
    INFO(name);
    const fs::path file = small_checkpoint();
    change_file(file, [&](hid_t opened) {
      change_attribute(opened, object, name, std::int64_t{-1});
      mend(opened);
    });
    CHECK_THROWS_AS(CheckpointReader(file), DamagedCheckpoint);
    CHECK_THROWS_WITH(CheckpointReader(file),
                      Catch::Contains(fmt::format("attribute \"{}\" is -1", name)));
  }
}

TEST_CASE("a file of the first format is read, and says that its attributes are not protected") {
  const fs::path file = small_checkpoint();
  const CheckpointState state = CheckpointReader(file).state();
  CHECK(CheckpointReader(file).format_version() == 2);
  CHECK(CheckpointReader(file).protects_attributes());
  change_file(file, make_version_1);
  {
    const CheckpointReader reader(file);
    CHECK(reader.format_version() == 1);
    CHECK(!reader.protects_attributes());
    CHECK(reader.state() == state);
    CHECK(reader.verify().empty());
  }
  change_file(file, [](hid_t opened) { change_attribute(opened, "/", "step", std::int64_t{7}); });
  CHECK(CheckpointReader(file).state().step == 7);
  CHECK(CheckpointReader(file).verify().empty());
}

TEST_CASE("a file does not lose its protection by the version that it names") {
  for (const std::int64_t version : {-1, 0, 1}) {
    const fs::path file = small_checkpoint();
    change_file(file,
                [&](hid_t opened) { change_attribute(opened, "/", "format_version", version); });
    CHECK_THROWS_AS(CheckpointReader(file), DamagedCheckpoint);
    CHECK_THROWS_WITH(CheckpointReader(file), Catch::Contains("format version"));
  }
}

TEST_CASE("what other programs need for listing a file is looked at in verifying") {
  // The header of a free-space manager, which readers of attributes do not need.
  const fs::path file = small_checkpoint();
  change_file(file, make_version_1);
  std::string bytes = content(file);
  std::int64_t headers = 0;
  for (std::size_t at = bytes.find("FSHD"); at != std::string::npos;
       at = bytes.find("FSHD", at + 1)) {
    std::string damaged = bytes;
    damaged[at + 10] = static_cast<char>(damaged[at + 10] ^ 1);
    std::ofstream("unlisted.h5", std::ios::binary) << damaged;
    ++headers;
    const CheckpointReader reader("unlisted.h5");
    REQUIRE(reader.verify().size() == 1);
    CHECK_THAT(reader.verify()[0], Catch::Contains("cannot be listed"));
  }
  CHECK(headers > 0);
}

TEST_CASE("a newer format is an error that names both versions, not damage") {
  const fs::path file = small_checkpoint();
  change_file(
      file, [](hid_t opened) { change_attribute(opened, "/", "format_version", std::int64_t{7}); });
  CHECK_THROWS_WITH(CheckpointReader(file), Catch::Contains("format version 7") &&
                                                Catch::Contains("reads versions up to 2"));
  try {
    const CheckpointReader reader(file);
  } catch (const DamagedCheckpoint&) {
    FAIL("it is not damaged");
  } catch (const Error&) {
  }
}

}  // namespace meshwork::damage_test
