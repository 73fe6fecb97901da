// Files that are wrong in ways nobody thought of, through every parser of files: each is read, or
// refused with an Error. The long version: MESHWORK_FUZZ_INPUTS=100000.
#include <sys/wait.h>
#include <zlib.h>

#include "launch/commands.h"
#include "launch/session.h"
#include "runtime/checkpoint/keras_weights.h"
#include "runtime/checkpoint/reader.h"
#include "runtime/config/load.h"
#include "runtime/data/csv.h"
#include "runtime/data/hdf5.h"
#include "runtime/data/idx.h"
#include "runtime/data/image_files.h"
#include "runtime/data/npy.h"
#include "runtime/data/npz.h"
#include "runtime/train/engine/kernels_file.h"
#include "tests/runtime/checkpoint/example.h"
#include "tests/runtime/checkpoint/mended.h"
#include "tests/runtime/data/image_bytes.h"
#include "tests/support/fuzz_files.h"

// Memory that was given back is to count as such.
extern "C" const char* __asan_default_options() {
  return "quarantine_size_mb=16";
}

namespace meshwork::fuzz_files_test {
namespace {

namespace fs = std::filesystem;
using test::Mutator;

const std::uint64_t inputs = test::fuzz_inputs(2000);

// The same changes for the same number, whichever were tried before.
Mutator mutator_of(std::uint64_t number) {
  return Mutator(20261123 + number);
}

// Whether it was read.
template <class Read>
bool read_or_refuse(const Read& read) {
  try {
    read();
    return true;
  } catch (const Error& error) {
    if (std::string_view(error.what()).empty()) throw std::runtime_error("an error without words");
    return false;
  }
}

bool read_checkpoint(const fs::path& file) {
  return read_or_refuse([&] {
    const CheckpointReader reader(file);
    (void)reader.verify();
    for (const CheckpointTensor& tensor : reader.tensors()) (void)reader.read(tensor);
  });
}

bool read_weights(const fs::path& file) {
  return read_or_refuse([&] {
    const KerasWeightsReader reader(file);
    for (const KerasArray& array : reader.arrays()) {
      std::vector<float> values(static_cast<std::size_t>(element_count(array.shape)));
      reader.read(array, whole(array.shape), values);
      if (values.size() == 1) (void)reader.read_number(array.place);
    }
  });
}

void read_samples(const Source& source) {
  for (int field = 0; field < source.field_count(); ++field) {
    source.prepare(field);
    const std::int64_t bytes =
        element_count(source.field(field).shape) * element_bytes(source.field(field).type);
    if (source.rows() == 0 || bytes > 1 << 20) continue;
    std::vector<std::byte> sample(static_cast<std::size_t>(bytes));
    for (const std::int64_t row : {std::int64_t{0}, source.rows() / 2, source.rows() - 1}) {
      source.read(field, std::span(&row, 1), whole(source.field(field).shape), sample.data());
    }
  }
}

// Runs `action`, which needs MPI, in a process of its own: the readers are to work without.
void with_mpi(const std::function<void()>& action) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    int status = 1;
    try {
      MpiEnvironment environment(nullptr, nullptr);
      action();
      status = 0;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    ::_exit(status);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
}

std::string small_checkpoint() {
  const fs::path file = fs::current_path() / "whole.h5";
  with_mpi([&] {
    const std::vector<float> kernel(35, 1.5f);
    std::vector<TensorPart> parts;
    for (const auto& [kind, slot, callback] :
         {std::tuple{TensorKind::variable, "", -1}, std::tuple{TensorKind::slot, "momentum", -1},
          std::tuple{TensorKind::kept, "", 0}}) {
      parts.push_back({{kind, "d1/kernel", slot, callback, true, {5, 7}, "[~, ~]", 0},
                       whole({5, 7}),
                       kernel.data()});
    }
    write_checkpoint(Communicator::self(), file, test::example_state(), parts,
                     {CheckpointWriter::plain});
  });
  REQUIRE(read_checkpoint(file));
  return test::bytes_of(file);
}

std::string small_weights() {
  const fs::path file = fs::current_path() / "whole.weights.h5";
  {
    KerasWeightsWriter writer(file);
    const std::vector<float> values(24, 0.5f);
    for (const char* layer : {"dense", "dense_1", "conv2d"}) {
      writer.write(fmt::format("layers/{}/vars/0", layer), {6, 4}, values);
      writer.write(fmt::format("layers/{}/vars/1", layer), {4}, std::span(values).first(4));
    }
    writer.write_integer("optimizer/vars/0", 17);
    writer.finish();
  }
  return test::bytes_of(file);
}

std::string small_data() {
  const fs::path file = fs::current_path() / "data.h5";
  {
    const Hdf5Guard guard;
    Hdf5File opened(H5Fcreate(file.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    const std::array<hsize_t, 3> shape{40, 6, 5}, chunk{7, 4, 3};
    const Hdf5Dataspace space(H5Screate_simple(3, shape.data(), nullptr));
    const std::vector<float> values(40 * 6 * 5, 2.5f);
    for (const char* name : {"plain", "packed"}) {
      const Hdf5Properties creation(H5Pcreate(H5P_DATASET_CREATE));
      if (std::string_view(name) == "packed") {
        REQUIRE(H5Pset_chunk(creation.native(), 3, chunk.data()) >= 0);
        REQUIRE(H5Pset_shuffle(creation.native()) >= 0);
        REQUIRE(H5Pset_deflate(creation.native(), 4) >= 0);
        REQUIRE(H5Pset_fletcher32(creation.native()) >= 0);
      }
      const Hdf5Dataset dataset(H5Dcreate2(opened.native(), name, H5T_IEEE_F32LE, space.native(),
                                           H5P_DEFAULT, creation.native(), H5P_DEFAULT));
      REQUIRE(H5Dwrite(dataset.native(), H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                       values.data()) >= 0);
    }
    opened.close("data.h5");
  }
  return test::bytes_of(file);
}

std::string packed(const std::string& bytes) {
  const fs::path file = fs::current_path() / "packed.gz";
  const gzFile stream = gzopen(file.c_str(), "wb");
  REQUIRE(stream != nullptr);
  REQUIRE(gzwrite(stream, bytes.data(), static_cast<unsigned>(bytes.size())) ==
          static_cast<int>(bytes.size()));
  REQUIRE(gzclose(stream) == Z_OK);
  return test::bytes_of(file);
}

// Gives one attribute or one small list of a checkpoint other values, and makes all checksums of it
// right again.
void change_and_mend(Mutator& mutator, hid_t file) {
  static constexpr std::array<std::int64_t, 12> numbers{0,
                                                        1,
                                                        -1,
                                                        2,
                                                        7,
                                                        255,
                                                        1 << 20,
                                                        std::int64_t{1} << 31,
                                                        std::int64_t{1} << 40,
                                                        std::int64_t{1} << 62,
                                                        std::numeric_limits<std::int64_t>::max(),
                                                        std::numeric_limits<std::int64_t>::min()};
  std::vector<std::string> paths;
  for (const ObjectHash& object : hash_objects(file, "test")) paths.push_back(object.path);
  const std::string path = paths[mutator.below(paths.size())];
  if (path == "checksums" || path.starts_with("checksums/object")) return;
  const Hdf5Object object(H5Oopen(file, path.c_str(), H5P_DEFAULT));
  const std::vector<std::string> attributes = attribute_names(object.native(), "test");
  if (!attributes.empty() && mutator.below(3) > 0) {
    const std::string name = attributes[mutator.below(attributes.size())];
    if (name == "hash") return;  // which is made right
    H5Adelete(object.native(), name.c_str());
    switch (mutator.below(5)) {
      case 0:
        write_attribute(object.native(), name, numbers[mutator.below(numbers.size())], "test");
        break;
      case 1:
        write_attribute(object.native(), name,
                        static_cast<std::uint64_t>(numbers[mutator.below(numbers.size())]), "test");
        break;
      case 2:
        write_attribute(object.native(), name, mutator.below(2) == 0 ? -1.5 : 1e308 * 10, "test");
        break;
      case 3:
        write_attribute(object.native(), name, mutator.mutate("d1/kernel"), "test");
        break;
      default:  // it is missing
        break;
    }
  } else if (H5Iget_type(object.native()) == H5I_DATASET) {
    const Hdf5Dataset dataset = open_dataset(file, path, "test");
    std::vector<std::byte> bytes = read_bytes(dataset, "test");
    std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const std::size_t length = text.size();
    text = test::mutated_bytes(mutator, text);
    text.resize(length);
    const Hdf5Datatype type(H5Dget_type(dataset.native()));
    H5Dwrite(dataset.native(), type.native(), H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data());
  } else if (mutator.below(2) == 0) {
    H5Ldelete(file, path.c_str(), H5P_DEFAULT);
  } else {
    H5Lmove(file, path.c_str(), file, mutator.mutate(path).c_str(), H5P_DEFAULT, H5P_DEFAULT);
  }
}

// Of regions that are a whole dataset: what was changed is not found by its hash.
void mend_regions(hid_t file) {
  const Hdf5Dataset names = open_dataset(file, "checksums/datasets", "test");
  const Hdf5Dataset table = open_dataset(file, "checksums/regions", "test");
  const Shape shape = shape_of(table, "test");
  const Hdf5Datatype type(H5Dget_type(names.native()));
  const std::size_t width = H5Tget_size(type.native());
  const std::vector<std::byte> texts = read_bytes(names, "test");
  std::vector<std::byte> bytes = read_bytes(table, "test");
  for (std::int64_t i = 0; i < shape[0]; ++i) {
    std::byte* const row = bytes.data() + i * shape[1] * 8;
    std::uint64_t number = 0;
    std::memcpy(&number, row, 8);
    if ((number + 1) * width > texts.size()) continue;
    std::string name(reinterpret_cast<const char*>(texts.data()) + number * width, width);
    name = name.c_str();
    if (H5Lexists(file, name.c_str(), H5P_DEFAULT) <= 0) continue;
    Hash hash;
    hash.add(read_bytes(open_dataset(file, name, "test"), "test"));
    const std::uint64_t value = hash.value();
    std::memcpy(row + 8, &value, 8);
  }
  H5Dwrite(table.native(), H5T_NATIVE_UINT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data());
}

// The list of objects and their hashes, as they are now.
void mend_objects(hid_t file) {
  for (const char* name : {"checksums/objects", "checksums/object_hashes"}) {
    if (H5Lexists(file, name, H5P_DEFAULT) > 0) H5Ldelete(file, name, H5P_DEFAULT);
  }
  // They are among the objects themselves, with a type that the longest path makes.
  std::vector<ObjectHash> objects = hash_objects(file, "test");
  std::size_t width = std::string_view("checksums/object_hashes").size();
  for (const ObjectHash& object : objects) width = std::max(width, object.path.size());
  const auto count = static_cast<std::int64_t>(objects.size()) + 2;
  const Hdf5Datatype text = text_type(width, "test");
  const Hdf5Dataset paths =
      create_dataset(file, "checksums/objects", text.native(), {count}, "test");
  const Hdf5Dataset hashes =
      create_dataset(file, "checksums/object_hashes", H5T_STD_U64LE, {count}, "test");
  objects = hash_objects(file, "test");
  std::string texts;
  std::vector<std::uint64_t> values;
  for (const ObjectHash& object : objects) {
    texts += object.path;
    texts.resize(values.size() * width + width, '\0');
    values.push_back(object.hash);
  }
  H5Dwrite(paths.native(), text.native(), H5S_ALL, H5S_ALL, H5P_DEFAULT, texts.data());
  H5Dwrite(hashes.native(), H5T_NATIVE_UINT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
  test::mend_table(file);
}

}  // namespace

TEST_CASE("mutated checkpoints are read or refused") {
  const std::string whole = small_checkpoint();
  test::FileFuzzer("checkpoint", ".h5")
      .run(inputs, [&](std::uint64_t number, const fs::path& file) {
        Mutator mutator = mutator_of(number);
        test::put_bytes(file, test::mutated_bytes(mutator, whole));
        return read_checkpoint(file);
      });
}

TEST_CASE("changed checkpoints whose checksums are right are read or refused") {
  const std::string whole = small_checkpoint();
  test::FileFuzzer("mended", ".h5").run(inputs, [&](std::uint64_t number, const fs::path& file) {
    Mutator mutator = mutator_of(number);
    test::put_bytes(file, whole);
    (void)read_or_refuse([&] {
      const Hdf5Guard guard;
      Hdf5File opened(H5Fopen(file.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
      for (std::size_t changes = 1 + mutator.below(2); changes > 0; --changes) {
        change_and_mend(mutator, opened.native());
      }
      mend_regions(opened.native());
      mend_objects(opened.native());
      opened.close("test");
    });
    return read_checkpoint(file);
  });
}

TEST_CASE("mutated weights are read or refused") {
  const std::string whole = small_weights();
  test::FileFuzzer("weights", ".weights.h5")
      .run(inputs, [&](std::uint64_t number, const fs::path& file) {
        Mutator mutator = mutator_of(number);
        test::put_bytes(file, test::mutated_bytes(mutator, whole));
        return read_weights(file);
      });
}

TEST_CASE("mutated HDF5 data are read or refused") {
  const std::string whole = small_data();
  test::FileFuzzer("data", ".h5").run(inputs, [&](std::uint64_t number, const fs::path& file) {
    Mutator mutator = mutator_of(number);
    test::put_bytes(file, test::mutated_bytes(mutator, whole));
    bool read = false;
    for (const char* name : {"absent", "plain", "packed"}) {
      read = read_or_refuse([&] {
        read_samples(Hdf5Source({{.name = "x", .location = {file.string(), name}}},
                                {.virtual_sources = number % 2 == 0, .sparse = number % 3 == 0}));
      });
    }
    return read;
  });
}

TEST_CASE("mutated IDX files are read or refused") {
  std::string plain{'\0', '\0', 8, 3, 0, 0, 0, 10, 0, 0, 0, 6, 0, 0, 0, 5};
  for (int i = 0; i < 300; ++i) plain += static_cast<char>(i);
  const std::string zipped = packed(plain);
  test::FileFuzzer("idx", ".idx").run(inputs, [&](std::uint64_t number, const fs::path& file) {
    Mutator mutator = mutator_of(number);
    // Within the stream, or of it.
    const std::string bytes = number % 3 == 0   ? test::mutated_bytes(mutator, plain)
                              : number % 3 == 1 ? test::mutated_bytes(mutator, zipped)
                                                : packed(test::mutated_bytes(mutator, plain));
    test::put_bytes(file, bytes);
    return read_or_refuse([&] { read_samples(IdxSource({{"x", file}})); });
  });
}

TEST_CASE("mutated images are read or refused") {
  const std::array<std::string, 3> images{test::png(3, 2, 8, 0, "abcdef"), test::grey_jpeg(),
                                          test::color_jpeg()};
  test::FileFuzzer("image", ".png").run(inputs, [&](std::uint64_t number, const fs::path& file) {
    Mutator mutator = mutator_of(number);
    test::put_bytes(file, test::mutated_bytes(mutator, images[number % 3]));
    return read_or_refuse([&] {
      const PlainFile opened(file, "an image");
      const ImageHeader header = read_image_header(opened);
      // Which a source takes the first image's word for.
      if (header.size.height * header.size.width > 1 << 22) fail("another size than the others");
      std::vector<std::byte> bytes(static_cast<std::size_t>(opened.bytes()));
      opened.read(0, bytes.data(), opened.bytes());
      const int channels = number % 2 == 0 ? 1 : 3;
      std::vector<std::byte> pixels(
          static_cast<std::size_t>(header.size.height * header.size.width * channels));
      decode_image(bytes, header, channels, file.string(), pixels.data());
    });
  });
}

TEST_CASE("mutated tables are read or refused") {
  const std::string whole =
      "age,city,price\n59,\"Paris\",1.5e3\n-1,Oslo,20\n7,\"a \"\"b\"\", c\",0.25\n8,Rome,12\n";
  const std::string zipped = packed(whole);
  test::FileFuzzer("csv", ".csv").run(inputs, [&](std::uint64_t number, const fs::path& file) {
    Mutator mutator = mutator_of(number);
    test::put_bytes(file, number % 4 == 0   ? test::mutated_bytes(mutator, zipped)
                          : number % 4 == 1 ? mutator.mutate(whole)
                                            : test::mutated_bytes(mutator, whole));
    return read_or_refuse([&] {
      read_samples(CsvSource({.path = file}, {{"x", {"age", "price"}}, {"city", {"city"}}}));
    });
  });
}

TEST_CASE("mutated npy files are read or refused") {
  const std::string header = "{'descr': '<f8', 'fortran_order': False, 'shape': (10, 6, 5), }   \n";
  const std::string whole = "\x93NUMPY\1" + std::string(1, '\0') +
                            static_cast<char>(header.size()) + std::string(1, '\0') + header +
                            std::string(8 * 300, '\x3f');
  test::FileFuzzer("npy", ".npy").run(inputs, [&](std::uint64_t number, const fs::path& file) {
    Mutator mutator = mutator_of(number);
    // Nearly all of it is elements, which may have any value.
    const std::string begin = test::mutated_bytes(mutator, whole.substr(0, 10 + header.size()));
    test::put_bytes(file, number % 4 == 0 ? test::mutated_bytes(mutator, whole)
                                          : begin + whole.substr(10 + header.size()));
    return read_or_refuse([&] { read_samples(NpySource({{"x", file}})); });
  });
}

TEST_CASE("mutated npz files are read or refused") {
  // What numpy.savez_compressed("data.npz", x=numpy.zeros((40, 3), "f4")) and savez write.
  const fs::path file_of_python = fs::current_path() / "whole.npz";
  const std::string program =
      "import numpy; numpy.savez{}('{}', x=numpy.arange(40, dtype='f4').reshape(20, 2))";
  std::array<std::string, 2> archives;
  for (const bool packed : {false, true}) {
    const std::string command =
        "/usr/bin/python3 -c \"" +
        fmt::format(fmt::runtime(program), packed ? "_compressed" : "", file_of_python.string()) +
        "\" 2>/dev/null";
    if (std::system(command.c_str()) != 0) {
      WARN("SKIPPED: /usr/bin/python3 has no NumPy");
      return;
    }
    archives[packed ? 1 : 0] = test::bytes_of(file_of_python);
  }
  test::FileFuzzer("npz", ".npz").run(inputs, [&](std::uint64_t number, const fs::path& file) {
    Mutator mutator = mutator_of(number);
    test::put_bytes(file, test::mutated_bytes(mutator, archives[number % 2]));
    return read_or_refuse([&] { read_samples(NpzSource(file, {{"x", "x"}})); });
  });
}

TEST_CASE("mutated files of kernels are read or refused") {
  const fs::path first = fs::current_path() / "whole.yaml";
  write_kernel_records(
      first,
      {{"some processor, 1 thread",
        {"some processor, 1 thread",
         {{"matmul 64x256x784 bias relu", "gemm"}, {"matmul tn 784x256x64", "primitive"}}}}});
  const std::string whole = test::bytes_of(first);
  test::FileFuzzer("kernels", ".yaml").run(inputs, [&](std::uint64_t number, const fs::path& file) {
    Mutator mutator = mutator_of(number);
    test::put_bytes(file,
                    number % 2 == 0 ? mutator.mutate(whole) : test::mutated_bytes(mutator, whole));
    return read_or_refuse([&] { (void)read_kernel_records(file); });
  });
}

TEST_CASE("mutated YAML files are read or refused") {
  const std::string whole = test::bytes_of(MESHWORK_SOURCE_DIR "/configs/branches.yaml");
  test::FileFuzzer("yaml", ".yaml").run(inputs, [&](std::uint64_t number, const fs::path& file) {
    Mutator mutator = mutator_of(number);
    test::put_bytes(file,
                    number % 2 == 0 ? mutator.mutate(whole) : test::mutated_bytes(mutator, whole));
    return read_or_refuse([&] {
      CommandLine line;
      line.config = file.string();
      (void)read_run(line);
    });
  });
}

}  // namespace meshwork::fuzz_files_test
